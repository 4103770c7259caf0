package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/host"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// short is the way of calls that block on a group whose ranks are all on one host, in their order, when nothing is queued: what a
// loop calls again and again is checked, encoded and hashed once, and costs what its bytes cost. What it does not know it leaves
// to the lane, and whoever holds the lane may use it.
type short struct {
	comm    *host.Comm
	barrier *host.Prepared
	last    shortCall
	known   [shortCalls]shortCall
}

func newShort(c *host.Comm) (*short, error) {
	q, err := c.Prepare(plan.Call{Kind: plan.Barrier}, 1, 0)
	return &short{comm: c, barrier: q}, err
}

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

func shortKeyOf(kind plan.Kind, op Op, dtype plan.DType, root int32, count int) shortKey {
	return shortKey{uint64(kind)<<48 | uint64(op)<<40 | uint64(dtype)<<32 | uint64(uint32(root)), count}
}

func (k shortKey) kind() plan.Kind   { return plan.Kind(k.what >> 48) }
func (k shortKey) op() Op            { return Op(k.what >> 40) }
func (k shortKey) dtype() plan.DType { return plan.DType(k.what >> 32) }
func (k shortKey) root() int32       { return int32(k.what) }

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

// shortly makes a call by the short way; false: it did nothing. dst is the buffer of a broadcast.
func (g *Group) shortly(ctx context.Context, k shortKey, dst, src []byte) (bool, error) {
	if g.short == nil || !g.lane.enter(laneCall|laneHeld) {
		return false, nil
	}
	q := g.short.last.prepared
	if g.short.last.key != k {
		if q = g.short.find(k); q == nil {
			g.lane.retract(laneCall | laneHeld)
			return false, nil
		}
	}
	err := g.runShort(ctx, q, k.kind(), dst, src)
	g.lane.leave()
	return true, err
}

// runShort is run of a prepared call.
func (g *Group) runShort(ctx context.Context, q *host.Prepared, kind plan.Kind, dst, src []byte) error {
	seq := g.lane.calls()
	if g.failure.Load() != nil || g.left.Load() != nil {
		return g.refuse(numbered(q, seq).String())
	}
	err := ctx.Err()
	switch {
	case err != nil:
		err = ipc.ContextError(ctx)
	case kind == plan.AllReduce:
		err = q.AllReduce(ctx, seq, dst, src)
	case kind == plan.Barrier:
		err = q.Barrier(ctx, seq)
	case kind == plan.Broadcast:
		err = q.Broadcast(ctx, seq, dst)
	case kind == plan.AllGather:
		err = q.AllGather(ctx, seq, dst, src)
	default:
		err = q.ReduceScatter(ctx, seq, dst, src)
	}
	if err != nil {
		return g.resolve(&job{call: numbered(q, seq)}, err)
	}
	g.count(len(dst))
	return nil
}

// numbered is q as the seq-th call.
func numbered(q *host.Prepared, seq uint64) plan.Call {
	c := q.Call()
	c.Seq = seq
	return c
}
