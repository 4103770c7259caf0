package route

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ringside-go/ringside/ipc"
)

// PairOptions describe one of two ends that talk to each other through a third and want a
// conn of their own.
type PairOptions struct {
	// Name of this end, for errors, and its role.
	Name string
	Role ipc.Role

	// Dials is set at exactly one end: the one that tries first. The other tries only if
	// the first fails, since of two hosts often only one can reach the other.
	Dials bool

	// Exchange gives the other end a text of at most 4 KB and returns the other's. Both
	// ends call it equally often, at most five times.
	Exchange func(ctx context.Context, mine []byte) (theirs []byte, err error)

	// Secret is known to both ends only.
	Secret []byte

	// TLS is the one of ipc.Options, at both ends or at none.
	TLS *ipc.TLS

	// Waiter, Bind, Dir, Logger and Order are as in MeshOptions.
	Waiter    ipc.Waiter
	Bind, Dir string
	Logger    *slog.Logger
	Order     []ipc.Transport
}

// Pair opens a conn to the other end, with the first transport and in the direction that
// gets through. Both ends call it. It sends only short texts through the third. The
// error, ErrPair, names both ends and all addresses that were tried, and is the same on
// both.
func Pair(ctx context.Context, o PairOptions) (ipc.Conn, error) {
	if len(o.Secret) == 0 || o.Exchange == nil {
		return nil, fmt.Errorf("%w: a pair needs Secret and Exchange", ipc.ErrBadOption)
	}
	rank := 0
	if o.Dials {
		rank = 1
	}
	m, err := newMesh(MeshOptions{
		Rank: rank, Size: 2, Name: o.Name[:min(len(o.Name), maxName)], Role: o.Role,
		Waiter: o.Waiter, Secret: o.Secret, TLS: o.TLS, Bind: o.Bind, Dir: o.Dir, Logger: o.Logger, Order: o.Order,
		Exchange: func(ctx context.Context, mine []byte) ([][]byte, error) {
			all := [][]byte{mine, mine}
			var err error
			all[1-rank], err = o.Exchange(ctx, mine)
			return all, err
		},
	})
	if err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		m.drop()
		other := ""
		if len(m.cards) == m.Size {
			other = m.cards[1-rank].Label
		}
		return nil, fmt.Errorf("%w: %q and %q: %w", ErrPair, o.Name, other, err)
	}
	return m.conns[1-rank], nil
}
