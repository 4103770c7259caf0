package onehost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/collective/isa/isatest"
	"github.com/ringside-go/ringside/collective/protocol"
)

// TestPersistent: persistent calls among others give what plain ones give, at every size
// and number of ranks.
func TestPersistent(t *testing.T) {
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
				count := int64(size / dt.Size())
				sum := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: dt, Count: count, Scale: 1}
				spread := protocol.Call{Kind: protocol.Broadcast, DType: dt, Count: count, Root: int32(n - 1)}
				want := reference(element.Sum, dt, 1, nil, srcs)
				each(t, cs, func(c *Comm) error { return amongOthers(c, seq, sum, spread, srcs, want) })
				seq += 15
			}
		}
	}
}

// amongOthers makes persistent calls and plain ones in turns, from the one after seq on.
func amongOthers(c *Comm, seq uint64, sum, spread protocol.Call, srcs [][]byte, want []byte) error {
	size := len(want)
	got := make([]byte, size)
	apart, err1 := c.Persistent(protocol.Request{Call: sum, Dst: got, Src: srcs[c.rank]})
	inPlace, err2 := c.Persistent(protocol.Request{Call: sum, Dst: got, Src: got})
	broadcast, err3 := c.Persistent(protocol.Request{Call: spread, Dst: got, Peer: c.n - 1})
	stop, err4 := c.Persistent(protocol.Request{Call: protocol.Call{Kind: protocol.Barrier}})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	for range 3 {
		plain := sum
		plain.Seq = seq + 2
		if err := errors.Join(apart.Run(ctx, seq+1), c.AllReduce(ctx, plain, 1, got, got), stop.Run(ctx, seq+3)); err != nil {
			return err
		}
		copy(got, srcs[c.rank])
		if err := inPlace.Run(ctx, seq+4); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%v: %w, or wrong", sum, err)
		}
		copy(got, srcs[c.rank])
		if err := broadcast.Run(ctx, seq+5); err != nil || !bytes.Equal(got, srcs[c.n-1]) {
			return fmt.Errorf("%v: %w, or wrong", spread, err)
		}
		if s := stop.call.Seq; s != seq+3 {
			return fmt.Errorf("a call says it was the %d-th, expected %d", s, seq+3)
		}
		seq += 5
	}
	return nil
}

// TestPersistentRefused: arguments that do not fit are refused before another rank hears
// of it.
func TestPersistentRefused(t *testing.T) {
	c := comms(t, pipes(t, 2), nil)[0]
	b := make([]byte, 12)
	sum := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 1}
	and := protocol.Call{Kind: protocol.AllReduce, Op: element.And, DType: element.F32}
	for what, r := range map[string]protocol.Request{
		"bytes that are no elements": {Call: sum, Dst: b[:3], Src: b[:3]},
		"an op that floats lack":     {Call: and, Dst: b, Src: b},
		"lengths that differ":        {Call: sum, Dst: b[:8], Src: b},
		"no such root":               {Call: protocol.Call{Kind: protocol.Broadcast}, Peer: 2},
		"a message":                  {Call: protocol.Call{Kind: protocol.Send}, Peer: 1},
		"no call":                    {},
	} {
		if _, err := c.Persistent(r); !errors.Is(err, protocol.ErrBadCall) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Err(); err != nil {
		t.Errorf("the comm died of it: %v", err)
	}
}

// TestPersistentMismatch: a rank in another call is found by its mark, on both sides.
func TestPersistentMismatch(t *testing.T) {
	for _, persistent := range []int{1, 2} { // ranks that make persistent calls
		cs := comms(t, pipes(t, 2), nil)
		dtypes := []element.DType{element.F32, element.I32}
		errs := tryEach(cs, func(c *Comm) error {
			call := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: dtypes[c.rank], Count: 2}
			b := make([]byte, 8)
			if c.rank >= persistent {
				call.Seq = 1
				return c.AllReduce(ctx, call, 1, b, b)
			}
			p, err := c.Persistent(protocol.Request{Call: call, Dst: b, Src: b})
			if err != nil {
				return err
			}
			return p.Run(ctx, 1)
		})
		for r, err := range errs {
			var m *protocol.MismatchError
			if !errors.As(err, &m) {
				t.Fatalf("rank %d: %v", r, err)
			}
			if m.Ours.DType != dtypes[r] || m.Theirs.DType != dtypes[1-r] || m.Ours.Seq != 1 {
				t.Errorf("rank %d: %v", r, m)
			}
		}
	}
}

// TestPersistentCancelled: a persistent call that waits gives up with its context.
func TestPersistentCancelled(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	stop, err := cs[0].Persistent(protocol.Request{Call: protocol.Call{Kind: protocol.Barrier}})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- stop.Run(short, 1) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestGiveTake: a small call is over at once for the rank that comes second. The first
// goes on with it by Run, also when the second comes with a plain call.
func TestGiveTake(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	call := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.I64, Count: 1}
	begun := make(chan struct{})
	each(t, cs, func(c *Comm) error {
		got := make([]byte, wordSize)
		p, err := c.Persistent(protocol.Request{Call: call, Dst: got, Src: got})
		if err != nil {
			return err
		}
		// before the first meeting there may be entries of broadcasts
		if err := c.Barrier(ctx, protocol.Call{Kind: protocol.Barrier}); err != nil {
			return err
		}
		over := func(seq uint64) bool { return p.Give(seq) && p.Take() }
		for seq := uint64(1); seq <= 3; seq++ {
			got[0] = byte(1 + c.rank)
			plain := call
			plain.Seq = seq
			switch {
			case c.rank == 0 && over(seq):
				return fmt.Errorf("call %d is over before the other rank has begun", seq)
			case c.rank == 0:
				begun <- struct{}{}
				err = p.Run(ctx, seq)
			case seq == 2:
				<-begun
				err = c.AllReduce(ctx, plain, 1, got, got)
			default:
				<-begun
				if !over(seq) {
					return fmt.Errorf("call %d is not over, though the other rank has begun", seq)
				}
			}
			if err != nil || got[0] != 3 {
				return fmt.Errorf("call %d: %v, expected 3: %w", seq, got, err)
			}
		}
		return nil
	})
	for _, c := range cs {
		if s := c.Stats(); s.Calls != 4 {
			t.Errorf("rank %d counted %d calls, expected 4", c.rank, s.Calls)
		}
	}
}

// TestSmall: sums of two ranks that fit beside the marks go there, between persistent
// calls and plain ones, and have the same bits.
func TestSmall(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, pipes(t, 2), nil)
	var seq uint64
	for _, dt := range element.Numeric() {
		if dt == element.U8 {
			continue
		}
		for size := dt.Size(); size <= wordSize; size += dt.Size() {
			srcs := [][]byte{fill(rng, dt, size/dt.Size()), fill(rng, dt, size/dt.Size())}
			want := reference(element.Sum, dt, 1, nil, srcs)
			call := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: dt, Count: int64(size / dt.Size())}
			each(t, cs, func(c *Comm) error {
				got := make([]byte, size)
				p, err := c.Persistent(protocol.Request{Call: call, Dst: got, Src: got})
				if err != nil || !p.small {
					return fmt.Errorf("%v, %d bytes: not small: %w", dt, size, err)
				}
				for i := range uint64(6) {
					copy(got, srcs[c.rank])
					p.Prefetch()
					plain := call
					plain.Seq = seq + i
					// one rank's is persistent, the other's plain
					if (i+uint64(c.rank))%3 == 0 {
						err = c.AllReduce(ctx, plain, 1, got, got)
					} else {
						err = p.Run(ctx, plain.Seq)
					}
					if err != nil || !bytes.Equal(got, want) {
						return fmt.Errorf("%v, %d bytes: %x, want %x: %w", dt, size, got, want, err)
					}
					var there [wordSize]byte
					putWord(there[:], c.pair.theirs[c.epoch&1].word)
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

// TestNotSmall: more bytes, other operations and more ranks go their usual way.
func TestNotSmall(t *testing.T) {
	sum := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32}
	mean, greatest, bytes := sum, sum, sum
	mean.Scale, greatest.Op, bytes.DType = 0.5, element.Max, element.U8
	for n := 1; n <= 3; n++ {
		c := comms(t, pipes(t, n), nil)[0]
		for _, x := range []struct {
			call  protocol.Call
			bytes int
			small bool
		}{
			{sum, 4, n == 2},
			{sum, 12, false},
			{sum, 0, false},
			{mean, 4, false},
			{greatest, 4, false},
			{bytes, 4, false},
			{protocol.Call{Kind: protocol.Broadcast, DType: element.F32}, 4, false},
			{protocol.Call{Kind: protocol.Barrier}, 0, n == 2},
		} {
			b := make([]byte, x.bytes)
			p, err := c.Persistent(protocol.Request{Call: x.call, Dst: b, Src: b})
			if err != nil {
				t.Fatal(err)
			}
			if p.small != x.small {
				t.Errorf("%d ranks, %v, %d bytes: small is %v", n, x.call, x.bytes, p.small)
			}
		}
	}
}

// TestSmallDead: a small call on a comm that is dead returns the reason, and makes no
// meeting.
func TestSmallDead(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	p, err := cs[0].Persistent(protocol.Request{Call: protocol.Call{Kind: protocol.Barrier}})
	if err != nil {
		t.Fatal(err)
	}
	cs[0].Abort(context.Canceled)
	before := cs[0].epoch
	if err := p.Run(ctx, 1); !errors.Is(err, protocol.ErrAborted) || cs[0].epoch != before {
		t.Errorf("%v, and %d meetings", err, cs[0].epoch-before)
	}
}

// TestTakeOver: of two ranks, the one that folds a staging slot leaves its result there,
// which brings it the lines.
func TestTakeOver(t *testing.T) {
	rng := seeded(t)
	cs := comms(t, pipes(t, 2), nil)
	// Loops in Go store once for every destination: they take nothing over.
	isatest.Need(t, isa.AVX2, isa.NEON)
	const size = 64 << 10
	srcs := [][]byte{fill(rng, element.F32, size/4), fill(rng, element.F32, size/4)}
	want := reference(element.Sum, element.F32, 1, nil, srcs)
	each(t, cs, func(c *Comm) error {
		dst := make([]byte, size)
		call := protocol.Call{Op: element.Sum, DType: element.F32, Count: size / 4}
		if err := c.AllReduce(ctx, call, 1, dst, srcs[c.rank]); err != nil {
			return err
		}
		if slot := c.slot(c.rank, c.held[c.turn^1]); !bytes.Equal(dst, want) || !bytes.Equal(slot[:size], want) {
			return errors.New("the result is not in both places")
		}
		return nil
	})
}
