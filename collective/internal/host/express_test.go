package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
)

// TestExpress: what becomes of an express call, and that who makes none is not inside.
func TestExpress(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	if !hasExpress {
		noExpress(t, cs[0])
		return
	}
	meet := make(chan struct{})
	each(t, cs, func(c *Comm) error {
		q, err := c.Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
		if err != nil {
			return err
		}
		var g Gate
		g.Before.Store(40)
		x := q.Express(&g)
		starts := func(what string, want Outcome, inside uint64) error {
			if _, got := x.Barrier(); got != want || g.Inside[g.Opened] != inside {
				return fmt.Errorf("%s: outcome %d, inside %d, expected %d and %d", what, got, g.Inside[g.Opened], want, inside)
			}
			return nil
		}
		if err := starts("a closed gate", NotMade, 0); err != nil {
			return err
		}
		g.Holder.Store(Goroutine())
		if err := starts("nothing said yet", NotMade, 0); err != nil {
			return err
		}
		for seq := range uint64(10) { // which is what Before says
			if err := q.Barrier(ctx, seq+1); err != nil {
				return err
			}
		}
		c.window.epoch = c.epoch
		if err := starts("notices to be looked for", NotMade, 0); err != nil {
			return err
		}
		c.window.epoch = 0
		g.Holder.Store(Goroutine() + 8)
		if err := starts("a gate that is open for another", NotMade, 0); err != nil {
			return err
		}
		g.Holder.Store(Goroutine())
		g.Inside[0] = 1
		if err := starts("a call of this goroutine that a panic has ended", NotMade, 1); err != nil {
			return err
		}
		g.Opened = 1 // and this is another opening
		if c.rank == 0 {
			c.spins = 1
			if err := starts("the other is not there", begunAlone, 1); err != nil {
				return err
			}
			close(meet)
		} else {
			<-meet
			if err := starts("the other is there", Made, 0); err != nil {
				return err
			}
		}
		if c.rank == 0 {
			if err := x.End(ctx, 0, begunAlone, nil, nil); err != nil {
				return err
			}
			if x.Leave() || g.Inside[g.Opened] != 0 {
				return errors.New("a gate that nobody closed was closed")
			}
		}
		if g.Inside[0] != 1 {
			return errors.New("a call has changed the inside of an opening before")
		}
		if g.Calls != 1 || c.stats.calls != 11 || q.Call().Seq != 10+uint64(1-c.rank) {
			return fmt.Errorf("%d express calls of %d, the last that was written down is #%d", g.Calls, c.stats.calls, q.Call().Seq)
		}
		x.bell, x.always = &x.always, 1
		for range 3 { // a bell that is to be rung keeps it inside, as does the other's being late
			word, got := x.Barrier()
			if got != Begun && got != begunAlone {
				return fmt.Errorf("with a bell to be rung: outcome %d", got)
			}
			if err := x.End(ctx, word, got, nil, nil); err != nil {
				return err
			}
			g.Holder.Store(Closing)
			if !x.Leave() {
				return errors.New("a gate that was closed meanwhile was not")
			}
			g.Holder.Store(Goroutine())
		}
		return nil
	})
}

// TestExpressSums: express sums, prepared ones and plain ones of two ranks meet each other, and give alike.
func TestExpressSums(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, pipes(t, 2), nil)
	if !hasExpress {
		noExpress(t, cs[0])
		return
	}
	for _, dt := range []element.DType{element.F32, element.F64, element.BF16, element.I64} {
		n := briefSize / dt.Size()
		srcs := [][]byte{fill(rng, dt, n), fill(rng, dt, n)}
		want := reference(element.Sum, dt, 1, nil, srcs)
		call := plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: dt, Count: int64(n)}
		before := cs[0].stats.calls
		each(t, cs, func(c *Comm) error {
			q, err := c.Prepare(call, 1, briefSize)
			if err != nil {
				return err
			}
			var g Gate
			g.Holder.Store(Goroutine())
			g.Before.Store(4 * before)
			x := q.Express(&g)
			for i := range 40 {
				dst := make([]byte, briefSize)
				seq := g.Before.Load()/4 + g.Calls + 1
				if i%3 != c.rank { // ranks take other ways at other times
					if word, got := x.Sum(srcs[c.rank]); got != NotMade {
						err = x.End(ctx, word, got, dst, srcs[c.rank])
						x.Leave()
						seq = 0
					}
				}
				if seq != 0 {
					g.Before.Add(4)
					err = q.AllReduce(ctx, seq, dst, srcs[c.rank])
				}
				if err != nil || string(dst) != string(want) {
					return fmt.Errorf("%v, sum %d: %x, want %x: %w", dt, i, dst, want, err)
				}
			}
			if g.Calls == 0 {
				return fmt.Errorf("%v: no sum was an express call", dt)
			}
			return nil
		})
	}
}

// noExpress checks that there are no express calls where there is no code for them.
func noExpress(t *testing.T, c *Comm) {
	q, err := c.Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if q.Express(new(Gate)) != nil {
		t.Error("an express call without code for it")
	}
}
