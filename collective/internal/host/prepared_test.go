package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/collective/plan"
)

// TestPrepared: prepared calls among others give what plain ones give, at every size and number of ranks.
func TestPrepared(t *testing.T) {
	rng := seeded(t)
	for n := 1; n <= 4; n++ {
		cs := comms(t, pipes(t, n), &Options{Chunk: 4096})
		var seq uint64
		for _, size := range []int{4, 12, payloadSize, payloadSize + 4, 1000, 2 << 10, 20_000} {
			for _, dt := range []element.DType{element.F32, element.BF16} {
				srcs := make([][]byte, n)
				for r := range srcs {
					srcs[r] = fill(rng, dt, size/dt.Size())
				}
				want := reference(element.Sum, dt, 1, nil, srcs)
				sum := plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: dt, Count: int64(size / dt.Size())}
				spread := plan.Call{Kind: plan.Broadcast, DType: dt, Count: sum.Count, Root: int32(n - 1)}
				each(t, cs, func(c *Comm) error {
					a, err := c.Prepare(sum, 1, size)
					if err != nil {
						return err
					}
					b, err := c.Prepare(spread, 1, size)
					if err != nil {
						return err
					}
					stop, err := c.Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
					if err != nil {
						return err
					}
					at := seq
					for range 3 {
						got := make([]byte, size)
						plain := sum
						plain.Seq = at + 2
						if err := errors.Join(a.AllReduce(ctx, at+1, got, srcs[c.rank]), c.AllReduce(ctx, plain, 1, got, got[:size]),
							stop.Barrier(ctx, at+3)); err != nil {
							return err
						}
						copy(got, srcs[c.rank])
						if err := a.AllReduce(ctx, at+4, got, got); err != nil || !bytes.Equal(got, want) {
							return fmt.Errorf("%d bytes of %v: %w, or wrong", size, dt, err)
						}
						copy(got, srcs[c.rank])
						if err := b.Broadcast(ctx, at+5, got); err != nil || !bytes.Equal(got, srcs[n-1]) {
							return fmt.Errorf("broadcast of %d bytes: %w, or wrong", size, err)
						}
						if s := stop.Call().Seq; s != at+3 {
							return fmt.Errorf("a call says it was the %d-th, expected %d", s, at+3)
						}
						at += 5
					}
					return nil
				})
				seq += 15
			}
		}
	}
}

// TestPreparedRefused: what does not fit is said before anybody hears of it.
func TestPreparedRefused(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	c := cs[0]
	for _, call := range []plan.Call{
		{Kind: plan.AllReduce, Op: element.Sum, DType: element.F32, Count: 1}, // of 3 bytes
		{Kind: plan.AllReduce, Op: element.And, DType: element.F32},
		{Kind: plan.Broadcast, Root: 2},
		{Kind: plan.Scatter},
	} {
		if _, err := c.Prepare(call, 1, 3); !errors.Is(err, plan.ErrBadCall) {
			t.Errorf("%v: %v", call, err)
		}
	}
	sum, err := c.Prepare(plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: element.F32, Count: 2}, 1, 8)
	if err != nil {
		t.Fatal(err)
	}
	spread, err := c.Prepare(plan.Call{Kind: plan.Broadcast, DType: element.F32, Count: 2}, 1, 8)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 12)
	for _, err := range []error{sum.AllReduce(ctx, 1, b, b[:8]), sum.AllReduce(ctx, 1, b[:8], b), spread.Broadcast(ctx, 1, b)} {
		if !errors.Is(err, plan.ErrBadCall) {
			t.Errorf("other lengths than prepared: %v", err)
		}
	}
	if err := c.Err(); err != nil {
		t.Errorf("the comm died of it: %v", err)
	}
}

// TestPreparedMismatch: a rank in another call is found out by its word, on both sides.
func TestPreparedMismatch(t *testing.T) {
	for _, prepared := range []int{1, 2} { // ranks that make prepared calls
		cs := comms(t, pipes(t, 2), nil)
		errs := tryEach(cs, func(c *Comm) error {
			call := plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: []element.DType{element.F32, element.I32}[c.rank], Count: 2}
			b := make([]byte, 8)
			if c.rank >= prepared {
				call.Seq = 1
				return c.AllReduce(ctx, call, 1, b, b)
			}
			q, err := c.Prepare(call, 1, 8)
			if err != nil {
				return err
			}
			return q.AllReduce(ctx, 1, b, b)
		})
		for r, err := range errs {
			var m *plan.MismatchError
			if !errors.As(err, &m) {
				t.Fatalf("rank %d: %v", r, err)
			}
			if want := []element.DType{element.F32, element.I32}; m.Ours.DType != want[r] || m.Theirs.DType != want[1-r] || m.Ours.Seq != 1 {
				t.Errorf("rank %d: %v", r, m)
			}
		}
	}
}

// TestTakeOver: of two ranks, the one that folds a staging slot leaves its result there, which brings it the lines.
func TestTakeOver(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, pipes(t, 2), nil)
	if isa.Best() == isa.Go {
		t.Skip("loops in Go store once for every destination: they take nothing over")
	}
	const size = 64 << 10
	srcs := [][]byte{fill(rng, element.F32, size/4), fill(rng, element.F32, size/4)}
	want := reference(element.Sum, element.F32, 1, nil, srcs)
	each(t, cs, func(c *Comm) error {
		dst := make([]byte, size)
		if err := c.AllReduce(ctx, plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: element.F32, Count: size / 4}, 1, dst, srcs[c.rank]); err != nil {
			return err
		}
		if slot := c.slot(c.rank, c.held[c.turn^1]); !bytes.Equal(dst, want) || !bytes.Equal(slot[:size], want) {
			return errors.New("the result is not in both places")
		}
		return nil
	})
}

// TestPreparedCancelled: a prepared call that waits gives up with its context.
func TestPreparedCancelled(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	stop, err := cs[0].Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- stop.Barrier(short, 1) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
