package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/internal/host"
)

// expresses says whether there are express calls here: of two ranks of one host, where there is code for them and the system has fences.
func expresses(g *Group) bool { return g.short != nil && g.short.barrier.express != nil && canFence() }

// favoredPair makes a group of two whose ranks' goroutines have both become favored.
func favoredPair(t *testing.T) []*Group {
	groups, err := Local(2, &Options{Linger: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { all(t, groups, (*Group).Close) })
	return groups
}

// untilFavored makes barriers until those of the calling goroutine are express calls; the other ranks do the same.
func untilFavored(ctx context.Context, g *Group) error {
	for range favorAfter + 4 {
		if err := g.Barrier(ctx); err != nil {
			return err
		}
	}
	if expresses(g) && g.lane.gate.Holder.Load() != host.Goroutine() {
		return fmt.Errorf("rank %d: not favored after %d barriers", g.Rank(), favorAfter+4)
	}
	return nil
}

// TestFavored: a goroutine that makes brief calls again and again makes them as express calls, between others, which count and give alike.
func TestFavored(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	const n = 200
	all(t, groups, func(g *Group) error {
		if err := untilFavored(ctx, g); err != nil {
			return err
		}
		before, made := g.Stats().Calls, g.lane.gate.Calls
		if expresses(g) && made == 0 {
			return errors.New("no barrier was an express call")
		}
		x, y := []float32{0}, []int64{0}
		sum, err := AllReduceInit(g, x, x, Sum)
		if err != nil {
			return err
		}
		wide, err := AllReduceInit(g, y, y, Sum)
		if err != nil {
			return err
		}
		barrier := g.BarrierInit()
		for i := range n {
			x[0], y[0] = float32(i+g.Rank()), int64(i)<<40+int64(g.Rank())
			if err := errors.Join(sum.Run(ctx), sum.Run(ctx), wide.Run(ctx), wide.Run(ctx), barrier.Run(ctx), barrier.Run(ctx), g.Barrier(ctx)); err != nil {
				return err
			}
			if x[0] != 2*float32(2*i+1) || y[0] != 4*(int64(i)<<40)+2 {
				return fmt.Errorf("sums of round %d: %v and %v", i, x, y)
			}
			big := make([]float64, 300)
			big[299] = 1
			if err := AllReduce(ctx, g, big, big, Sum); err != nil || big[299] != 2 {
				return fmt.Errorf("a large sum: %v, %w", big[299], err)
			}
		}
		if got := g.Stats().Calls - before; got != 8*n {
			return fmt.Errorf("%d calls were counted of %d", got, 8*n)
		}
		// Of two calls of one kind in a row the first may have something to write down, the later ones have not.
		if got := g.lane.gate.Calls - made; expresses(g) && got < n {
			return fmt.Errorf("%d of %d calls were express calls", got, 8*n)
		}
		return nil
	})
}

// TestFavoredPlainSum: a goroutine that makes the same plain sum again and again makes it as an express call; one with other buffers, or of
// another kind, is made all the same, and right.
func TestFavoredPlainSum(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	const n = 200
	all(t, groups, func(g *Group) error {
		x, y := []float32{0}, []float32{0}
		z := []int32{0}
		sum := func(dst, src []float32, v float32) error {
			src[0] = v + float32(g.Rank())
			if err := AllReduce(ctx, g, dst, src, Sum); err != nil || dst[0] != 2*v+1 {
				return fmt.Errorf("the sum of %v and %v is %v, %w", v, v+1, dst[0], err)
			}
			return nil
		}
		for round := range 3 {
			made := g.lane.gate.Calls
			for i := range n {
				if err := sum(x, x, float32(i)); err != nil {
					return err
				}
			}
			if got := g.lane.gate.Calls - made; expresses(g) && got < n-2*favorAfter {
				return fmt.Errorf("round %d: %d of %d sums were express calls", round, got, n)
			}
			for i := range n {
				z[0] = int32(i)
				if err := errors.Join(sum(y, x, float32(i)), sum(y, x, float32(-i)), AllReduce(ctx, g, z, z, Max), sum(x, x, float32(i))); err != nil || z[0] != int32(i) {
					return fmt.Errorf("round %d: the larger of %d and %d is %d, %w", round, i, i, z[0], err)
				}
			}
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := AllReduce(over, g, x, x, Sum); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrAborted) { // by the other's
			return fmt.Errorf("a call whose context is over: %w", err)
		}
		return nil
	})
}

// TestFavoredAmongOthers: goroutines of one rank that make the same calls at the same time, started ones too, and take turns in being
// favored, run one at a time, and none waits for ever.
func TestFavoredAmongOthers(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	const goroutines, rounds = 4, 400
	all(t, groups, func(g *Group) error {
		var wg sync.WaitGroup
		errs := make([]error, goroutines)
		for i := range goroutines {
			wg.Go(func() {
				var err error
				own := make([]float32, 1)
				for r := range rounds {
					x := []float32{1}
					if i == 0 { // the same buffers again and again
						x, own[0] = own, 1
					}
					switch { // each makes a stretch of calls alone now and then; all are of one kind, for ranks may see them in any order
					case r%50 == 49:
						err = AllReduceAsync(ctx, g, x, x, Sum).Wait(ctx)
					case i%2 == 0:
						err = AllReduce(ctx, g, x, x, Sum)
					default:
						var p *Persistent
						if p, err = AllReduceInit(g, x, x, Sum); err == nil {
							err = p.Run(ctx)
						}
					}
					if err == nil && x[0] != 2 {
						err = fmt.Errorf("goroutine %d, round %d: %v, expected 2", i, r, x[0])
					}
					if err != nil {
						errs[i] = err
						return
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// TestFavoredIsOvertakenByNobody: a favored goroutine's call comes after what it has started before, and the one after it is made.
func TestFavoredIsOvertakenByNobody(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	all(t, groups, func(g *Group) error {
		for round := range 20 {
			if round < 3 { // later it takes more calls to be favored again
				for range favorAfter << round {
					if err := g.Barrier(ctx); err != nil {
						return err
					}
				}
				if err := untilFavored(ctx, g); err != nil {
					return err
				}
			}
			x := make([]float64, 1000)
			x[999] = 1
			w := AllReduceAsync(ctx, g, x, x, Sum)
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			if x[999] != 2 { // the barrier came after
				return fmt.Errorf("round %d: a barrier overtook a sum that was started: %v", round, x[999])
			}
			if err := w.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestFavoredInside: while a favored goroutine waits in a call, another's is queued, and goes on when that has left.
func TestFavoredInside(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	g := groups[0]
	if !expresses(g) { // then nobody is favored
		all(t, groups, func(g *Group) error { return untilFavored(ctx, g) })
		if h := g.lane.gate.Holder.Load(); h != 0 {
			t.Errorf("%d is favored", h)
		}
		return
	}
	ends := make(chan error, 3)
	first := make(chan struct{})
	go func() {
		ends <- untilFavored(ctx, g)
		close(first)
		ends <- g.Barrier(ctx)
	}()
	if err := errors.Join(untilFavored(ctx, groups[1]), <-ends); err != nil {
		t.Fatal(err)
	}
	<-first
	for !g.lane.inside() {
		if ctx.Err() != nil {
			t.Fatal("the goroutine was never inside")
		}
		runtime.Gosched()
	}
	go func() { ends <- g.Barrier(ctx) }()
	for g.lane.gate.Before.Load()&laneQueue == 0 {
		if g.lane.gate.Before.Load()&laneHeld != 0 {
			t.Fatal("two goroutines have the lane")
		}
		if ctx.Err() != nil {
			t.Fatal("the other's call was never queued")
		}
		runtime.Gosched()
	}
	if err := errors.Join(groups[1].Barrier(ctx), groups[1].Barrier(ctx), <-ends, <-ends); err != nil {
		t.Fatal(err)
	}
}

// TestFavoredCloses: a favored goroutine that closes its group makes no further call in it, whatever the other rank does.
func TestFavoredCloses(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	ready := make(chan error, 1)
	go func() { ready <- untilFavored(ctx, groups[1]) }()
	g := groups[0]
	if err := errors.Join(untilFavored(ctx, g), <-ready); err != nil {
		t.Fatal(err)
	}
	p := g.BarrierInit()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	for _, err := range []error{g.Barrier(ctx), p.Run(ctx)} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("a barrier of a closed group: %v, expected net.ErrClosed", err)
		}
	}
}

// TestFavoredOfAFailedGroup: the call that a favored goroutine waits in fails when the other rank closes its group.
func TestFavoredOfAFailedGroup(t *testing.T) {
	groups := favoredPair(t)
	ctx := hangGuard(t)
	started := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		err := untilFavored(ctx, groups[1])
		close(started)
		for err == nil {
			err = groups[1].Barrier(ctx)
		}
		done <- err
	}()
	if err := untilFavored(ctx, groups[0]); err != nil {
		t.Fatal(err)
	}
	<-started
	if err := groups[0].Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		var e *Error
		if !errors.As(err, &e) || e.Rank != 0 {
			t.Errorf("the other's barrier: %v, expected an error that names rank 0", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the other rank's barrier does not end")
	}
}
