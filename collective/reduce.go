package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
)

// AllReduce folds the src of all ranks into the dst of each: element i of dst is element i of every src combined by op, the
// same bits on every rank. dst and src have one length, the same on all ranks; they are the same slice or do not overlap.
func AllReduce[T Element](ctx context.Context, g *Group, dst, src []T, op Op) error {
	if s := g.short; s != nil {
		over := ctx.Err() != nil // before it takes the lane, for there may be no context
		k := shortKeyOf(plan.AllReduce, op, dtypeOf[T](), 0, len(src))
		if b := s.again.Load(); b != nil && gives(b, k, dst, src) && !over {
			word, got := b.express.Sum(b.src)
			if made, err := g.restOf(ctx, b, word, got); made {
				return err
			}
		}
		if g.lane.enter(laneCall | laneHeld) {
			b := &s.recent
			again := gives(b, k, dst, src)
			if !again {
				b = s.recall(k, bytesOf(dst), bytesOf(src))
			}
			if b != nil {
				err := g.runBound(ctx, b, over)
				if again && err == nil {
					s.repeat(g.lane)
				} else if b == &s.large {
					*b = bound{} // which would keep the buffers from the garbage collector
				}
				g.lane.leave()
				return err
			}
			g.lane.retract(laneCall | laneHeld)
		}
	}
	var j job
	if err := allReduce(&j, g, dst, src, op); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// AllReduceAsync starts an AllReduce. Until it is done src must not be written and dst not be touched.
func AllReduceAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op) *Work {
	var j job
	return g.begin(ctx, &j, allReduce(&j, g, dst, src, op))
}

func allReduce[T Element](j *job, g *Group, dst, src []T, op Op) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%w: all-reduce of %d elements into %d", ErrLength, len(src), len(dst))
	}
	j.dst, j.src = bytesOf(dst), bytesOf(src)
	if !same(j.dst, j.src) && overlap(j.dst, j.src) {
		return fmt.Errorf("%w: all-reduce", ErrOverlap)
	}
	return reduction[T](g, j, plan.AllReduce, op, len(src))
}

// reduction fills in a call that folds count elements.
func reduction[T Element](g *Group, j *job, kind plan.Kind, op Op, count int) error {
	dt := dtypeOf[T]()
	fold, scale, err := op.fold(dt, g.size)
	if err != nil {
		return err
	}
	j.scale = scale
	c := &j.call // field by field, for a whole one would be copied once more
	c.Kind, c.Op, c.DType, c.Count, c.Scale = kind, fold, dt, int64(count), scale
	return nil
}

// Reduce folds the src of all ranks into the dst of root, as AllReduce does; the others' dst is not looked at and may be nil.
func Reduce[T Element](ctx context.Context, g *Group, dst, src []T, op Op, root int) error {
	var j job
	if err := reduce(&j, g, dst, src, op, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// ReduceAsync starts a Reduce.
func ReduceAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op, root int) *Work {
	var j job
	return g.begin(ctx, &j, reduce(&j, g, dst, src, op, root))
}

func reduce[T Element](j *job, g *Group, dst, src []T, op Op, root int) error {
	if err := g.has(root, "root"); err != nil {
		return err
	}
	j.src, j.peer = bytesOf(src), root
	if g.rank == root {
		if len(dst) != len(src) {
			return fmt.Errorf("%w: reduce of %d elements into %d", ErrLength, len(src), len(dst))
		}
		j.dst = bytesOf(dst)
		if !same(j.dst, j.src) && overlap(j.dst, j.src) {
			return fmt.Errorf("%w: reduce", ErrOverlap)
		}
	}
	err := reduction[T](g, j, plan.Reduce, op, len(src))
	j.call.Root = int32(root)
	return err
}

// ReduceScatter folds the src of all ranks and gives each its part: rank r has elements r*len(dst) to (r+1)*len(dst) of the
// result. src is Size times as long as dst. dst may be this rank's part of src; otherwise they do not overlap.
func ReduceScatter[T Element](ctx context.Context, g *Group, dst, src []T, op Op) error {
	if len(src) == g.size*len(dst) {
		d, s, off := bytesOf(dst), bytesOf(src), g.rank*len(dst)
		if !overlap(d, s) || same(d, bytesOf(src[off:off+len(dst)])) {
			k := shortKeyOf(plan.ReduceScatter, op, dtypeOf[T](), 0, len(src))
			if done, err := g.shortly(ctx, k, &bound{dst: d, src: s}); done {
				return err
			}
		}
	}
	var j job
	if err := reduceScatter(&j, g, dst, src, nil, op); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// ReduceScatterAsync starts a ReduceScatter.
func ReduceScatterAsync[T Element](ctx context.Context, g *Group, dst, src []T, op Op) *Work {
	var j job
	return g.begin(ctx, &j, reduceScatter(&j, g, dst, src, nil, op))
}

// ReduceScatterV is ReduceScatter with parts of counts[r] elements for rank r. counts is the same on all ranks.
func ReduceScatterV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, op Op) error {
	var j job
	if err := reduceScatter(&j, g, dst, src, counts, op); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// ReduceScatterVAsync starts a ReduceScatterV. counts may be used again at once.
func ReduceScatterVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, op Op) *Work {
	var j job
	return g.begin(ctx, &j, reduceScatter(&j, g, dst, src, counts, op))
}

func reduceScatter[T Element](j *job, g *Group, dst, src []T, counts []int, op Op) error {
	j.dst, j.src = bytesOf(dst), bytesOf(src)
	if err := parts(g, j, "reduce-scatter", dst, src, counts); err != nil {
		return err
	}
	return reduction[T](g, j, plan.ReduceScatter, op, len(src))
}

// parts checks one and all, a rank's part and the whole of all ranks' parts, and puts the counts in the job. one may be its
// own place in all. counts nil: even.
func parts[T Element](g *Group, j *job, what string, one, all []T, counts []int) error {
	off, mine, whole := g.rank*len(one), len(one), g.size*len(one)
	size := dtypeOf[T]().Size()
	j.each = len(one) * size
	if counts != nil {
		var err error
		if j.counts, whole, err = g.bytesOfCounts(counts, size); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		j.call.Counts = plan.HashCounts(counts)
		off, mine = 0, counts[g.rank]
		for _, n := range counts[:g.rank] {
			off += n
		}
	}
	if len(one) != mine || len(all) != whole {
		return fmt.Errorf("%w: %s between %d elements of this rank, expected %d, and %d of all, expected %d",
			ErrLength, what, len(one), mine, len(all), whole)
	}
	a, b := bytesOf(one), bytesOf(all)
	if overlap(a, b) && !same(a, b[off*size:(off+mine)*size]) {
		return fmt.Errorf("%w: %s", ErrOverlap, what)
	}
	return nil
}

// bytesOfCounts is counts of elements in bytes, and their sum in elements.
func (g *Group) bytesOfCounts(counts []int, size int) (out []int, sum int, err error) {
	out = make([]int, len(counts))
	for i, n := range counts {
		if n < 0 || n > (1<<62)/size/max(len(counts), 1) {
			return nil, 0, fmt.Errorf("%w: %d elements of rank %d", ErrLength, n, i)
		}
		out[i] = n * size
		sum += n
	}
	if len(counts) != g.size {
		return nil, 0, fmt.Errorf("%w: %d counts, expected one for each of %d ranks", ErrLength, len(counts), g.size)
	}
	return out, sum, nil
}

// has says whether rank is one of the group's.
func (g *Group) has(rank int, what string) error {
	if rank < 0 || rank >= g.size {
		return fmt.Errorf("%w: %s %d of %d", ErrRank, what, rank, g.size)
	}
	return nil
}

// begin starts a job that was checked.
func (g *Group) begin(ctx context.Context, j *job, err error) *Work {
	if err != nil {
		return failed(err)
	}
	return g.lane.start(ctx, j)
}
