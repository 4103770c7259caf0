package onehost

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// call makes the call that is described, with buffers of its size.
func (c *Comm) do(ctx context.Context, call protocol.Call) error {
	unit := max(1, call.DType.Size())
	n := int(call.Count) * unit
	src, dst := make([]byte, n), make([]byte, n)
	root := int(call.Root)
	parts := make([]int, c.n)
	for r := range parts {
		parts[r] = protocol.Part(n, unit, c.n, r).Len
	}
	mine := parts[c.rank]
	switch call.Kind {
	case protocol.AllReduce:
		return c.AllReduce(ctx, call, 1, dst, src)
	case protocol.Reduce:
		return c.Reduce(ctx, call, 1, dst, src, root)
	case protocol.ReduceScatter:
		return c.ReduceScatter(ctx, call, 1, dst[:mine], src, parts)
	case protocol.AllGather:
		return c.AllGather(ctx, call, dst, src[:mine], parts)
	case protocol.Broadcast:
		return c.Broadcast(ctx, call, src, root)
	case protocol.Scatter:
		return c.Scatter(ctx, call, dst[:mine], src, parts, root)
	case protocol.Gather:
		return c.Gather(ctx, call, dst, src[:mine], parts, root)
	case protocol.AllToAll:
		even := slices.Repeat([]int{n / c.n}, c.n)
		return c.AllToAll(ctx, call, dst[:n/c.n*c.n], src[:n/c.n*c.n], even, even)
	case protocol.Barrier:
		return c.Barrier(ctx, call)
	}
	return fmt.Errorf("no such call: %v", call)
}

func TestMismatch(t *testing.T) {
	call := protocol.Call{Seq: 7, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 1000}
	for _, change := range []func(c *protocol.Call){
		func(c *protocol.Call) { c.Kind = protocol.Broadcast },
		func(c *protocol.Call) { c.Kind = protocol.Barrier },
		func(c *protocol.Call) { c.Op = element.Max },
		func(c *protocol.Call) { c.DType = element.I32 },
		func(c *protocol.Call) { c.Count = 1 },
		func(c *protocol.Call) { c.Count = 1 << 20 },
		func(c *protocol.Call) { c.Seq = 8 },
		func(c *protocol.Call) { c.Kind = protocol.Reduce },
	} {
		for ranks := 2; ranks <= 4; ranks++ {
			other := call
			change(&other)
			t.Run(fmt.Sprintf("%v/%d", other, ranks), func(t *testing.T) {
				odd := ranks - 1
				cs := comms(t, pipes(t, ranks), nil)
				for r, err := range tryEach(cs, func(c *Comm) error {
					if c.rank == odd {
						return c.do(ctx, other)
					}
					return c.do(ctx, call)
				}) {
					var pe *protocol.PeerError
					if !errors.Is(err, protocol.ErrMismatch) || !errors.As(err, &pe) {
						t.Fatalf("rank %d: %v, expected a mismatch", r, err)
					}
					text := err.Error()
					if !strings.Contains(text, call.String()) || !strings.Contains(text, other.String()) {
						t.Errorf("rank %d: %q does not name both %v and %v", r, text, call, other)
					}
					if r != odd && pe.Rank != odd || r == odd && pe.Rank == odd {
						t.Errorf("rank %d: it names rank %d", r, pe.Rank)
					}
					if again := cs[r].Barrier(ctx, protocol.Call{Seq: 9, Kind: protocol.Barrier}); again != err {
						t.Errorf("rank %d: the next call says %v", r, again)
					}
				}
			})
		}
	}
}

// TestRootsDiffer: of three ranks two are done with a broadcast before they can know that
// the third expects another root.
func TestRootsDiffer(t *testing.T) {
	cs := comms(t, pipes(t, 3), nil)
	for r, err := range tryEach(cs, func(c *Comm) error {
		err := c.do(ctx, protocol.Call{Seq: 1, Kind: protocol.Broadcast, DType: element.F32, Count: 5, Root: int32(c.rank / 2)})
		if err == nil {
			err = c.Barrier(ctx, protocol.Call{Seq: 2, Kind: protocol.Barrier})
		}
		return err
	}) {
		var pe *protocol.PeerError
		if !errors.Is(err, protocol.ErrMismatch) || !errors.As(err, &pe) || (pe.Rank == 2) != (r != 2) || !strings.Contains(err.Error(), "from 1") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	cs := comms(t, pipes(t, 4), nil)
	for _, c := range cs {
		c.timeout = 500 * time.Millisecond // from now on
	}
	call := protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 10}
	for r, err := range tryEach(cs[:2], func(c *Comm) error { return c.do(ctx, call) }) {
		var pe *protocol.PeerError
		if !errors.Is(err, protocol.ErrTimeout) || !errors.As(err, &pe) {
			t.Fatalf("rank %d: %v", r, err)
		}
		if !slices.Equal(pe.Missing, []int{2, 3}) || pe.Rank != 2 || pe.Call != withScale(call) {
			t.Errorf("rank %d: rank %d, missing %v in %v", r, pe.Rank, pe.Missing, pe.Call)
		}
	}
	// The one that comes late learns that it was waited for.
	err := cs[3].do(ctx, call)
	if !errors.Is(err, protocol.ErrTimeout) || !strings.Contains(err.Error(), call.String()) {
		t.Errorf("the late one: %v", err)
	}
}

// looked is the context of a rank's calls. It holds each look of the rank that is about
// to give up until another rank, which waits, has looked too: that one had a processor.
type looked struct {
	context.Context
	rank  *Comm
	other int
}

func (l looked) Err() error {
	p, c := &l.rank.peers[l.other], l.rank
	for c.timing && c.until != 0 && atomic.LoadUint64(p.looks) == p.looked && atomic.LoadUint64(p.state) == alive {
		runtime.Gosched()
	}
	return l.Context.Err()
}

// TestWhoIsLate: a rank that waits for one that waits for a third gives up on the third.
func TestWhoIsLate(t *testing.T) {
	cs := comms(t, pipes(t, 3), nil)
	cs[1].timeout = time.Second // the others' is 30 s
	ctxs := []context.Context{ctx, looked{ctx, cs[1], 0}}
	const n = 1 << 20
	errs := tryEach(cs[:2], func(c *Comm) error {
		buf, err := c.Alloc(n)
		if err != nil {
			return err
		}
		// Its root waits for rank 2 to read.
		err = c.Broadcast(ctxs[c.rank], protocol.Call{Seq: 1, Kind: protocol.Broadcast, DType: element.U8, Count: n}, buf, 0)
		if err == nil {
			err = c.Barrier(ctxs[c.rank], protocol.Call{Seq: 2, Kind: protocol.Barrier})
		}
		return err
	})
	for r, err := range errs {
		var pe *protocol.PeerError
		if !errors.Is(err, protocol.ErrTimeout) || !errors.As(err, &pe) || pe.Rank != 2 || !slices.Equal(pe.Missing, []int{2}) {
			t.Errorf("rank %d: %v, expected that rank 2 is late", r, err)
		}
	}
	if k := cs[0].Err().(*protocol.PeerError).Call.Kind; k != protocol.Broadcast {
		t.Errorf("rank 0 waited in a %v", k)
	}
}

func withScale(c protocol.Call) protocol.Call {
	c.Scale = 1
	return c
}

func TestAbort(t *testing.T) {
	cs := comms(t, pipes(t, 3), nil)
	errs := tryEach(cs, func(c *Comm) error {
		if c.rank == 2 {
			c.Abort(errors.New("out of\nluck"))
			c.Abort(errors.New("again"))
		}
		return c.do(ctx, protocol.Call{Seq: 1, Kind: protocol.AllGather, DType: element.U8, Count: 1 << 20})
	})
	for r, err := range errs {
		var pe *protocol.PeerError
		if !errors.Is(err, protocol.ErrAborted) || !errors.As(err, &pe) || pe.Rank != 2 || !strings.Contains(err.Error(), "out of") {
			t.Errorf("rank %d: %v", r, err)
		}
		if cs[r].Err() == nil {
			t.Errorf("rank %d is well", r)
		}
	}
}

// TestAbortAfterLoss: a rank that gives up because another died says so, and is not taken
// for the dead one.
func TestAbortAfterLoss(t *testing.T) {
	for _, why := range []error{protocol.ErrPeerLost, protocol.ErrTimeout, protocol.ErrMismatch} {
		cs := comms(t, pipes(t, 3), nil)
		cs[1].Abort(fmt.Errorf("rank 0: %w", why))
		for _, r := range []int{0, 2} {
			err := cs[r].do(t.Context(), protocol.Call{Seq: 1, Kind: protocol.Barrier})
			if !errors.Is(err, protocol.ErrAborted) || errors.Is(err, why) || !strings.Contains(err.Error(), "rank 0") {
				t.Errorf("rank %d after an abort for %v: %v", r, why, err)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	for _, early := range []bool{true, false} {
		cs := comms(t, pipes(t, 3), nil)
		cause := errors.New("somebody pressed a key")
		cancelled, cancel := context.WithCancelCause(context.Background())
		if early {
			cancel(cause)
		} else {
			time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		}
		errs := tryEach(cs, func(c *Comm) error {
			if c.rank == 0 { // is there only to learn of it
				<-cancelled.Done()
			}
			mine := ctx
			if c.rank == 1 {
				mine = cancelled
			}
			return c.do(mine, protocol.Call{Seq: 1, Kind: protocol.Reduce, Op: element.Sum, DType: element.F32, Count: 10, Root: 2})
		})
		if !errors.Is(errs[1], context.Canceled) || !errors.Is(errs[1], cause) {
			// It may have been done before it looked, if all came before.
			if early || errs[1] != nil {
				t.Errorf("early %v: the cancelled one: %v", early, errs[1])
			}
			continue
		}
		for _, r := range []int{0, 2} {
			err := errs[r]
			if err == nil && !early {
				// Rank 1 had shown its part before it left, so the call was complete for
				// this rank. Its next one is not.
				err = cs[r].do(ctx, protocol.Call{Seq: 2, Kind: protocol.Barrier})
			}
			var pe *protocol.PeerError
			if !errors.Is(err, protocol.ErrAborted) || !errors.As(err, &pe) || pe.Rank != 1 {
				t.Errorf("early %v: rank %d: %v", early, r, err)
			}
		}
	}
}

func TestLeaving(t *testing.T) {
	for _, make := range []func(testing.TB, int) [][]ipc.Conn{pipes, sockets} {
		cs := comms(t, make(t, 3), nil)
		each(t, cs, func(c *Comm) error {
			err := c.do(ctx, protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 100000})
			if c.rank == 1 { // the others may still be reading
				err = errors.Join(err, c.Close())
			}
			return err
		})
		for _, r := range []int{0, 2} {
			var pe *protocol.PeerError
			err := cs[r].do(ctx, protocol.Call{Seq: 2, Kind: protocol.Barrier})
			if !errors.Is(err, protocol.ErrPeerLost) || !errors.As(err, &pe) || pe.Rank != 1 {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		if err := cs[1].do(ctx, protocol.Call{Seq: 2, Kind: protocol.Barrier}); !errors.Is(err, protocol.ErrAborted) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestCloseUnderWay(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	began := make(chan struct{})
	done := make(chan error)
	go func() {
		close(began)
		done <- cs[0].do(ctx, protocol.Call{Seq: 1, Kind: protocol.Barrier})
	}()
	<-began
	if err := cs[0].Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, protocol.ErrAborted) {
			t.Errorf("the call under way: %v", err)
		}
	case <-time.After(hang):
		t.Fatal("the call goes on")
	}
}

func TestOptionsDiffer(t *testing.T) {
	for _, o := range []*Options{{Chunk: 64 << 10}, {Flat: 4096}, {Staged: true}, {Fold: protocol.Fold{1, 2}}} {
		conns := pipes(t, 3)
		errs := make([]error, 3)
		done := make(chan struct{})
		for r := range 3 {
			go func() {
				defer func() { done <- struct{}{} }()
				mine := o
				if r < 2 {
					mine = nil
				}
				var c *Comm
				if c, errs[r] = New(ctx, r, conns[r], mine); c != nil {
					c.Close()
				}
			}()
		}
		for range 3 {
			<-done
		}
		if !errors.Is(errs[2], protocol.ErrMismatch) || !errors.Is(errs[0], protocol.ErrMismatch) && !errors.Is(errs[0], protocol.ErrPeerLost) {
			t.Errorf("%+v: %v", *o, errs)
		}
	}
}

func TestBadArguments(t *testing.T) {
	cs := comms(t, pipes(t, 2), nil)
	c := cs[0]
	sum := protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32}
	b := make([]byte, 64)
	for what, err := range map[string]error{
		"bytes that are no elements": c.AllReduce(ctx, sum, 1, b[:7], b[:7]),
		"lengths that differ":        c.AllReduce(ctx, sum, 1, b[:8], b[:4]),
		"no op":                      c.AllReduce(ctx, protocol.Call{DType: element.F32}, 1, b, b),
		"scaled integers":            c.AllReduce(ctx, protocol.Call{Op: element.Sum, DType: element.I32}, 0.5, b, b),
		"a root too large":           c.Broadcast(ctx, sum, b, 2),
		"a root below 0":             c.Reduce(ctx, sum, 1, b, b, -1),
		"too few counts":             c.AllGather(ctx, sum, b, b[:32], []int{64}),
		"counts too large":           c.Scatter(ctx, sum, b[:32], b, []int{32, 64}, 0),
		"a dst too short":            c.Gather(ctx, sum, b[:10], b[:32], []int{32, 32}, 0),
		"counts that split elements": c.ReduceScatter(ctx, sum, 1, b[:30], b, []int{30, 34}),
		"an unequal part for itself": c.AllToAll(ctx, sum, b, b, []int{32, 32}, []int{0, 64}),
		"a message to itself":        c.Send(ctx, sum, 0, b),
		"a message from nobody":      c.Recv(ctx, sum, 2, b),
		"no memory":                  errorOf(c.Alloc(0)),
		"memory of others":           c.Free(b),
		"no ranks":                   newError(0, nil, nil),
		"a rank too large":           newError(2, make([]ipc.Conn, 2), nil),
		"no conn":                    newError(0, make([]ipc.Conn, 2), nil),
		"a fold of others":           newError(0, make([]ipc.Conn, 1), &Options{Fold: protocol.Fold{2}}),
		"a small chunk":              newError(0, make([]ipc.Conn, 1), &Options{Chunk: 32}),
		"an odd flat":                newError(0, make([]ipc.Conn, 1), &Options{Flat: 100}),
		"a negative timeout":         newError(0, make([]ipc.Conn, 1), &Options{Timeout: -1}),
	} {
		if !errors.Is(err, protocol.ErrBadCall) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if c.Err() != nil {
		t.Errorf("arguments killed it: %v", c.Err())
	}
	each(t, cs, func(c *Comm) error { return c.do(ctx, protocol.Call{Seq: 1, Kind: protocol.Barrier}) })
}

func errorOf(_ []byte, err error) error { return err }

func newError(rank int, conns []ipc.Conn, o *Options) error {
	_, err := New(ctx, rank, conns, o)
	return err
}

// TestCancelledBeforeMemory: a call whose context is over while a rank's memory is taken
// in says so, and not that the rank is lost.
func TestCancelledBeforeMemory(t *testing.T) {
	c := comms(t, pipes(t, 2), nil)[0]
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	c.ctx, c.call = cancelled, &protocol.Call{Seq: 1, Kind: protocol.Barrier}
	var pe *protocol.PeerError
	if err := c.memory.takeSegment(1); !errors.As(err, &pe) || pe.Rank != 0 || !errors.Is(err, context.Canceled) || errors.Is(err, protocol.ErrPeerLost) {
		t.Errorf("%v; expected this rank's own context", err)
	}
}
