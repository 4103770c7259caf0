package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/algorithm/crosshost"
	"github.com/ringside-go/ringside/collective/internal/algorithm/onehost"
	"github.com/ringside-go/ringside/ipc"
)

// compose makes the comm of a group as its layout asks for: nothing for one rank, shared
// memory when all are on one host, conns between hosts when each has one rank, and both
// otherwise.
func compose(ctx context.Context, g *Group) error {
	fold := g.layout
	if len(g.options.Layout) > 0 {
		fold = newLayout(g.options.Layout)
	}
	all := make([]int, g.size)
	for r := range all {
		all[r] = r
	}
	switch {
	case g.size == 1:
		g.comm = solo{}
	case len(g.layout.hosts) == 1:
		c, err := hostComm(ctx, g, g.rank, all, &fold)
		if err != nil {
			return err
		}
		g.comm, g.whole, g.shared, g.sharers = c, c, c, all
	case len(g.layout.hosts) == g.size:
		c, err := crossComm(ctx, g, g.rank, all, &fold)
		if err != nil {
			return err
		}
		g.comm = c
	case !fold.equal(g.layout):
		return fmt.Errorf("%w: Layout %v, but the ranks are on hosts %v", ErrOption, g.options.Layout, g.layout.hostOf)
	default:
		return composeHosts(ctx, g)
	}
	return nil
}

// composeHosts makes a comm for each way that data takes: inside the host; between ranks
// of the same position on every host (rails), or between the first ones where hosts have
// different numbers of ranks; and for each pair that no rail connects, for sends.
func composeHosts(ctx context.Context, g *Group) (err error) {
	l := g.layout
	h := newHosts(l, g.rank)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	local := h.local()
	if len(local) > 1 {
		c, err := hostComm(ctx, g, h.pos, local, nil)
		if err != nil {
			return err
		}
		h.inside, h.shared, g.shared, g.sharers = c, c, c, local
	}
	if h.pos < h.rails {
		c, err := crossComm(ctx, g, h.host, h.rail(h.pos), nil)
		if err != nil {
			return err
		}
		h.across = c
	}
	for other := range g.size {
		if other == g.rank || l.hostOf[other] == h.host || h.railed(g.rank, other) {
			continue
		}
		me := 0
		if other < g.rank {
			me = 1
		}
		c, err := crossComm(ctx, g, me, []int{min(g.rank, other), max(g.rank, other)}, nil)
		if err != nil {
			return err
		}
		h.pairs[other] = c
	}
	g.comm = h
	return nil
}

// connsOf returns the conns to the given ranks.
func connsOf(g *Group, ranks []int) []ipc.Conn {
	out := make([]ipc.Conn, len(ranks))
	for i, r := range ranks {
		if t := g.control.taps[r]; t != nil {
			out[i] = t
		}
	}
	return out
}

// hostComm makes a comm of ranks of this host, among which this one is number me, which
// folds as the ranks of a layout; nil: by number.
func hostComm(ctx context.Context, g *Group, me int, ranks []int, fold *layout) (*onehost.Comm, error) {
	o := &onehost.Options{Timeout: g.options.Timeout, Logger: g.options.Logger}
	if fold != nil {
		o.Fold, o.Order = fold.sizes(), fold.order
	}
	c, err := onehost.New(ctx, me, connsOf(g, ranks), o)
	return c, lift(err, ranks)
}

// crossComm makes a comm of ranks of different hosts, as hostComm does.
func crossComm(ctx context.Context, g *Group, me int, ranks []int, fold *layout) (*crosshost.Comm, error) {
	o := &crosshost.Options{Timeout: g.options.Timeout, Logger: g.options.Logger, Waiter: g.options.Waiter}
	if fold != nil {
		o.Fold, o.Order = fold.sizes(), fold.order
	}
	c, err := crosshost.New(ctx, me, connsOf(g, ranks), o)
	return c, lift(err, ranks)
}
