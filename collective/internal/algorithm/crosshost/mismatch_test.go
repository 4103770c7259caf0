package crosshost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// fakeWorld is a world of n ranks over fakes.
func fakeWorld(t testing.TB, n int, o Options) []*Comm {
	t.Helper()
	conns, waiters := mesh(t, n, 1000, nil)
	return world(t, conns, waiters, o)
}

// calling is what one rank does in a test, with the call that it says it is in.
type calling struct {
	call protocol.Call
	root int
}

func (w calling) do(ctx context.Context, c *Comm) error {
	n := int(w.call.Count) * w.call.DType.Size()
	counts := make([]int, c.n)
	for r := range counts {
		counts[r] = n
	}
	scale := w.call.Scale
	if scale == 0 {
		scale = 1
	}
	w.call.Root = int32(w.root)
	switch w.call.Kind {
	case protocol.AllReduce:
		return c.AllReduce(ctx, w.call, scale, make([]byte, n), make([]byte, n))
	case protocol.Reduce:
		return c.Reduce(ctx, w.call, scale, make([]byte, n), make([]byte, n), w.root)
	case protocol.Broadcast:
		return c.Broadcast(ctx, w.call, make([]byte, n), w.root)
	case protocol.AllGather:
		return c.AllGather(ctx, w.call, make([]byte, n*c.n), make([]byte, n), counts)
	case protocol.Barrier:
		return c.Barrier(ctx, w.call)
	}
	panic(w.call.Kind)
}

// TestMismatch: whatever two ranks do not agree about, every rank learns both calls.
func TestMismatch(t *testing.T) {
	sum := protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 10}
	change := func(f func(*protocol.Call)) calling {
		c := sum
		f(&c)
		return calling{call: c}
	}
	kind := func(k protocol.Kind, root int) calling {
		w := change(func(c *protocol.Call) { c.Kind, c.Op = k, element.None })
		if k == protocol.Barrier {
			w.call.DType, w.call.Count = element.Invalid, 0
		}
		if k == protocol.Reduce {
			w.call.Op = element.Sum
		}
		w.root = root
		return w
	}
	for name, c := range map[string]struct{ most, odd calling }{
		"op":               {calling{call: sum}, change(func(c *protocol.Call) { c.Op = element.Max })},
		"dtype":            {calling{call: sum}, change(func(c *protocol.Call) { c.DType = element.I32 })},
		"count":            {calling{call: sum}, change(func(c *protocol.Call) { c.Count = 11 })},
		"scale":            {calling{call: sum}, change(func(c *protocol.Call) { c.Scale = 0.5 })},
		"order":            {calling{call: sum}, change(func(c *protocol.Call) { c.Seq = 2 })},
		"kind":             {calling{call: sum}, kind(protocol.Barrier, 0)},
		"kinds":            {kind(protocol.AllGather, 0), kind(protocol.Broadcast, 0)},
		"root":             {kind(protocol.Broadcast, 0), kind(protocol.Broadcast, 1)},
		"where to":         {kind(protocol.Reduce, 1), kind(protocol.Reduce, 0)},
		"nobody sends":     {kind(protocol.Broadcast, 1), kind(protocol.Broadcast, 0)},
		"who only sends":   {kind(protocol.Barrier, 0), kind(protocol.Reduce, 1)},
		"large":            {change(func(c *protocol.Call) { c.Count = 1 << 20 }), change(func(c *protocol.Call) { c.Count = 1<<20 + 1 })},
		"large and little": {change(func(c *protocol.Call) { c.Count = 1 << 20 }), calling{call: sum}},
	} {
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprint(name, " of ", n), func(t *testing.T) {
				comms := fakeWorld(t, n, Options{Timeout: 8 * time.Second})
				odd := 0
				if name == "nobody sends" || name == "who only sends" {
					odd = 1
				}
				var finished sync.WaitGroup
				finished.Add(n)
				for r, err := range all(t, n, func(ctx context.Context, r int) error {
					defer func() { finished.Done(); finished.Wait() }()
					w := c.most
					if r == odd {
						w = c.odd
					}
					err := w.do(ctx, comms[r])
					// its part was done before it was noticed: the next call fails
					if err == nil {
						err = calling{call: protocol.Call{Seq: 9, Kind: protocol.Barrier}}.do(ctx, comms[r])
					}
					return err
				}) {
					var m *protocol.MismatchError
					var e *protocol.PeerError
					if !errors.As(err, &m) || !errors.As(err, &e) || !errors.Is(err, protocol.ErrMismatch) {
						t.Errorf("rank %d: %v", r, err)
						continue
					}
					if m.Theirs.Kind == protocol.NoKind || m.Ours.Hash() == m.Theirs.Hash() || (r != odd) != (e.Rank == odd) {
						t.Errorf("rank %d: rank %d: %v", r, e.Rank, err)
					}
				}
			})
		}
	}
}

// TestMismatchIdle: a rank that was elsewhere when the others found out says what it
// wants when it comes.
func TestMismatchIdle(t *testing.T) {
	comms := fakeWorld(t, 3, Options{})
	sum := calling{call: protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 10}}
	told := make(chan struct{})
	errs := all(t, 3, func(ctx context.Context, r int) error {
		switch r {
		case 0:
			err := calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.do(ctx, comms[0])
			close(told)
			return err
		case 1:
			return sum.do(ctx, comms[1])
		}
		<-told
		comms[2].mu.Lock()
		e := comms[2].read() // as while it greets the others
		comms[2].mu.Unlock()
		if e != nil {
			return fmt.Errorf("between calls: %w", e)
		}
		return sum.do(ctx, comms[2])
	})
	for r, err := range errs {
		var m *protocol.MismatchError
		if !errors.As(err, &m) || m.Theirs.Kind == protocol.NoKind {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestMismatchForgotten wants a rank that has forgotten the call in question, because it
// has gone on for so long, to blame the rank that the others blame.
func TestMismatchForgotten(t *testing.T) {
	sum := func(seq uint64, root int32) protocol.Call {
		return protocol.Call{Seq: seq, Kind: protocol.Reduce, Op: element.Sum, DType: element.F32, Count: 10, Root: root}
	}
	c := fakeWorld(t, 3, Options{})[2]
	c.call = sum(9, 1)
	c.past[9%len(c.past)] = c.call
	for name, n := range map[string]protocol.Notice{
		"not known":   {Reason: protocol.Mismatched, Rank: 0, Call: sum(1, 1)},
		"known":       {Reason: protocol.Mismatched, Rank: 0, Call: sum(1, 1), Theirs: sum(1, 0)},
		"this rank's": {Reason: protocol.Mismatched, Rank: 2, Call: sum(1, 1)},
	} {
		e := c.compared(1, n)
		blamed := n.Rank
		if n.Rank == c.rank {
			blamed = 1
		}
		if e == nil || e.Rank != blamed || (e.Err == errUnsettled) != (name == "not known") {
			t.Errorf("%s: %+v, expected that rank %d is blamed", name, e, blamed)
		}
	}
}
