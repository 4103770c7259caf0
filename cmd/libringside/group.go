package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// group is a group of ranks and the context of its calls.
type group struct {
	*collective.Group
	pulse *pulse

	mu   sync.Mutex
	lent map[*byte]*lent // by first byte
}

// lent is memory of a group that its caller uses. Where no other rank shares this host it
// lies on Go's heap, and is pinned.
type lent struct {
	bytes []byte
	pin   runtime.Pinner
}

// newGroup returns a group whose calls end when interrupted returns true.
func newGroup(g *collective.Group, interrupted func() bool) *group {
	return &group{Group: g, pulse: newPulse(interrupted), lent: map[*byte]*lent{}}
}

// request returns a call as its caller gives it; kind, op and dtype are numbers of
// ringside.h.
func (g *group) request(kind, op, dtype, peer int, dst, src []byte, send, recv []int) (*collective.Raw, error) {
	r := &collective.Raw{Kind: protocol.Kind(kind), Op: element.Reduction(op), DType: element.DType(dtype), Peer: peer,
		Scale: 1, Dst: dst, Src: src, Send: send, Recv: recv}
	if r.Kind.Paired() && int(r.Kind) == kind && op >= 0 {
		r.Tagged, r.Tag = true, uint32(op)
		r.Op, op = element.None, int(element.None)
	}
	if int(r.Kind) != kind || int(r.Op) != op || int(r.DType) != dtype {
		return nil, fmt.Errorf("%w: kind %d, op %d, dtype %d: expected numbers of ringside.h", errArgument, kind, op, dtype)
	}
	if r.Op == element.Mean {
		if !r.DType.IsFloat() {
			return nil, fmt.Errorf("%w: mean of %v, expected a float type", errArgument, r.DType)
		}
		r.Op, r.Scale = element.Sum, 1/float64(g.Size())
	}
	return r, nil
}

// call makes a call and waits for its end on this thread.
func (g *group) call(r *collective.Raw) error {
	if r.Kind == protocol.Barrier {
		return g.Barrier(g.pulse)
	}
	return r.Do(g.pulse, g.Group)
}

// start starts a call.
func (g *group) start(r *collective.Raw) *collective.Work {
	if r.Kind == protocol.Barrier {
		return g.BarrierAsync(context.Background())
	}
	return r.Start(context.Background(), g.Group)
}

// wait waits for a call that was started, at most so long; a negative duration is no
// limit.
func wait(w *collective.Work, limit time.Duration) (state, error) {
	if limit != 0 {
		ctx := context.Background()
		if limit > 0 {
			c, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			ctx = c
		}
		_ = w.Wait(ctx) // Err says the same
	}
	select {
	case <-w.Done():
		return done, w.Err()
	default:
		return pending, nil
	}
}

// lend returns n bytes that the ranks on this host read and write in place.
func (g *group) lend(n int) (*byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("%w: %d bytes of memory, expected at least 1", errArgument, n)
	}
	b, err := collective.Alloc[uint8](g.Group, n)
	if err != nil {
		return nil, err
	}
	l := &lent{bytes: b}
	l.pin.Pin(&b[0])
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lent[&b[0]] = l
	return &b[0], nil
}

// takeBack frees what lend returned.
func (g *group) takeBack(first *byte) error {
	g.mu.Lock()
	l := g.lent[first]
	delete(g.lent, first)
	g.mu.Unlock()
	if l == nil {
		return fmt.Errorf("%w: memory at %p, expected what ringside_memory returned", errArgument, first)
	}
	l.pin.Unpin()
	return collective.Free(g.Group, l.bytes)
}

// close closes the group, and then frees what lend returned.
func (g *group) close() error {
	err := g.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for first, l := range g.lent {
		delete(g.lent, first)
		l.pin.Unpin()
	}
	return err
}
