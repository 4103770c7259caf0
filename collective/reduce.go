package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/protocol"
)

// AllReduce folds the src of all ranks into the dst of each: element i of dst is element
// i of every src combined by op, the same bits on every rank. dst and src have one
// length, the same on all ranks; they are the same slice or do not overlap.
func AllReduce[T Element](ctx context.Context, g *Group, dst, src []T, op Op) error {
	r := request(protocol.AllReduce, op, dst, src, nil, 0)
	return g.do(ctx, &r)
}

// AllReduceAsync starts an AllReduce. Until it is done src must not be written and dst
// not be touched.
func AllReduceAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op) *Work {
	return start(ctx, g, protocol.AllReduce, op, dst, src, nil, 0)
}

// Reduce folds the src of all ranks into the dst of root, as AllReduce does. The others'
// dst is not used and may be nil.
func Reduce[T Element](ctx context.Context, g *Group, dst, src []T, op Op, root int) error {
	return call(ctx, g, protocol.Reduce, op, dst, src, nil, root)
}

// ReduceAsync starts a Reduce.
func ReduceAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op, root int) *Work {
	return start(ctx, g, protocol.Reduce, op, dst, src, nil, root)
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
	return call(ctx, g, protocol.ReduceScatter, op, dst, src, counts, 0)
}

// ReduceScatterVAsync starts a ReduceScatterV. counts may be used again at once.
func ReduceScatterVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, op Op) *Work {
	return start(ctx, g, protocol.ReduceScatter, op, dst, src, counts, 0)
}
