package host

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// Prepared is a call that is made many times, with buffers of one length: what is the same every time was checked and encoded once.
// The calls of its methods are those of Comm, but for the lock that those take: while one is under way nobody may call anything of its
// Comm but Abort, Alloc, Free and Err. The context is not looked at before the call has to wait.
type Prepared struct {
	comm  *Comm
	call  plan.Call // Seq is of the last time
	word  uint64    // of call but for its Seq
	text  [plan.CallBytes]byte
	brief bool  // made by meetBrief
	bytes int   // of this rank's source; for a broadcast, of the buffer
	parts []int // bytes by rank of what a reduce-scatter or an all-gather divides
}

func (q *Prepared) set(call *plan.Call) {
	q.call = *call
	q.call.Seq = 0
	q.word = q.call.Word()
	q.call.Encode(&q.text)
}

// Prepare returns a call of n bytes: an all-reduce or an even reduce-scatter of that many in a source, an all-gather of sources of that
// many, a broadcast from call.Root, or a barrier. It says plan.ErrBadCall as the calls do.
func (c *Comm) Prepare(call plan.Call, scale float64, n int) (*Prepared, error) {
	var err error
	switch call.Kind {
	case plan.AllReduce:
		call.Scale = scale
		err = kernel.CheckFold(call.Op, call.DType, scale, n)
	case plan.ReduceScatter:
		call.Scale = scale
		if err = kernel.CheckFold(call.Op, call.DType, scale, n); err == nil && n%(c.n*call.DType.Size()) != 0 {
			err = fmt.Errorf("%w: %d bytes are not divided among %d ranks", plan.ErrBadCall, n, c.n)
		}
	case plan.Broadcast:
		err = plan.CheckRoot(int(call.Root), c.n)
	case plan.AllGather, plan.Barrier:
	default:
		err = fmt.Errorf("%w: %v can't be prepared", plan.ErrBadCall, call.Kind)
	}
	if err != nil {
		return nil, err
	}
	q := &Prepared{comm: c, bytes: n, parts: make([]int, c.n)}
	for p := range q.parts {
		if q.parts[p] = n; call.Kind == plan.ReduceScatter {
			q.parts[p] = n / c.n
		}
	}
	q.set(&call)
	q.brief = c.isBrief(&call, n)
	return q, nil
}

// Call is the call as it was made last.
func (q *Prepared) Call() plan.Call { return q.call }

// Brief says whether the call is one of two ranks that have no more to say than fits beside a mark, of which there may be an Express.
func (q *Prepared) Brief() bool { return q.brief }

// Barrier is [Comm.Barrier], the seq-th call.
func (q *Prepared) Barrier(ctx context.Context, seq uint64) error {
	if q.brief && q.comm.window.epoch != q.comm.epoch { // else meet looks for notices that nobody took
		_, err := q.meetBrief(ctx, seq, 0)
		return err
	}
	if err := q.comm.again(ctx, q, seq); err != nil {
		return err
	}
	return q.comm.meet()
}

// AllReduce is [Comm.AllReduce], the seq-th call.
func (q *Prepared) AllReduce(ctx context.Context, seq uint64, dst, src []byte) error {
	if len(src) != q.bytes || len(dst) != q.bytes {
		return fmt.Errorf("%w: all-reduce of %d bytes into %d, prepared for %d", plan.ErrBadCall, len(src), len(dst), q.bytes)
	}
	if q.brief && q.comm.window.epoch != q.comm.epoch { // else meet looks for notices that nobody took
		return q.addBrief(ctx, seq, dst, src)
	}
	if err := q.comm.again(ctx, q, seq); err != nil {
		return err
	}
	return q.comm.allReduce(dst, src)
}

// Broadcast is [Comm.Broadcast] from the call's Root, the seq-th call.
func (q *Prepared) Broadcast(ctx context.Context, seq uint64, buf []byte) error {
	if len(buf) != q.bytes {
		return fmt.Errorf("%w: broadcast of %d bytes, prepared for %d", plan.ErrBadCall, len(buf), q.bytes)
	}
	if err := q.comm.again(ctx, q, seq); err != nil {
		return err
	}
	return q.comm.broadcast(buf, int(q.call.Root))
}

// ReduceScatter is [Comm.ReduceScatter] of equal parts, the seq-th call.
func (q *Prepared) ReduceScatter(ctx context.Context, seq uint64, dst, src []byte) error {
	if len(src) != q.bytes || len(dst) != q.parts[0] {
		return fmt.Errorf("%w: reduce-scatter of %d bytes into %d, prepared for %d", plan.ErrBadCall, len(src), len(dst), q.bytes)
	}
	if err := q.comm.again(ctx, q, seq); err != nil {
		return err
	}
	return q.comm.reduceScatter(dst, src, q.parts)
}

// AllGather is [Comm.AllGather] of equal parts, the seq-th call.
func (q *Prepared) AllGather(ctx context.Context, seq uint64, dst, src []byte) error {
	if len(src) != q.bytes || len(dst) != q.bytes*q.comm.n {
		return fmt.Errorf("%w: all-gather of %d bytes into %d, prepared for %d", plan.ErrBadCall, len(src), len(dst), q.bytes)
	}
	if err := q.comm.again(ctx, q, seq); err != nil {
		return err
	}
	if len(src) <= q.comm.flat {
		return q.comm.gatherSmall(dst, src)
	}
	return q.comm.gatherAll(dst, src, q.parts, true)
}
