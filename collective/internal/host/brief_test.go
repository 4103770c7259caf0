package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
)

// TestBrief: sums of two ranks that fit beside the marks go there, between prepared calls and plain ones, and are what plain ones are.
func TestBrief(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, pipes(t, 2), nil)
	var seq uint64
	for _, dt := range element.Numeric() {
		if dt == element.Invalid || dt == element.U8 {
			continue
		}
		for size := dt.Size(); size <= briefSize; size += dt.Size() {
			srcs := [][]byte{fill(rng, dt, size/dt.Size()), fill(rng, dt, size/dt.Size())}
			want := reference(element.Sum, dt, 1, nil, srcs)
			call := plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: dt, Count: int64(size / dt.Size())}
			each(t, cs, func(c *Comm) error {
				q, err := c.Prepare(call, 1, size)
				if err != nil {
					return err
				}
				if !q.brief {
					return fmt.Errorf("%v, %d bytes: not brief", dt, size)
				}
				for i := range uint64(6) {
					got := bytes.Clone(srcs[c.rank])
					plain := call
					plain.Seq = seq + i
					if (i+uint64(c.rank))%3 == 0 { // one is prepared, the other plain
						err = c.AllReduce(ctx, plain, 1, got, got)
					} else {
						err = q.AllReduce(ctx, plain.Seq, got, got)
					}
					if err != nil || !bytes.Equal(got, want) {
						return fmt.Errorf("%v, %d bytes: %x, want %x: %w", dt, size, got, want, err)
					}
					var there [briefSize]byte
					putWord(there[:], c.two.theirs[c.epoch&1].word)
					if !bytes.Equal(there[:size], srcs[1-c.rank]) {
						return fmt.Errorf("%v, %d bytes: beside the other's mark is %x, expected %x", dt, size, there[:size], srcs[1-c.rank])
					}
				}
				return nil
			})
			seq += 6
		}
	}
	for _, c := range cs {
		if s := c.Stats(); s.Small != s.Calls || s.Calls != seq {
			t.Errorf("rank %d: %d calls, %d of them small, expected %d", c.rank, s.Calls, s.Small, seq)
		}
	}
}

// TestNotBrief: more bytes, other operations and more ranks go their usual way.
func TestNotBrief(t *testing.T) {
	sum := plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: element.F32}
	for n := 1; n <= 3; n++ {
		c := comms(t, pipes(t, n), nil)[0]
		for _, x := range []struct {
			call  plan.Call
			scale float64
			bytes int
			brief bool
		}{
			{sum, 1, 4, n == 2},
			{sum, 1, 12, false},
			{sum, 1, 0, false},
			{sum, 0.5, 4, false},
			{plan.Call{Kind: plan.AllReduce, Op: element.Max, DType: element.F32}, 1, 4, false},
			{plan.Call{Kind: plan.AllReduce, Op: element.Sum, DType: element.U8}, 1, 4, false},
			{plan.Call{Kind: plan.Broadcast, DType: element.F32}, 1, 4, false},
			{plan.Call{Kind: plan.Barrier}, 1, 0, n == 2},
		} {
			q, err := c.Prepare(x.call, x.scale, x.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if q.brief != x.brief {
				t.Errorf("%d ranks, %v, scale %v, %d bytes: brief is %v", n, x.call, x.scale, x.bytes, q.brief)
			}
		}
	}
}

// TestBriefDead: a brief call on a comm that is dead says why, and nothing to the other.
func TestBriefDead(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	q, err := cs[0].Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	cs[0].Abort(context.Canceled)
	before := cs[0].epoch
	if err := q.Barrier(ctx, 1); !errors.Is(err, plan.ErrAborted) || cs[0].epoch != before {
		t.Errorf("%v, and %d meetings", err, cs[0].epoch-before)
	}
}
