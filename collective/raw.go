package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// Raw is a collective on bytes whose element type is known only when it runs. A worker
// that carries out a plan made for tensors calls it instead of the functions with a type.
type Raw struct {
	Kind  plan.Kind         // AllReduce, ReduceScatter, AllGather or AllToAll
	Op    element.Reduction // of the first two; not Mean
	DType element.DType
	// what a reduction multiplies its result by before it rounds; 1 for most
	Scale float64

	// Dst and Src are aligned for elements of DType. They overlap only as the functions
	// with a type allow.
	Dst, Src []byte

	// Send holds elements by rank of Src, for ReduceScatter and AllToAll; Recv of Dst,
	// for AllGather and AllToAll.
	Send, Recv []int
}

// Start starts the call; see AllReduceAsync, ReduceScatterVAsync, AllGatherVAsync and
// AllToAllVAsync. The Work has the error of wrong arguments.
func (r *Raw) Start(ctx context.Context, g *Group) *Work {
	q, err := r.request(g)
	return g.begin(ctx, &q, err)
}

// Do makes the call and waits for its end.
func (r *Raw) Do(ctx context.Context, g *Group) error {
	q, err := r.request(g)
	if err != nil {
		return err
	}
	return g.lane.do(ctx, &q)
}

// request checks r.
func (r *Raw) request(g *Group) (plan.Request, error) {
	var q plan.Request
	if !r.DType.Valid() || !r.Op.Valid() {
		return q, fmt.Errorf("%w: %v of %v", ErrOp, r.Op, r.DType)
	}
	size := r.DType.Size()
	if len(r.Dst)%size != 0 || len(r.Src)%size != 0 {
		return q, fmt.Errorf("%w: %v of %d bytes into %d, expected multiples of %d",
			ErrLength, r.Kind, len(r.Src), len(r.Dst), size)
	}
	q.Dst, q.Src = r.Dst, r.Src
	q.Call = plan.Call{Kind: r.Kind, Op: r.Op, DType: r.DType, Scale: r.Scale}
	out, in, err := r.lengths(g, &q)
	if err != nil {
		return q, fmt.Errorf("%v: %w", r.Kind, err)
	}
	if len(r.Src) != out || len(r.Dst) != in {
		return q, fmt.Errorf("%w: %v of %d bytes into %d, expected %d and %d",
			ErrLength, r.Kind, len(r.Src), len(r.Dst), out, in)
	}
	if overlap(r.Dst, r.Src) && !(r.Kind == plan.AllReduce && same(r.Dst, r.Src)) {
		return q, fmt.Errorf("%w: %v", ErrOverlap, r.Kind)
	}
	if !r.Kind.Folds() {
		q.Call.Op, q.Call.Scale = element.None, 0
	} else if err := kernel.Supported(r.Op, r.DType); err != nil {
		return q, fmt.Errorf("%w: %w", ErrOp, err)
	}
	return q, nil
}

// lengths fills in counts and returns the bytes that Src and Dst should have.
func (r *Raw) lengths(g *Group, q *plan.Request) (out, in int, err error) {
	size := r.DType.Size()
	c := &q.Call
	switch r.Kind {
	case plan.AllReduce:
		out, in = len(r.Src), len(r.Src)
		c.Count = int64(len(r.Src) / size)
	case plan.ReduceScatter:
		if q.Counts, out, err = g.bytesOfCounts(r.Send, size); err == nil {
			in, out = q.Counts[g.rank], out*size
		}
		c.Count, c.Counts = int64(len(r.Src)/size), plan.HashCounts(r.Send)
	case plan.AllGather:
		if q.Counts, in, err = g.bytesOfCounts(r.Recv, size); err == nil {
			out, in = q.Counts[g.rank], in*size
		}
		c.Count, c.Counts = int64(len(r.Dst)/size), plan.HashCounts(r.Recv)
	case plan.AllToAll:
		if q.Counts, out, err = g.bytesOfCounts(r.Send, size); err == nil {
			q.Recv, in, err = g.bytesOfCounts(r.Recv, size)
			out, in = out*size, in*size
		}
	default:
		err = fmt.Errorf("%w: it is not a raw call", ErrOp)
	}
	return out, in, err
}
