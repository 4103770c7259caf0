package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestPersistent: persistent calls give what the plain ones give, run after run, beside
// plain and started ones and with ranks that make the same call either way, and on one
// host they are prepared.
func TestPersistent(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			n, rank := g.Size(), g.Rank()
			// brief, in a line, in a slot, and large
			for _, count := range []int{1, 2, 5, 300, 40_000} {
				x, sum := make([]float32, count), make([]float32, count)
				part, whole, spread := make([]float32, count), make([]float32, count*n), make([]int32, count)
				ar, err1 := AllReduceInit(g, sum, x, Sum)
				rs, err2 := ReduceScatterInit(g, part, whole, Max)
				ag, err3 := AllGatherInit(g, whole, part)
				bc, err4 := BroadcastInit(g, spread, n-1)
				if err := errors.Join(err1, err2, err3, err4); err != nil {
					return err
				}
				if onOneHost := len(g.Hosts()) == 1; onOneHost != (ar.direct != nil) {
					return fmt.Errorf("of %d elements: prepared %v, on one host %v", count, ar.direct != nil, onOneHost)
				}
				stop := g.BarrierInit()
				for run := range 4 {
					for i := range x {
						x[i], part[i], spread[i] = float32(rank+run+i%7), float32(10*run+rank), int32(-rank)
					}
					sums := ar.Run
					if run == 2 && rank%2 == 1 {
						sums = func(ctx context.Context) error { return AllReduce(ctx, g, sum, x, Sum) }
					}
					if run == 3 {
						w := stop.Start(ctx) // the sum waits for it
						sums = func(ctx context.Context) error { return errors.Join(ar.Run(ctx), w.Wait(ctx)) }
					}
					if err := errors.Join(sums(ctx), ag.Run(ctx), rs.Run(ctx), bc.Run(ctx), stop.Run(ctx)); err != nil {
						return err
					}
					for i := range x {
						if want := float32(n*(run+i%7) + n*(n-1)/2); sum[i] != want {
							return fmt.Errorf("run %d of %d elements: sum %v at %d, expected %v", run, count, sum[i], i, want)
						}
						if part[i] != float32(10*run+rank) || spread[i] != int32(1-n) {
							return fmt.Errorf("run %d of %d elements: %v and %v at %d", run, count, part[i], spread[i], i)
						}
					}
				}
			}
			return nil
		})
	})
}

// TestPersistentRefused: wrong arguments are refused when the call is made, and the other
// ranks do not hear of it.
func TestPersistentRefused(t *testing.T) {
	ctx := hangGuard(t)
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	g, x, n := groups[0], make([]float32, 8), make([]int32, 8)
	_, short := AllReduceInit(g, x[:3], x[:4], Sum)
	_, crossing := AllReduceInit(g, x[:3], x[1:4], Sum)
	_, mean := AllReduceInit(g, n, n, Mean)
	_, parts := ReduceScatterInit(g, x[:3], x[:7], Sum)
	_, whole := AllGatherInit(g, x[:5], x[6:8])
	_, root := BroadcastInit(g, x, 2)
	for what, c := range map[string][2]error{"lengths": {short, ErrLength}, "overlap": {crossing, ErrOverlap}, "mean of integers": {mean, ErrOp},
		"parts": {parts, ErrLength}, "whole": {whole, ErrLength}, "root": {root, ErrRank}} {
		if !errors.Is(c[0], c[1]) {
			t.Errorf("%s: %v, expected %v", what, c[0], c[1])
		}
	}
	all(t, groups, func(g *Group) error { return g.BarrierInit().Run(ctx) })
}

// TestPersistentFails: errors of persistent calls are those of the others. A context that
// is over ends a call that has to wait.
func TestPersistentFails(t *testing.T) {
	ctx := hangGuard(t)
	// the other rank makes no call, or another one
	for _, alone := range []bool{true, false} {
		groups, err := Local(2, nil)
		if err != nil {
			t.Fatal(err)
		}
		x, y := []float32{1}, []float32{1}
		sum, err := AllReduceInit(groups[0], x, x, Sum)
		if err != nil {
			t.Fatal(err)
		}
		least, err := AllReduceInit(groups[1], y, y, Min)
		if err != nil {
			t.Fatal(err)
		}
		if alone {
			done, cancel := context.WithCancel(ctx)
			cancel()
			if e := asError(t, 0, sum.Run(done)); !errors.Is(e, context.Canceled) {
				t.Errorf("a context that is over: %v", e)
			}
			if e := asError(t, 1, least.Run(ctx)); e.Rank != 0 || !errors.Is(e, ErrAborted) {
				t.Errorf("the other rank: %v", e)
			}
		} else {
			errs := each(groups, func(g *Group) error { return []*Persistent{sum, least}[g.Rank()].Run(ctx) })
			for r, err := range errs {
				if e := asError(t, r, err); !errors.Is(e, ErrMismatch) {
					t.Errorf("a sum and a least: %v", e)
				}
			}
		}
		asError(t, 0, sum.Run(ctx)) // the group is dead
		closeAll(t, groups)
	}
}

// TestPersistentInTurns: goroutines of one rank that make plain, persistent and started
// calls of one kind at the same time run them one at a time, and none is lost or counted
// twice.
func TestPersistentInTurns(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		const goroutines, rounds = 4, 100
		all(t, groups, func(g *Group) error {
			before := g.Stats().Calls
			var wg sync.WaitGroup
			errs := make([]error, goroutines)
			for i := range goroutines {
				wg.Go(func() { errs[i] = turns(ctx, g, i, rounds) })
			}
			wg.Wait()
			if got := g.Stats().Calls - before; got != goroutines*rounds {
				errs = append(errs, fmt.Errorf("%d calls were counted of %d", got, goroutines*rounds))
			}
			return errors.Join(errs...)
		})
	})
}

// turns makes sums of ones, in another way each round.
func turns(ctx context.Context, g *Group, goroutine, rounds int) error {
	x := make([]float32, 1)
	p, err := AllReduceInit(g, x, x, Sum)
	for r := 0; err == nil && r < rounds; r++ {
		x[0] = 1
		switch (r + goroutine) % 4 {
		case 0:
			err = AllReduceAsync(ctx, g, x, x, Sum).Wait(ctx)
		case 1:
			err = AllReduce(ctx, g, x, x, Sum)
		case 2:
			err = p.Start(ctx).Wait(ctx)
		default:
			err = p.Run(ctx)
		}
		if err == nil && x[0] != float32(g.Size()) {
			err = fmt.Errorf("goroutine %d, round %d: %v, expected %d", goroutine, r, x[0], g.Size())
		}
	}
	return err
}

// TestPersistentOvertakesNothing: a call comes after what its goroutine has started
// before.
func TestPersistentOvertakesNothing(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			stop := g.BarrierInit()
			for round := range 20 {
				x := make([]float64, 1000)
				x[999] = 1
				w := AllReduceAsync(ctx, g, x, x, Sum)
				if err := stop.Run(ctx); err != nil {
					return err
				}
				if x[999] != float64(g.Size()) {
					return fmt.Errorf("round %d: a barrier overtook a sum that was started: %v", round, x[999])
				}
				if err := w.Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestPersistentOfAFailedGroup: a call that waits fails when the other rank closes its
// group, and a call of a closed group is net.ErrClosed.
func TestPersistentOfAFailedGroup(t *testing.T) {
	groups, err := Local(2, &Options{Linger: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx := hangGuard(t)
	first := make(chan error, 1)
	done := make(chan error, 1)
	go func() {
		p := groups[1].BarrierInit()
		err := p.Run(ctx)
		first <- err
		for err == nil {
			err = p.Run(ctx)
		}
		done <- err
	}()
	p := groups[0].BarrierInit()
	if err := errors.Join(p.Run(ctx), <-first); err != nil {
		t.Fatal(err)
	}
	if err := groups[0].Close(); err != nil {
		t.Error(err)
	}
	if err := p.Run(ctx); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a barrier of a closed group: %v, expected net.ErrClosed", err)
	}
	if e := asError(t, 1, <-done); e.Rank != 0 {
		t.Errorf("the other's barrier: %v, expected an error that names rank 0", e)
	}
}

// TestPlainAgain: calls of the same buffers with another length, type or operation are
// not taken for each other.
func TestPlainAgain(t *testing.T) {
	ctx := hangGuard(t)
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	all(t, groups, func(g *Group) error {
		b, i := make([]float32, 4), make([]int32, 4)
		large := make([]float32, 5000)
		for range 3 {
			for k := range b {
				b[k], i[k] = float32(g.Rank()+k), int32(g.Rank()+k)
			}
			large[4999] = 1
			if err := errors.Join(AllReduce(ctx, g, b, b, Sum), AllReduce(ctx, g, b[:2], b[:2], Max)); err != nil || !slices.Equal(b, []float32{1, 3, 5, 7}) {
				return fmt.Errorf("%v, %w", b, err)
			}
			if err := AllReduce(ctx, g, large, large, Sum); err != nil || large[4999] != 2 {
				return fmt.Errorf("a large sum: %v, %w", large[4999], err)
			}
			if err := AllReduce(ctx, g, i, i, Min); err != nil || !slices.Equal(i, []int32{0, 1, 2, 3}) {
				return fmt.Errorf("%v, %w", i, err)
			}
			if err := AllReduce(ctx, g, b[:3], b[1:], Sum); !errors.Is(err, ErrOverlap) {
				return fmt.Errorf("buffers that overlap: %w", err)
			}
			if err := AllReduce(ctx, g, i[:2], i[:3], Min); !errors.Is(err, ErrLength) {
				return fmt.Errorf("of two lengths: %w", err)
			}
			if err := AllReduce(ctx, g, i, i, Mean); !errors.Is(err, ErrOp) {
				return fmt.Errorf("mean of integers: %w", err)
			}
		}
		return nil
	})
}
