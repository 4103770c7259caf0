package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/ringside-go/ringside/net/route"
)

// Split makes a group of the ranks that give the same color, for every color at once;
// every rank calls it. A rank's number in its group is by key, and among equal keys by
// its rank here. A rank that gives a negative color gets nil and no group. The new group
// has conns of its own: its calls and this one's do not wait for each other.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	all := make([]int64, 2*g.size)
	if err := AllGather(ctx, g, all, []int64{int64(color), int64(key)}); err != nil {
		return nil, fmt.Errorf("split by color: %w", err)
	}
	var ranks []int
	for r := range g.size {
		if all[2*r] == int64(color) {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	name := fmt.Sprintf("%s/%d.%d", g.options.name, g.children.Add(1), color)
	if color < 0 {
		return nil, nil
	}
	return g.sub(ctx, name, ranks)
}

// Sub makes a group of the given ranks, which are renumbered in the order given. Every
// rank of this group calls it, with the same ranks; those that are not among them get
// nil.
func (g *Group) Sub(ctx context.Context, ranks ...int) (*Group, error) {
	color, key := -1, 0
	for i, r := range ranks {
		if err := g.has(r, "member"); err != nil {
			return nil, err
		}
		if slices.Contains(ranks[:i], r) {
			return nil, fmt.Errorf("%w: %d is listed twice", ErrRank, r)
		}
		if r == g.rank {
			color, key = 0, i
		}
	}
	return g.Split(ctx, color, key)
}

// sub makes a group of ranks over new conns, whose addresses travel over this group's.
func (g *Group) sub(ctx context.Context, name string, ranks []int) (*Group, error) {
	late := fmt.Errorf("%w: making of group %s", ErrTimeout, name)
	ctx, cancel := context.WithTimeoutCause(ctx, g.options.Timeout, late)
	defer cancel()
	alive, stop := g.control.while(ctx, ranks)
	defer stop()
	me := slices.Index(ranks, g.rank)
	if len(ranks) > 1 && g.options.mesh == nil {
		return nil, fmt.Errorf("%w: a group that New made of given conns cannot open others", ErrOption)
	}
	o := g.options
	o.name = name
	if len(o.Layout) > 0 {
		o.Layout = pick(o.Layout, ranks)
	}
	if o.inWorld = slices.Clone(ranks); g.options.inWorld != nil {
		o.inWorld = pick(g.options.inWorld, ranks)
	}
	members := []route.Member{{Host: g.host(g.rank)}}
	if len(ranks) > 1 {
		round := 0
		exchange := func(ctx context.Context, mine []byte) ([][]byte, error) {
			round++
			return g.control.gather(ctx, ranks, fmt.Sprintf("%s#%d", name, round), mine)
		}
		var err error
		if members, err = o.open(alive, me, len(ranks), exchange); err != nil {
			return nil, g.control.notMade(ctx, name, ranks, err)
		}
	}
	for i, r := range ranks {
		members[i].Name = g.members[r]
	}
	s, err := New(alive, me, members, &o)
	if err != nil {
		return nil, g.control.notMade(ctx, name, ranks, err)
	}
	return s, nil
}

// notMade returns why there is no group of ranks: one of them died, or err. The new conns
// may see an end a moment before this group's do.
func (c *control) notMade(ctx context.Context, name string, ranks []int, err error) error {
	ctx, cancel := context.WithTimeout(ctx, hearFor)
	defer cancel()
	var dead *Error
	_ = c.await(ctx, func() bool {
		dead = c.deadOf(ranks, fmt.Sprintf("group %s of ranks %v", name, ranks))
		return dead != nil
	})
	if dead != nil {
		return dead
	}
	return fmt.Errorf("collective: group %s of ranks %v: %w", name, ranks, err)
}

// stoppedFor is how long a process may say nothing before Shrink takes it for stopped,
// and does not wait for it to call.
const stoppedFor = 3 * time.Second

// Shrink makes a group of the ranks that are left after this one failed. Every survivor
// calls it, and closes this group afterwards. They agree on the survivors. A rank whose
// process died, which closed the group, or which does not call Shrink within
// Options.Timeout, is not among them, and its own Shrink returns ErrExcluded. Ranks are
// renumbered, in order.
//
// Ranks tell each other which ranks they take for alive until all of those say the same.
// When one of them dies before the new group stands, they do it again. Ranks that a
// broken network keeps apart for longer than Options.Timeout come out in groups of their
// own: a program that must not go on in two halves looks at Size.
//
// After this rank's Close it returns net.ErrClosed.
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	if g.closed.Load() {
		return nil, fmt.Errorf("collective: shrink of %s: %w", g.options.name, net.ErrClosed)
	}
	// of a death that was seen first in another group of the same ranks
	g.hear(2 * watchEvery)
	g.fail(&failure{Rank: g.rank, By: g.rank, err: fmt.Errorf("%w: it wants a smaller group", ErrAborted)})
	var alive []int
	for r, a := range g.control.whereabouts(ctx, min(stoppedFor, g.options.Timeout)) {
		if a != nil || r == g.rank {
			alive = append(alive, r)
		}
	}
	for round := 1; ; round++ {
		var err error
		if alive, err = g.control.agree(ctx, &round, alive); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s/shrunk.%d", g.options.name, round)
		s, err := g.sub(ctx, name, alive)
		if err == nil {
			if err = s.Barrier(ctx); err == nil {
				return s, nil
			}
			err = errors.Join(err, s.Close())
		}
		if ctx.Err() != nil || len(alive) == 1 {
			return nil, err
		}
		g.options.Logger.Warn("collective: shrink goes into another round", "group", g.options.name,
			"rank", g.rank, "error", err)
	}
}

// agree exchanges views of the ranks that are alive, from round on, until all in this
// rank's view have the same one.
func (c *control) agree(ctx context.Context, round *int, alive []int) ([]int, error) {
	g := c.group
	for ; ; *round++ {
		patience, cancel := context.WithTimeout(ctx, g.options.Timeout)
		answered, same, err := c.exchangeViews(patience, view{*round, alive})
		cancel()
		if ctx.Err() != nil { // err is nil if it ended while all had answered
			return nil, fmt.Errorf("collective: no agreement on the survivors: %w", ctx.Err())
		}
		next, excluded := c.nextView(*round, answered)
		if excluded || !slices.Contains(next, g.rank) {
			return nil, fmt.Errorf("%w: rank %d of %s", ErrExcluded, g.rank, g.options.name)
		}
		if err == nil && same && slices.Equal(next, alive) {
			return alive, nil
		}
		alive = next
	}
}

// exchangeViews sends this rank's view to all ranks and waits for the views of those in
// it. It returns the ranks that answered, this one included, and whether all have the
// same view.
func (c *control) exchangeViews(ctx context.Context, mine view) (answered []int, same bool, err error) {
	me := c.group.rank
	sent := map[int]bool{me: true}
	err = c.await(ctx, func() bool {
		answered, same = []int{me}, true
		waiting := false
		// a rank that was given up must hear of it, should it live
		for r := range c.peers {
			if !sent[r] {
				sent[r] = c.post(r, kindView, mine)
			}
		}
		for _, r := range mine.Ranks {
			p := &c.peers[r]
			if r == me {
				continue
			}
			v, ok := p.views[mine.Round]
			if p.dead != nil || p.bye {
				same = false
				continue
			}
			waiting = waiting || !ok || !sent[r]
			if ok {
				answered = append(answered, r)
				same = same && slices.Equal(v, mine.Ranks)
			}
		}
		return !waiting
	})
	return answered, same, err
}

// nextView returns the ranks that answered in a round, without those that one of them has
// given up; and whether a rank, which may have gone on and closed this group since, has
// excluded this one.
func (c *control) nextView(round int, answered []int) (next []int, excluded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(answered)
	next = slices.Clone(answered)
	for _, r := range answered {
		if v, ok := c.peers[r].views[round]; ok {
			next = slices.DeleteFunc(next, func(x int) bool { return !slices.Contains(v, x) })
		}
	}
	for _, p := range c.peers {
		v, ok := p.views[round]
		excluded = excluded || ok && (p.dead == nil || p.bye) && !slices.Contains(v, c.group.rank)
	}
	return next, excluded
}
