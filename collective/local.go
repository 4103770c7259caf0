package collective

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
)

// Local makes a group of n ranks in this process, for tests and examples, and returns it
// as each rank sees it. Each rank needs a goroutine of its own. They use shared memory as
// ranks of different processes do.
func Local(n int, o *Options) ([]*Group, error) { return localOn(make([]string, max(n, 0)), false, o) }

// localOn is Local of ranks that take themselves for being on the given hosts, where ""
// is this one; tcp: without shared memory.
func localOn(hosts []string, tcp bool, o *Options) ([]*Group, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(hosts) < 1 {
		return nil, fmt.Errorf("%w: a group of %d ranks", ErrRank, len(hosts))
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(c.Timeout, DefaultTimeout))
	defer cancel()
	secret := []byte(rand.Text())
	order := route.Order()
	if tcp {
		order = route.Apart()
	}
	board := newForum(len(hosts))
	groups, errs := make([]*Group, len(hosts)), make([]error, len(hosts))
	var wg sync.WaitGroup
	for rank := range hosts {
		wg.Go(func() {
			host := hosts[rank]
			mine := c
			mine.mesh = &route.MeshOptions{Secret: secret, Logger: c.Logger, Order: order, Host: host, Bind: "127.0.0.1"}
			members := []route.Member{{Host: host}}
			if len(hosts) > 1 {
				if members, errs[rank] = mine.open(ctx, rank, len(hosts), board.exchange(rank)); errs[rank] != nil {
					return
				}
			}
			groups[rank], errs[rank] = New(ctx, rank, members, &mine)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, g := range groups {
			if g != nil {
				err = errors.Join(err, g.Close())
			}
		}
		return nil, err
	}
	return groups, nil
}

// open opens conns, with a waiter of their own, between size ranks that exchange small
// values by the given function.
func (o *Options) open(ctx context.Context, rank, size int, exchange exchangeFunc) (_ []route.Member, err error) {
	if o.Waiter, err = local.NewWaiter(); err != nil {
		return nil, err
	}
	m := *o.mesh
	m.Rank, m.Size, m.Exchange, m.Waiter = rank, size, exchange, o.Waiter
	return route.Mesh(ctx, m)
}

// forum is an exchange among goroutines: in each round all post a value and wait for the
// others'.
type forum struct {
	mu     sync.Mutex
	n      int
	rounds [][][]byte
	full   []chan struct{} // closed when the round has all
	count  []int
}

// newForum returns the exchange of n goroutines.
func newForum(n int) *forum { return &forum{n: n} }

// exchange returns the function by which a rank exchanges.
func (b *forum) exchange(rank int) exchangeFunc {
	round := 0
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		b.mu.Lock()
		if round == len(b.rounds) {
			b.rounds = append(b.rounds, make([][]byte, b.n))
			b.full, b.count = append(b.full, make(chan struct{})), append(b.count, 0)
		}
		values, full := b.rounds[round], b.full[round]
		values[rank] = mine
		if b.count[round]++; b.count[round] == b.n {
			close(full)
		}
		round++
		b.mu.Unlock()
		select {
		case <-full:
			return values, nil
		case <-ctx.Done():
			return nil, ipc.ContextError(ctx)
		}
	}
}
