package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Barrier returns on no rank before every rank has called it.
func (g *Group) Barrier(ctx context.Context) error {
	if ctx.Err() == nil {
		return g.barrier.Run(ctx)
	}
	r := g.barrier.request
	return g.lane.do(ctx, &r) // which refuses it
}

// BarrierAsync starts a Barrier.
func (g *Group) BarrierAsync(ctx context.Context) *Work {
	return g.lane.start(ctx, &protocol.Request{Call: protocol.Call{Kind: protocol.Barrier}})
}

// Broadcast copies root's buf to every rank's, which has the same length. It is no
// barrier. On root it may return before the others have called it, elsewhere as soon as
// root's values are there. If one of them is gone or calls something else, root learns it
// in its next call.
func Broadcast[T Element](ctx context.Context, g *Group, buf []T, root int) error {
	return call(ctx, g, protocol.Broadcast, element.None, buf, nil, nil, root)
}

// BroadcastAsync starts a Broadcast.
func BroadcastAsync[T Element](ctx context.Context, g *Group, buf []T, root int) *Work {
	return start(ctx, g, protocol.Broadcast, element.None, buf, nil, nil, root)
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
	return call(ctx, g, protocol.AllGather, element.None, dst, src, counts, 0)
}

// AllGatherVAsync starts an AllGatherV.
func AllGatherVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int) *Work {
	return start(ctx, g, protocol.AllGather, element.None, dst, src, counts, 0)
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
	return call(ctx, g, protocol.Gather, element.None, dst, src, counts, root)
}

// GatherVAsync starts a GatherV.
func GatherVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) *Work {
	return start(ctx, g, protocol.Gather, element.None, dst, src, counts, root)
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
	return call(ctx, g, protocol.Scatter, element.None, dst, src, counts, root)
}

// ScatterVAsync starts a ScatterV.
func ScatterVAsync[T Element](ctx context.Context, g *Group, dst, src []T, counts []int, root int) *Work {
	return start(ctx, g, protocol.Scatter, element.None, dst, src, counts, root)
}

// AllToAll gives rank r the r-th part of this rank's src, and puts the part that rank r
// has for this one in the r-th part of dst. dst and src have one length, a multiple of
// Size, the same on all ranks, and do not overlap.
func AllToAll[T Element](ctx context.Context, g *Group, dst, src []T) error {
	return call(ctx, g, protocol.AllToAll, element.None, dst, src, nil, 0)
}

// AllToAllAsync starts an AllToAll.
func AllToAllAsync[T Element](ctx context.Context, g *Group, dst, src []T) *Work {
	return start(ctx, g, protocol.AllToAll, element.None, dst, src, nil, 0)
}

// AllToAllV is AllToAll with sendCounts[r] elements for rank r and recvCounts[r] from it.
// Each rank sends another as much as that expects of it.
func AllToAllV[T Element](ctx context.Context, g *Group, dst, src []T, sendCounts, recvCounts []int) error {
	r := request(protocol.AllToAll, element.None, dst, src, sendCounts, 0)
	r.Recv = recvCounts
	return g.do(ctx, &r)
}

// AllToAllVAsync starts an AllToAllV.
func AllToAllVAsync[T Element](ctx context.Context, g *Group, dst, src []T, sendCounts, recvCounts []int) *Work {
	r := request(protocol.AllToAll, element.None, dst, src, sendCounts, 0)
	r.Recv = recvCounts
	return g.begin(ctx, &r)
}

// Send gives buf to a rank, which calls Recv with as many elements of that type. It may
// return before that, but need not: two ranks that both send large buffers first wait for
// each other. So one receives first, or both use SendRecv. A message to oneself is kept
// until it is received.
func Send[T Element](ctx context.Context, g *Group, buf []T, to int) error {
	return call(ctx, g, protocol.Send, element.None, buf, nil, nil, to)
}

// SendAsync starts a Send. Calls started after it, a Recv too, wait for it; those with a
// tag ([SendTagAsync]) do not.
func SendAsync[T Element](ctx context.Context, g *Group, buf []T, to int) *Work {
	return start(ctx, g, protocol.Send, element.None, buf, nil, nil, to)
}

// Recv fills buf with what a rank sends by Send.
func Recv[T Element](ctx context.Context, g *Group, buf []T, from int) error {
	return call(ctx, g, protocol.Recv, element.None, buf, nil, nil, from)
}

// RecvAsync starts a Recv.
func RecvAsync[T Element](ctx context.Context, g *Group, buf []T, from int) *Work {
	return start(ctx, g, protocol.Recv, element.None, buf, nil, nil, from)
}

// SendRecv sends to one rank and receives from another, or the same. Ranks that all call
// it, each sending to one and receiving from one, do not wait for each other in a circle:
// a rank that sends to a higher one sends first, the others receive first.
func SendRecv[T Element](ctx context.Context, g *Group, send []T, to int, recv []T, from int) error {
	s, r := request(protocol.Send, element.None, send, nil, nil, to), request(protocol.Recv, element.None, recv, nil, nil, from)
	if err := errors.Join(g.check(&s), g.check(&r)); err != nil {
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
