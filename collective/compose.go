package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/collective/internal/wide"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// compose makes the group's comm of what its layout asks for: nothing for one rank, shared memory when all are on one
// host, conns between hosts when each has one rank, and both otherwise.
func (g *Group) compose(ctx context.Context) error {
	fold := g.layout
	if len(g.options.Layout) > 0 {
		fold = newLayout(g.options.Layout)
	}
	switch {
	case g.size == 1:
		g.comm = solo{}
		return nil
	case len(g.layout.hosts) == 1:
		c, err := g.hostComm(ctx, fold.place[g.rank], fold.order, fold.sizes())
		if err != nil {
			return err
		}
		g.comm, g.alloc, g.sharers = inPlaces(c, fold), c, fold.order
		if fold.inOrder() {
			g.short, err = newShort(c, &g.lane.gate)
		}
		return err
	case len(g.layout.hosts) == g.size:
		c, err := g.wideComm(ctx, fold.place[g.rank], fold.order, fold.sizes())
		if err != nil {
			return err
		}
		g.comm = inPlaces(c, fold)
		return nil
	case !fold.equal(g.layout):
		return fmt.Errorf("%w: Layout %v, but the ranks are on hosts %v", ErrOption, g.options.Layout, g.layout.hostOf)
	}
	return g.composeHosts(ctx)
}

// composeHosts makes a comm for each of the ways that data takes: inside the host; between ranks of the same position on
// every host (rails), or between the first ones where hosts have different numbers of ranks; and for each pair that no rail
// connects, for sends.
func (g *Group) composeHosts(ctx context.Context) (err error) {
	h := &hosts{layout: g.layout, rank: g.rank, host: g.layout.hostOf[g.rank], pos: g.layout.posOf[g.rank], pairs: make([]comm, g.size)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	local := g.layout.hosts[h.host]
	h.inside = solo{}
	if len(local) > 1 {
		c, err := g.hostComm(ctx, h.pos, local, nil)
		if err != nil {
			return err
		}
		h.inside, h.alloc, g.alloc, g.sharers = c, c, c, local
	}
	h.rails = 1
	if g.layout.uniform() {
		h.rails = len(local)
	}
	h.across = solo{}
	if h.pos < h.rails {
		c, err := g.wideComm(ctx, h.host, h.rail(h.pos), nil)
		if err != nil {
			return err
		}
		h.across = c
	}
	for a := range g.size {
		for b := a + 1; b < g.size; b++ {
			if g.layout.hostOf[a] == g.layout.hostOf[b] || h.railed(a, b) || a != g.rank && b != g.rank {
				continue
			}
			me, other := 0, b
			if b == g.rank {
				me, other = 1, a
			}
			c, err := g.wideComm(ctx, me, []int{a, b}, nil)
			if err != nil {
				return err
			}
			h.pairs[other] = c
		}
	}
	g.comm = h
	return nil
}

func (g *Group) conns(ranks []int) []ipc.Conn {
	out := make([]ipc.Conn, len(ranks))
	for i, r := range ranks {
		if t := g.control.taps[r]; t != nil {
			out[i] = t
		}
	}
	return out
}

func (g *Group) hostComm(ctx context.Context, me int, ranks, fold []int) (*host.Comm, error) {
	c, err := host.New(ctx, me, g.conns(ranks), &host.Options{Timeout: g.options.Timeout, Logger: g.options.Logger, Fold: fold})
	return c, lift(err, ranks)
}

func (g *Group) wideComm(ctx context.Context, me int, ranks, fold []int) (*wide.Comm, error) {
	c, err := wide.New(ctx, me, g.conns(ranks), &wide.Options{Timeout: g.options.Timeout, Logger: g.options.Logger, Fold: fold, Waiter: g.options.Waiter})
	return c, lift(err, ranks)
}

// lift gives a comm's error the group's ranks: ranks[i] is the one that the comm calls i.
func lift(err error, ranks []int) error {
	var pe *plan.PeerError
	if err == nil || !errors.As(err, &pe) {
		return err
	}
	out := *pe
	if pe.Rank >= 0 && pe.Rank < len(ranks) {
		out.Rank = ranks[pe.Rank]
	}
	out.Missing = nil
	for _, r := range pe.Missing {
		if r >= 0 && r < len(ranks) {
			out.Missing = append(out.Missing, ranks[r])
		}
	}
	return &out
}
