package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/plan"
)

// knows says whether the group has made a call by the short way.
func (g *Group) knows(kind plan.Kind, count int) bool {
	return g.short != nil && g.short.barrier.prepared.Call().Seq > 0 && slices.ContainsFunc(g.short.known[:], func(c shortCall) bool {
		return c.prepared != nil && c.key.kind() == kind && c.key.count == count && c.prepared.Call().Seq > 0
	})
}

// TestShort: calls that block go the short way on one host, those behind a queue don't, and they stay in step with each other, with
// started ones and with refused ones.
func TestShort(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			sum := func(x, want float32) error {
				b := []float32{x, 2 * x, 3 * x}
				if err := AllReduce(ctx, g, b, b, Sum); err != nil || b[0] != want || b[2] != 3*want {
					return fmt.Errorf("sum of %v: %v, %w", x, b, err)
				}
				return nil
			}
			for i := range 2 * shortCalls { // more calls than are known at a time
				b := make([]int32, 1+i)
				b[i] = int32(g.Rank())
				if err := errors.Join(Broadcast(ctx, g, b, i%4), g.Barrier(ctx)); err != nil || b[i] != int32(i%4) {
					return fmt.Errorf("broadcast %d: %v, %w", i, b, err)
				}
				if err := sum(float32(i), float32(4*i)); err != nil {
					return err
				}
				if err := AllReduce(ctx, g, b, b, Mean); !errors.Is(err, ErrOp) {
					return fmt.Errorf("mean of integers: %w", err)
				}
				w := BroadcastAsync(ctx, g, b, 0) // the sum waits for it
				if err := errors.Join(sum(1, 4), w.Err()); err != nil {
					return err
				}
				if err := w.Wait(ctx); err != nil {
					return err
				}
			}
			if got, want := g.Stats().Calls, uint64(2*shortCalls*5); got != want {
				return fmt.Errorf("%d calls were counted of %d", got, want)
			}
			parts, whole := []float64{float64(g.Rank()), 1}, make([]float64, 8)
			if err := AllGather(ctx, g, whole, parts); err != nil || !slices.Equal(whole, []float64{0, 1, 1, 1, 2, 1, 3, 1}) {
				return fmt.Errorf("all-gather: %v, %w", whole, err)
			}
			if err := ReduceScatter(ctx, g, parts, whole, Sum); err != nil || !slices.Equal(parts, []float64{4 * float64(g.Rank()), 4}) {
				return fmt.Errorf("reduce-scatter: %v, %w", parts, err)
			}
			return nil
		})
		onOneHost := len(groups[0].Hosts()) == 1
		for _, g := range groups {
			if (g.short != nil) != onOneHost || onOneHost && !(g.knows(plan.AllReduce, 3) && g.knows(plan.AllGather, 2) && g.knows(plan.ReduceScatter, 8)) {
				t.Errorf("rank %d: the short way of %v: %+v", g.Rank(), g.layout, g.short)
			}
		}
	})
}

// TestShortFails: errors of the short way are those of the other.
func TestShortFails(t *testing.T) {
	ctx := hangGuard(t)
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	all(t, groups, func(g *Group) error { return g.Barrier(ctx) })
	done, cancel := context.WithCancel(ctx)
	cancel()
	errs := each(groups, func(g *Group) error {
		if g.Rank() == 0 {
			return g.Barrier(done)
		}
		return g.Barrier(ctx)
	})
	if e := asError(t, 0, errs[0]); e.Call != "barrier #2" || !errors.Is(e, context.Canceled) {
		t.Errorf("rank 0, whose context is over: %v", e)
	}
	if e := asError(t, 1, errs[1]); e.Rank != 0 || !errors.Is(e, ErrAborted) {
		t.Errorf("rank 1: %v", e)
	}
	for r, g := range groups {
		if e := asError(t, r, g.Barrier(ctx)); e.Call != "barrier #3" {
			t.Errorf("a call of a dead group: %v", e)
		}
	}
}
