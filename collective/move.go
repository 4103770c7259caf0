package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/collective/plan"
)

// Barrier returns on no rank before every rank has called it.
func (g *Group) Barrier(ctx context.Context) error {
	if s := g.short; s != nil {
		b, over := &s.barrier, ctx.Err() != nil
		if b.express != nil && !over {
			word, got := b.express.Barrier()
			if got == host.Made {
				return nil
			}
			if made, err := g.restOf(ctx, b, word, got); made {
				return err
			}
		}
		if g.lane.enter(laneCall | laneHeld) {
			err := g.runBound(ctx, b, over)
			if b.express != nil && err == nil {
				g.lane.favor()
			}
			g.lane.leave()
			return err
		}
	}
	j := job{call: plan.Call{Kind: plan.Barrier}}
	return g.lane.do(ctx, &j)
}

// BarrierAsync starts a Barrier.
func (g *Group) BarrierAsync(ctx context.Context) *Work {
	return g.begin(ctx, &job{call: plan.Call{Kind: plan.Barrier}}, nil)
}

// Broadcast copies root's buf to every rank's, which has the same length. It is no barrier: on root it may return before the others have
// called it, elsewhere as soon as root's values are there. That one of them calls something else or is gone, root then learns in its
// next call.
func Broadcast[T Element](ctx context.Context, g *Group, buf []T, root int) error {
	k := shortKeyOf(plan.Broadcast, 0, dtypeOf[T](), int32(root), len(buf))
	if uint(root) < uint(g.size) {
		if done, err := g.shortly(ctx, k, &bound{dst: bytesOf(buf)}); done {
			return err
		}
	}
	var j job
	if err := broadcast(&j, g, buf, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// BroadcastAsync starts a Broadcast.
func BroadcastAsync[T Element](ctx context.Context, g *Group, buf []T, root int) *Work {
	var j job
	return g.begin(ctx, &j, broadcast(&j, g, buf, root))
}

func broadcast[T Element](j *job, g *Group, buf []T, root int) error {
	j.dst, j.peer = bytesOf(buf), root
	j.call = plan.Call{Kind: plan.Broadcast, DType: dtypeOf[T](), Count: int64(len(buf)), Root: int32(root)}
	return g.has(root, "root")
}

// AllGather gives every rank the src of all, one behind the other in rank order. src has the same length on all ranks, dst
// is Size times as long. src may be this rank's part of dst; otherwise they do not overlap.
func AllGather[T Element](ctx context.Context, g *Group, dst, src []T) error {
	if len(dst) == g.size*len(src) {
		d, s, off := bytesOf(dst), bytesOf(src), g.rank*len(src)
		if !overlap(d, s) || same(s, bytesOf(dst[off:off+len(src)])) {
			if done, err := g.shortly(ctx, shortKeyOf(plan.AllGather, 0, dtypeOf[T](), 0, len(src)), &bound{dst: d, src: s}); done {
				return err
			}
		}
	}
	var j job
	if err := allGather(&j, g, dst, src, nil); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// AllGatherAsync starts an AllGather.
func AllGatherAsync[T Element](ctx context.Context, g *Group, dst, src []T) *Work {
	var j job
	return g.begin(ctx, &j, allGather(&j, g, dst, src, nil))
}

// AllGatherV is AllGather with counts[r] elements of rank r. counts is the same on all ranks.
func AllGatherV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int) error {
	var j job
	if err := allGather(&j, g, dst, src, counts); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// AllGatherVAsync starts an AllGatherV.
func AllGatherVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int) *Work {
	var j job
	return g.begin(ctx, &j, allGather(&j, g, dst, src, counts))
}

func allGather[T Element](j *job, g *Group, dst, src []T, counts []int) error {
	j.dst, j.src = bytesOf(dst), bytesOf(src)
	if err := parts(g, j, "all-gather", src, dst, counts); err != nil {
		return err
	}
	j.call.Kind, j.call.DType, j.call.Count = plan.AllGather, dtypeOf[T](), int64(len(dst))
	return nil
}

// Gather gives root the src of all, one behind the other in rank order; the others' dst is not looked at and may be nil.
// Lengths are as for AllGather.
func Gather[T Element](ctx context.Context, g *Group, dst, src []T, root int) error {
	var j job
	if err := gather(&j, g, dst, src, nil, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// GatherAsync starts a Gather.
func GatherAsync[T Element](ctx context.Context, g *Group, dst, src []T, root int) *Work {
	var j job
	return g.begin(ctx, &j, gather(&j, g, dst, src, nil, root))
}

// GatherV is Gather with counts[r] elements of rank r. counts is the same on all ranks.
func GatherV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) error {
	var j job
	if err := gather(&j, g, dst, src, counts, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// GatherVAsync starts a GatherV.
func GatherVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) *Work {
	var j job
	return g.begin(ctx, &j, gather(&j, g, dst, src, counts, root))
}

func gather[T Element](j *job, g *Group, dst, src []T, counts []int, root int) error {
	j.src = bytesOf(src)
	err := rooted(g, j, plan.Gather, src, dst, counts, root)
	if g.rank == root {
		j.dst = bytesOf(dst)
	}
	return err
}

// Scatter gives each rank its part of root's src: rank r has elements r*len(dst) to (r+1)*len(dst). The others' src is not
// looked at and may be nil. dst has the same length on all ranks. Root's dst may be its part of src; otherwise they do not overlap.
func Scatter[T Element](ctx context.Context, g *Group, dst, src []T, root int) error {
	var j job
	if err := scatter(&j, g, dst, src, nil, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// ScatterAsync starts a Scatter.
func ScatterAsync[T Element](ctx context.Context, g *Group, dst, src []T, root int) *Work {
	var j job
	return g.begin(ctx, &j, scatter(&j, g, dst, src, nil, root))
}

// ScatterV is Scatter with counts[r] elements for rank r. counts is the same on all ranks.
func ScatterV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) error {
	var j job
	if err := scatter(&j, g, dst, src, counts, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// ScatterVAsync starts a ScatterV.
func ScatterVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) *Work {
	var j job
	return g.begin(ctx, &j, scatter(&j, g, dst, src, counts, root))
}

func scatter[T Element](j *job, g *Group, dst, src []T, counts []int, root int) error {
	j.dst = bytesOf(dst)
	err := rooted(g, j, plan.Scatter, dst, src, counts, root)
	if g.rank == root {
		j.src = bytesOf(src)
	}
	return err
}

// rooted checks a gather or scatter: one is every rank's part, all is root's.
func rooted[T Element](g *Group, j *job, kind plan.Kind, one, all []T, counts []int, root int) error {
	if err := g.has(root, "root"); err != nil {
		return err
	}
	if g.rank != root { // whose all does not count: any memory of the right length
		all = nil
		j.each = len(one) * dtypeOf[T]().Size()
	}
	whole := len(one) * g.size
	if counts != nil {
		var err error
		if j.counts, whole, err = g.bytesOfCounts(counts, dtypeOf[T]().Size()); err != nil {
			return fmt.Errorf("%v: %w", kind, err)
		}
		j.call.Counts = plan.HashCounts(counts)
		if len(one) != counts[g.rank] {
			return fmt.Errorf("%w: %v of %d elements, counts say %d", ErrLength, kind, len(one), counts[g.rank])
		}
	}
	if g.rank == root {
		if err := parts(g, j, kind.String(), one, all, counts); err != nil {
			return err
		}
	}
	j.peer = root
	j.call.Kind, j.call.DType, j.call.Count, j.call.Root = kind, dtypeOf[T](), int64(whole), int32(root)
	return nil
}

// AllToAll gives rank r the r-th part of this rank's src and puts what rank r has for this one in the r-th part of dst. dst and
// src have one length, a multiple of Size, the same on all ranks, and do not overlap.
func AllToAll[T Element](ctx context.Context, g *Group, dst, src []T) error {
	var j job
	if err := allToAll(&j, g, dst, src); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// AllToAllAsync starts an AllToAll.
func AllToAllAsync[T Element](ctx context.Context, g *Group, dst, src []T) *Work {
	var j job
	return g.begin(ctx, &j, allToAll(&j, g, dst, src))
}

func allToAll[T Element](j *job, g *Group, dst, src []T) error {
	if len(dst) != len(src) || len(src)%g.size != 0 {
		return fmt.Errorf("%w: all-to-all of %d elements into %d, expected one multiple of %d", ErrLength, len(src), len(dst), g.size)
	}
	j.dst, j.src = bytesOf(dst), bytesOf(src)
	j.each = len(j.src) / g.size
	j.call = plan.Call{Kind: plan.AllToAll, DType: dtypeOf[T](), Count: int64(len(src))}
	if overlap(j.dst, j.src) {
		return fmt.Errorf("%w: all-to-all", ErrOverlap)
	}
	return nil
}

// AllToAllV is AllToAll with sendCounts[r] elements for rank r and recvCounts[r] from it. What one rank sends to another
// is what that expects of it.
func AllToAllV[T Element](ctx context.Context, g *Group, dst, src []T, sendCounts, recvCounts []int) error {
	var j job
	if err := allToAllV(&j, g, dst, src, sendCounts, recvCounts); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// AllToAllVAsync starts an AllToAllV.
func AllToAllVAsync[T Element](ctx context.Context, g *Group, dst, src []T, sendCounts, recvCounts []int) *Work {
	var j job
	return g.begin(ctx, &j, allToAllV(&j, g, dst, src, sendCounts, recvCounts))
}

func allToAllV[T Element](j *job, g *Group, dst, src []T, sendCounts, recvCounts []int) error {
	j.dst, j.src = bytesOf(dst), bytesOf(src)
	size := dtypeOf[T]().Size()
	var out, in int
	var err error
	if j.counts, out, err = g.bytesOfCounts(sendCounts, size); err == nil {
		j.recv, in, err = g.bytesOfCounts(recvCounts, size)
	}
	switch {
	case err != nil:
		return fmt.Errorf("all-to-all: %w", err)
	case len(src) != out || len(dst) != in || sendCounts[g.rank] != recvCounts[g.rank]:
		return fmt.Errorf("%w: all-to-all of %d elements, counts say %d, into %d, counts say %d; to oneself %d and %d",
			ErrLength, len(src), out, len(dst), in, sendCounts[g.rank], recvCounts[g.rank])
	case overlap(j.dst, j.src):
		return fmt.Errorf("%w: all-to-all", ErrOverlap)
	}
	j.call = plan.Call{Kind: plan.AllToAll, DType: dtypeOf[T]()} // counts are between pairs
	return nil
}

// Send gives buf to a rank, which calls Recv with as many elements of that type. It may return before that, but counts on it:
// two ranks that both send first what is large wait for each other, so let one receive first, or use SendRecv. What is sent
// to oneself is kept until it is received.
func Send[T Element](ctx context.Context, g *Group, buf []T, to int) error {
	var j job
	if err := pair(&j, g, plan.Send, buf, to); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// SendAsync starts a Send. What is started after it, a Recv too, waits for it.
func SendAsync[T Element](ctx context.Context, g *Group, buf []T, to int) *Work {
	var j job
	return g.begin(ctx, &j, pair(&j, g, plan.Send, buf, to))
}

// Recv fills buf with what a rank sends by Send.
func Recv[T Element](ctx context.Context, g *Group, buf []T, from int) error {
	var j job
	if err := pair(&j, g, plan.Recv, buf, from); err != nil {
		return err
	}
	return g.lane.do(ctx, &j)
}

// RecvAsync starts a Recv.
func RecvAsync[T Element](ctx context.Context, g *Group, buf []T, from int) *Work {
	var j job
	return g.begin(ctx, &j, pair(&j, g, plan.Recv, buf, from))
}

func pair[T Element](j *job, g *Group, kind plan.Kind, buf []T, peer int) error {
	j.dst, j.peer = bytesOf(buf), peer
	j.call = plan.Call{Kind: kind, DType: dtypeOf[T](), Count: int64(len(buf))}
	return g.has(peer, "peer")
}

// SendRecv sends to one rank and receives from another, or the same. Ranks that all call it, each sending to one and receiving
// from one, do not wait for each other in a circle: who sends to a higher rank sends first, the others receive first.
func SendRecv[T Element](ctx context.Context, g *Group, send []T, to int, recv []T, from int) error {
	var s, r job
	if err := errors.Join(pair(&s, g, plan.Send, send, to), pair(&r, g, plan.Recv, recv, from)); err != nil {
		return err
	}
	if overlap(s.dst, r.dst) {
		return fmt.Errorf("%w: send and receive", ErrOverlap)
	}
	first, second := &s, &r
	if to < g.rank {
		first, second = &r, &s
	}
	if err := g.lane.do(ctx, first); err != nil {
		return err
	}
	return g.lane.do(ctx, second)
}
