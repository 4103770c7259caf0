package collective

import (
	"context"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// short is the way of calls that block on a group whose ranks are all on one host, in their order, when nothing is queued: what a
// loop calls again and again is checked, encoded and hashed once, and costs what its bytes cost. What it does not know it leaves
// to the lane, and whoever holds the lane may use it.
type short struct {
	comm    *host.Comm
	barrier bound
	last    shortCall
	known   [shortCalls]shortCall

	recent bound                 // the last small all-reduce, with its buffers: a loop calls it again
	again  atomic.Pointer[bound] // one that a favored goroutine has made twice in a row; never changed, so that it is looked at without the lane
	large  bound                 // the running one of more than recentBytes
}

func newShort(c *host.Comm, gate *host.Gate) (*short, error) {
	q, err := c.Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
	if err != nil {
		return nil, err
	}
	return &short{comm: c, barrier: bound{prepared: q, express: q.Express(gate), kind: plan.Barrier}}, nil
}

// recentBytes bounds the buffers that are held for the next call to be compared with.
const recentBytes = 8 << 10

// shortCalls is how many calls are known at a time, a power of two.
const shortCalls = 16

// shortCall is one of them.
type shortCall struct {
	key      shortKey
	prepared *host.Prepared
}

// shortKey is what calls have in common that ranks compare alike: in two words, for it is compared in every call. Elements are those of a
// rank's source; of a broadcast, of the buffer. The zero value is no call's.
//
//	63   56   48      40      32     0
//	| 0  | kind | op  | dtype | root |
type shortKey struct {
	what  uint64
	count int
}

func shortKeyOf(kind plan.Kind, op Op, dtype element.DType, root int32, count int) shortKey {
	return shortKey{uint64(kind)<<48 | uint64(op)<<40 | uint64(dtype)<<32 | uint64(uint32(root)), count}
}

func (k shortKey) kind() plan.Kind      { return plan.Kind(k.what >> 48) }
func (k shortKey) op() Op               { return Op(k.what >> 40) }
func (k shortKey) dtype() element.DType { return element.DType(k.what >> 32) }
func (k shortKey) root() int32          { return int32(k.what) }

// slot is where a key is looked for.
func (k shortKey) slot() int { return int((k.what ^ uint64(k.count)<<20) * 0x9e3779b97f4a7c15 >> 60) }

// find returns a prepared call, nil if there can't be one, and makes it the last.
func (s *short) find(k shortKey) *host.Prepared {
	c := &s.known[k.slot()]
	if c.key != k {
		q := s.learn(k)
		if q == nil {
			return nil
		}
		*c = shortCall{k, q}
	}
	s.last = *c
	return c.prepared
}

//go:noinline
func (s *short) learn(k shortKey) *host.Prepared {
	call, scale := plan.Call{Kind: k.kind(), DType: k.dtype(), Count: int64(k.count), Root: k.root()}, 1.0
	if call.Kind == plan.AllGather {
		call.Count *= int64(s.comm.Size())
	}
	if call.Kind == plan.AllReduce || call.Kind == plan.ReduceScatter {
		var err error
		if call.Op, scale, err = k.op().fold(call.DType, s.comm.Size()); err != nil {
			return nil
		}
	}
	q, err := s.comm.Prepare(call, scale, k.count*call.DType.Size())
	if err != nil {
		return nil
	}
	return q
}

// bound is a prepared call and its buffers. It is handed down by pointer: copied from level to level they take as long as the call.
type bound struct {
	key      shortKey // of recent
	prepared *host.Prepared
	express  *host.Express // of the barrier, of persistent calls and of short.again: how a favored goroutine makes it, nil if there is no such way
	kind     plan.Kind
	dst, src []byte // of a broadcast: dst alone
}

// shortly makes a call by the short way; false: it did nothing. Of b it fills in what is prepared.
func (g *Group) shortly(ctx context.Context, k shortKey, b *bound) (bool, error) {
	s := g.short
	if s == nil {
		return false, nil
	}
	over := ctx.Err() != nil // before it takes the lane, for there may be no context
	if !g.lane.enter(laneCall | laneHeld) {
		return false, nil
	}
	b.prepared, b.kind = s.last.prepared, k.kind()
	if s.last.key != k {
		if b.prepared = s.find(k); b.prepared == nil {
			g.lane.retract(laneCall | laneHeld)
			return false, nil
		}
	}
	err := g.runBound(ctx, b, over)
	g.lane.leave()
	return true, err
}

// recall is what an all-reduce of that key is run by; nil if it is none that can be.
//
//go:noinline
func (s *short) recall(k shortKey, dst, src []byte) *bound {
	if len(dst) != len(src) || !same(dst, src) && overlap(dst, src) {
		return nil
	}
	q := s.find(k)
	if q == nil {
		return nil
	}
	b := &s.recent
	if len(src) == 0 || len(src) > recentBytes {
		b = &s.large
	}
	*b = bound{key: k, prepared: q, kind: k.kind(), dst: dst, src: src}
	return b
}

// repeat is told by whoever holds the lane that it has made recent, as the call before: the goroutine is favored in time, and then makes it as
// an express call, if it is one.
func (s *short) repeat(l *lane) {
	b := &s.recent
	if !b.prepared.Brief() {
		return
	}
	if l.favor(); !l.favors() {
		return
	}
	if now := s.again.Load(); now != nil && now.prepared == b.prepared && same(now.dst, b.dst) && same(now.src, b.src) {
		return
	}
	again := *b
	if again.express = b.prepared.Express(&l.gate); again.express != nil {
		s.again.Store(&again)
	}
}

// runBound is run of a prepared call. over: its context was, before it began, and it is not made.
func (g *Group) runBound(ctx context.Context, b *bound, over bool) error {
	ended := false
	defer g.lane.ended(&ended)
	err := g.makeBound(ctx, b, over)
	ended = true
	return err
}

func (g *Group) makeBound(ctx context.Context, b *bound, over bool) error {
	q, seq := b.prepared, g.lane.calls()
	q.Claim()
	if g.failure.Load() != nil || g.left.Load() != nil || over {
		return g.endBound(ctx, q, seq, nil)
	}
	var err error
	switch b.kind {
	case plan.AllReduce:
		err = q.AllReduce(ctx, seq, b.dst, b.src)
	case plan.Barrier:
		err = q.Barrier(ctx, seq)
	case plan.Broadcast:
		err = q.Broadcast(ctx, seq, b.dst)
	case plan.AllGather:
		err = q.AllGather(ctx, seq, b.dst, b.src)
	default:
		err = q.ReduceScatter(ctx, seq, b.dst, b.src)
	}
	if err != nil {
		return g.endBound(ctx, q, seq, err)
	}
	g.count(len(b.dst))
	return nil
}

// endBound is what becomes of a call that failed by err, or, nil, was not to be made.
//
//go:noinline
func (g *Group) endBound(ctx context.Context, q *host.Prepared, seq uint64, err error) error {
	call := numbered(q, seq)
	if err == nil {
		if g.failure.Load() != nil || g.left.Load() != nil {
			return g.refuse(call.String())
		}
		err = ipc.ContextError(ctx)
	}
	return g.resolve(&job{call: call}, err)
}

// numbered is q as the seq-th call.
func numbered(q *host.Prepared, seq uint64) plan.Call {
	c := q.Call()
	c.Seq = seq
	return c
}
