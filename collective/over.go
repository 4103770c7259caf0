package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/net/route"
)

// Ranks are processes that know their numbers already and have a way to exchange small
// values, such as the store of a framework that started them.
type Ranks struct {
	Rank, Size int

	// Name is what errors call the group, the same on all ranks. Empty: "world".
	Name string

	// Secret is known to the ranks alone. Without one all ranks must be on this host.
	Secret []byte

	// Exchange gives every rank the values of all, by rank. Every rank calls it the same
	// number of times, at most five; values are below 4 KB.
	Exchange func(ctx context.Context, mine []byte) ([][]byte, error)
}

// InitOver makes the group of ranks. Every rank calls it; ctx bounds how long they wait
// for each other. Options.World, Options.Lookup and the environment have no part in it.
func InitOver(ctx context.Context, ranks *Ranks, o *Options) (*Group, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if ranks.Rank < 0 || ranks.Rank >= ranks.Size {
		return nil, fmt.Errorf("%w: %d of %d ranks", ErrRank, ranks.Rank, ranks.Size)
	}
	c.name = cmp.Or(ranks.Name, c.name)
	c.mesh = &route.MeshOptions{Secret: ranks.Secret, Logger: c.Logger, Bind: c.Bind}
	members, err := c.open(ctx, ranks.Rank, ranks.Size, ranks.Exchange)
	if err != nil {
		return nil, fmt.Errorf("collective: rank %d of %d: %w", ranks.Rank, ranks.Size, err)
	}
	g, err := c.make(ctx, ranks.Rank, members, 0)
	if err != nil {
		return nil, err
	}
	if err := meet(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}
