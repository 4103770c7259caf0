package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// Raw is a collective on bytes whose element type is known only when it runs: what carries out plans that were made for
// tensors calls this instead of the functions with a type.
type Raw struct {
	Kind  plan.Kind         // AllReduce, ReduceScatter, AllGather or AllToAll
	Op    element.Reduction // of the first two
	DType element.DType
	Scale float64 // what a reduction multiplies its result by before it rounds; 1 for most

	// Dst and Src are aligned for elements of DType. They overlap only as the functions with a type allow.
	Dst, Src []byte

	// Send is elements by rank of Src, for ReduceScatter and AllToAll; Recv of Dst, for AllGather and AllToAll.
	Send, Recv []int
}

// Start starts the call; see AllReduceAsync, ReduceScatterVAsync, AllGatherVAsync and AllToAllVAsync. What is wrong with it the Work
// returns.
func (r *Raw) Start(ctx context.Context, g *Group) *Work {
	var j job
	return g.begin(ctx, &j, r.job(g, &j))
}

// Do makes the call and waits for its end.
func (r *Raw) Do(ctx context.Context, g *Group) error {
	var j job
	if err := r.job(g, &j); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

func (r *Raw) job(g *Group, j *job) error {
	if !r.DType.Valid() || !r.Op.Valid() {
		return fmt.Errorf("%w: %v of %v", ErrOp, r.Op, r.DType)
	}
	size := r.DType.Size()
	if len(r.Dst)%size != 0 || len(r.Src)%size != 0 {
		return fmt.Errorf("%w: %v of %d bytes into %d, expected multiples of %d", ErrLength, r.Kind, len(r.Src), len(r.Dst), size)
	}
	j.dst, j.src, j.scale = r.Dst, r.Src, r.Scale
	j.call = plan.Call{Kind: r.Kind, Op: r.Op, DType: r.DType, Scale: r.Scale}
	var out, in int // bytes that src and dst should have
	var err error
	switch r.Kind {
	case plan.AllReduce:
		out, in = len(r.Src), len(r.Src)
		j.call.Count = int64(len(r.Src) / size)
	case plan.ReduceScatter:
		if j.counts, out, err = g.bytesOfCounts(r.Send, size); err == nil {
			in = j.counts[g.rank]
			out *= size
		}
		j.call.Count, j.call.Counts = int64(len(r.Src)/size), plan.HashCounts(r.Send)
	case plan.AllGather:
		if j.counts, in, err = g.bytesOfCounts(r.Recv, size); err == nil {
			out = j.counts[g.rank]
			in *= size
		}
		j.call.Count, j.call.Counts = int64(len(r.Dst)/size), plan.HashCounts(r.Recv)
	case plan.AllToAll:
		if j.counts, out, err = g.bytesOfCounts(r.Send, size); err == nil {
			j.recv, in, err = g.bytesOfCounts(r.Recv, size)
			out, in = out*size, in*size
		}
	default:
		return fmt.Errorf("%w: a raw %v", ErrOp, r.Kind)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", r.Kind, err)
	}
	if len(r.Src) != out || len(r.Dst) != in {
		return fmt.Errorf("%w: %v of %d bytes into %d, expected %d and %d", ErrLength, r.Kind, len(r.Src), len(r.Dst), out, in)
	}
	if overlap(r.Dst, r.Src) && !(r.Kind == plan.AllReduce && same(r.Dst, r.Src)) {
		return fmt.Errorf("%w: %v", ErrOverlap, r.Kind)
	}
	if r.Kind == plan.AllReduce || r.Kind == plan.ReduceScatter {
		if err := kernel.Supported(r.Op, r.DType); err != nil {
			return fmt.Errorf("%w: %w", ErrOp, err)
		}
	} else {
		j.call.Op, j.call.Scale = element.None, 0
	}
	return nil
}
