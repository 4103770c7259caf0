package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
)

// AllReduce folds the src of all ranks into the dst of each: element i of dst is element
// i of every src combined by op, the same bits on every rank. dst and src have one
// length, the same on all ranks; they are the same slice or do not overlap.
func AllReduce[T Element](ctx context.Context, g *Group, dst, src []T, op Op) error {
	var r plan.Request
	if err := allReduce(&r, g, dst, src, op); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// AllReduceAsync starts an AllReduce. Until it is done src must not be written and dst
// not be touched.
func AllReduceAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op) *Work {
	var r plan.Request
	return g.begin(ctx, &r, allReduce(&r, g, dst, src, op))
}

// allReduce fills in the request of an AllReduce.
func allReduce[T Element](r *plan.Request, g *Group, dst, src []T, op Op) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%w: all-reduce of %d elements into %d", ErrLength, len(src), len(dst))
	}
	r.Dst, r.Src = bytesOf(dst), bytesOf(src)
	if !same(r.Dst, r.Src) && overlap(r.Dst, r.Src) {
		return fmt.Errorf("%w: all-reduce", ErrOverlap)
	}
	return reduction(g, r, plan.AllReduce, op, dtypeOf[T](), len(src))
}

// Reduce folds the src of all ranks into the dst of root, as AllReduce does. The others'
// dst is not used and may be nil.
func Reduce[T Element](ctx context.Context, g *Group, dst, src []T, op Op, root int) error {
	var r plan.Request
	if err := reduce(&r, g, dst, src, op, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// ReduceAsync starts a Reduce.
func ReduceAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op, root int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, reduce(&r, g, dst, src, op, root))
}

// reduce fills in the request of a Reduce.
func reduce[T Element](r *plan.Request, g *Group, dst, src []T, op Op, root int) error {
	if err := g.has(root, "root"); err != nil {
		return err
	}
	r.Src, r.Peer = bytesOf(src), root
	if g.rank == root {
		if len(dst) != len(src) {
			return fmt.Errorf("%w: reduce of %d elements into %d", ErrLength, len(src), len(dst))
		}
		r.Dst = bytesOf(dst)
		if !same(r.Dst, r.Src) && overlap(r.Dst, r.Src) {
			return fmt.Errorf("%w: reduce", ErrOverlap)
		}
	}
	r.Call.Root = int32(root)
	return reduction(g, r, plan.Reduce, op, dtypeOf[T](), len(src))
}

// ReduceScatter folds the src of all ranks and gives each rank its part: rank r has
// elements r*len(dst) to (r+1)*len(dst) of the result. src is Size times as long as dst.
// dst may be this rank's part of src; otherwise they do not overlap.
func ReduceScatter[T Element](ctx context.Context, g *Group, dst, src []T, op Op) error {
	return ReduceScatterV(ctx, g, dst, src, nil, op)
}

// ReduceScatterAsync starts a ReduceScatter.
func ReduceScatterAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op) *Work {
	return ReduceScatterVAsync(ctx, g, dst, src, nil, op)
}

// ReduceScatterV is ReduceScatter with parts of counts[r] elements for rank r. counts is
// the same on all ranks.
func ReduceScatterV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, op Op) error {
	var r plan.Request
	if err := reduceScatter(&r, g, dst, src, counts, op); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// ReduceScatterVAsync starts a ReduceScatterV. counts may be used again at once.
func ReduceScatterVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, op Op) *Work {
	var r plan.Request
	return g.begin(ctx, &r, reduceScatter(&r, g, dst, src, counts, op))
}

// reduceScatter fills in the request of a ReduceScatter; counts nil: parts of one length.
func reduceScatter[T Element](r *plan.Request, g *Group, dst, src []T, counts []int, op Op) error {
	r.Dst, r.Src = bytesOf(dst), bytesOf(src)
	if err := parts(g, r, "reduce-scatter", dst, src, counts); err != nil {
		return err
	}
	return reduction(g, r, plan.ReduceScatter, op, dtypeOf[T](), len(src))
}
