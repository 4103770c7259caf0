package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
)

// Barrier returns on no rank before every rank has called it.
func (g *Group) Barrier(ctx context.Context) error {
	r := plan.Request{Call: plan.Call{Kind: plan.Barrier}}
	return g.lane.do(ctx, &r)
}

// BarrierAsync starts a Barrier.
func (g *Group) BarrierAsync(ctx context.Context) *Work {
	return g.lane.start(ctx, &plan.Request{Call: plan.Call{Kind: plan.Barrier}})
}

// Broadcast copies root's buf to every rank's, which has the same length. It is no
// barrier. On root it may return before the others have called it, elsewhere as soon as
// root's values are there. If one of them is gone or calls something else, root learns it
// in its next call.
func Broadcast[T Element](ctx context.Context, g *Group, buf []T, root int) error {
	var r plan.Request
	if err := broadcast(&r, g, buf, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// BroadcastAsync starts a Broadcast.
func BroadcastAsync[T Element](ctx context.Context, g *Group, buf []T, root int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, broadcast(&r, g, buf, root))
}

// broadcast fills in the request of a Broadcast.
func broadcast[T Element](r *plan.Request, g *Group, buf []T, root int) error {
	r.Dst, r.Peer = bytesOf(buf), root
	r.Call = plan.Call{Kind: plan.Broadcast, DType: dtypeOf[T](), Count: int64(len(buf)), Root: int32(root)}
	return g.has(root, "root")
}

// AllGather gives every rank the src of all, one after the other in rank order. src has
// the same length on all ranks, dst is Size times as long. src may be this rank's part of
// dst; otherwise they do not overlap.
func AllGather[T Element](ctx context.Context, g *Group, dst, src []T) error {
	return AllGatherV(ctx, g, dst, src, nil)
}

// AllGatherAsync starts an AllGather.
func AllGatherAsync[T Element](ctx context.Context, g *Group, dst, src []T) *Work {
	return AllGatherVAsync(ctx, g, dst, src, nil)
}

// AllGatherV is AllGather with counts[r] elements of rank r. counts is the same on all
// ranks.
func AllGatherV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int) error {
	var r plan.Request
	if err := allGather(&r, g, dst, src, counts); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// AllGatherVAsync starts an AllGatherV.
func AllGatherVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, allGather(&r, g, dst, src, counts))
}

// allGather fills in the request of an AllGather; counts nil: parts of one length.
func allGather[T Element](r *plan.Request, g *Group, dst, src []T, counts []int) error {
	r.Dst, r.Src = bytesOf(dst), bytesOf(src)
	if err := parts(g, r, "all-gather", src, dst, counts); err != nil {
		return err
	}
	r.Call.Kind, r.Call.DType, r.Call.Count = plan.AllGather, dtypeOf[T](), int64(len(dst))
	return nil
}

// Gather gives root the src of all, one after the other in rank order. The others' dst is
// not used and may be nil. Lengths are as for AllGather.
func Gather[T Element](ctx context.Context, g *Group, dst, src []T, root int) error {
	return GatherV(ctx, g, dst, src, nil, root)
}

// GatherAsync starts a Gather.
func GatherAsync[T Element](ctx context.Context, g *Group, dst, src []T, root int) *Work {
	return GatherVAsync(ctx, g, dst, src, nil, root)
}

// GatherV is Gather with counts[r] elements of rank r. counts is the same on all ranks.
func GatherV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) error {
	var r plan.Request
	if err := gather(&r, g, dst, src, counts, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// GatherVAsync starts a GatherV.
func GatherVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, gather(&r, g, dst, src, counts, root))
}

// gather fills in the request of a Gather; counts nil: parts of one length.
func gather[T Element](r *plan.Request, g *Group, dst, src []T, counts []int, root int) error {
	r.Src = bytesOf(src)
	if g.rank == root {
		r.Dst = bytesOf(dst)
	}
	return rooted(g, r, plan.Gather, src, dst, counts, root)
}

// Scatter gives each rank its part of root's src: rank r has elements r*len(dst) to
// (r+1)*len(dst). The others' src is not used and may be nil. dst has the same length on
// all ranks. Root's dst may be its part of src; otherwise they do not overlap.
func Scatter[T Element](ctx context.Context, g *Group, dst, src []T, root int) error {
	return ScatterV(ctx, g, dst, src, nil, root)
}

// ScatterAsync starts a Scatter.
func ScatterAsync[T Element](ctx context.Context, g *Group, dst, src []T, root int) *Work {
	return ScatterVAsync(ctx, g, dst, src, nil, root)
}

// ScatterV is Scatter with counts[r] elements for rank r. counts is the same on all
// ranks.
func ScatterV[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) error {
	var r plan.Request
	if err := scatter(&r, g, dst, src, counts, root); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// ScatterVAsync starts a ScatterV.
func ScatterVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, scatter(&r, g, dst, src, counts, root))
}

// scatter fills in the request of a Scatter; counts nil: parts of one length.
func scatter[T Element](r *plan.Request, g *Group, dst, src []T, counts []int, root int) error {
	r.Dst = bytesOf(dst)
	if g.rank == root {
		r.Src = bytesOf(src)
	}
	return rooted(g, r, plan.Scatter, dst, src, counts, root)
}

// AllToAll gives rank r the r-th part of this rank's src, and puts the part that rank r
// has for this one in the r-th part of dst. dst and src have one length, a multiple of
// Size, the same on all ranks, and do not overlap.
func AllToAll[T Element](ctx context.Context, g *Group, dst, src []T) error {
	var r plan.Request
	if err := allToAll(&r, g, dst, src); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// AllToAllAsync starts an AllToAll.
func AllToAllAsync[T Element](ctx context.Context, g *Group, dst, src []T) *Work {
	var r plan.Request
	return g.begin(ctx, &r, allToAll(&r, g, dst, src))
}

// allToAll fills in the request of an AllToAll.
func allToAll[T Element](r *plan.Request, g *Group, dst, src []T) error {
	if len(dst) != len(src) || len(src)%g.size != 0 {
		return fmt.Errorf("%w: all-to-all of %d elements into %d, expected one multiple of %d",
			ErrLength, len(src), len(dst), g.size)
	}
	r.Dst, r.Src = bytesOf(dst), bytesOf(src)
	r.Call = plan.Call{Kind: plan.AllToAll, DType: dtypeOf[T](), Count: int64(len(src))}
	if overlap(r.Dst, r.Src) {
		return fmt.Errorf("%w: all-to-all", ErrOverlap)
	}
	return nil
}

// AllToAllV is AllToAll with sendCounts[r] elements for rank r and recvCounts[r] from it.
// Each rank sends another as much as that expects of it.
func AllToAllV[T Element](ctx context.Context, g *Group, dst, src []T, sendCounts, recvCounts []int) error {
	var r plan.Request
	if err := allToAllV(&r, g, dst, src, sendCounts, recvCounts); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// AllToAllVAsync starts an AllToAllV.
func AllToAllVAsync[T Element](ctx context.Context, g *Group, dst, src []T, sendCounts, recvCounts []int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, allToAllV(&r, g, dst, src, sendCounts, recvCounts))
}

// allToAllV fills in the request of an AllToAllV.
func allToAllV[T Element](r *plan.Request, g *Group, dst, src []T, sendCounts, recvCounts []int) error {
	r.Dst, r.Src = bytesOf(dst), bytesOf(src)
	size := dtypeOf[T]().Size()
	var out, in int
	var err error
	if r.Counts, out, err = g.bytesOfCounts(sendCounts, size); err == nil {
		r.Recv, in, err = g.bytesOfCounts(recvCounts, size)
	}
	switch {
	case err != nil:
		return fmt.Errorf("all-to-all: %w", err)
	case len(src) != out || len(dst) != in || sendCounts[g.rank] != recvCounts[g.rank]:
		return fmt.Errorf("%w: all-to-all of %d elements, counts say %d, into %d, counts say %d; to oneself %d and %d",
			ErrLength, len(src), out, len(dst), in, sendCounts[g.rank], recvCounts[g.rank])
	case overlap(r.Dst, r.Src):
		return fmt.Errorf("%w: all-to-all", ErrOverlap)
	}
	// counts are between pairs
	r.Call = plan.Call{Kind: plan.AllToAll, DType: dtypeOf[T]()}
	return nil
}

// Send gives buf to a rank, which calls Recv with as many elements of that type. It may
// return before that, but need not: two ranks that both send large buffers first wait for
// each other. So one receives first, or both use SendRecv. A message to oneself is kept
// until it is received.
func Send[T Element](ctx context.Context, g *Group, buf []T, to int) error {
	var r plan.Request
	if err := message(&r, g, plan.Send, buf, to); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// SendAsync starts a Send. Calls started after it, a Recv too, wait for it.
func SendAsync[T Element](ctx context.Context, g *Group, buf []T, to int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, message(&r, g, plan.Send, buf, to))
}

// Recv fills buf with what a rank sends by Send.
func Recv[T Element](ctx context.Context, g *Group, buf []T, from int) error {
	var r plan.Request
	if err := message(&r, g, plan.Recv, buf, from); err != nil {
		return err
	}
	return g.lane.do(ctx, &r)
}

// RecvAsync starts a Recv.
func RecvAsync[T Element](ctx context.Context, g *Group, buf []T, from int) *Work {
	var r plan.Request
	return g.begin(ctx, &r, message(&r, g, plan.Recv, buf, from))
}

// message fills in the request of a Send or Recv.
func message[T Element](r *plan.Request, g *Group, kind plan.Kind, buf []T, peer int) error {
	r.Dst, r.Peer = bytesOf(buf), peer
	r.Call = plan.Call{Kind: kind, DType: dtypeOf[T](), Count: int64(len(buf))}
	return g.has(peer, "peer")
}

// SendRecv sends to one rank and receives from another, or the same. Ranks that all call
// it, each sending to one and receiving from one, do not wait for each other in a circle:
// a rank that sends to a higher one sends first, the others receive first.
func SendRecv[T Element](ctx context.Context, g *Group, send []T, to int, recv []T, from int) error {
	var s, r plan.Request
	if err := errors.Join(message(&s, g, plan.Send, send, to), message(&r, g, plan.Recv, recv, from)); err != nil {
		return err
	}
	if overlap(s.Dst, r.Dst) {
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
