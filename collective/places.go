package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/plan"
)

// places is a comm of ranks on top of one of places, where the two differ: buffers of several parts are put in the other
// order, at the price of a copy.
type places struct {
	comm
	layout layout
}

// inPlaces is c, whose ranks are l's places, as a comm of ranks.
func inPlaces(c comm, l layout) comm {
	if l.inOrder() {
		return c
	}
	return places{c, l}
}

// byPlace puts values that are by rank in the order of places.
func (p places) byPlace(byRank []int) []int { return pick(byRank, p.layout.order) }

func (p places) lift(err error) error { return lift(err, p.layout.order) }

func (p places) AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	return p.lift(p.comm.AllReduce(ctx, call, scale, dst, src))
}

func (p places) Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error {
	return p.lift(p.comm.Reduce(ctx, call, scale, dst, src, p.layout.place[root]))
}

func (p places) ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	t := make([]byte, len(src))
	arrange(t, src, counts, p.layout.order)
	return p.lift(p.comm.ReduceScatter(ctx, call, scale, dst, t, p.byPlace(counts)))
}

func (p places) AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error {
	t := make([]byte, len(dst))
	if err := p.comm.AllGather(ctx, call, t, src, p.byPlace(counts)); err != nil {
		return p.lift(err)
	}
	restore(dst, t, counts, p.layout.order)
	return nil
}

func (p places) Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error {
	return p.lift(p.comm.Broadcast(ctx, call, buf, p.layout.place[root]))
}

func (p places) Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	t := make([]byte, len(src)) // src is empty where this rank is not the root
	if len(src) > 0 {
		arrange(t, src, counts, p.layout.order)
	}
	return p.lift(p.comm.Scatter(ctx, call, dst, t, p.byPlace(counts), p.layout.place[root]))
}

func (p places) Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	t := make([]byte, len(dst))
	if err := p.comm.Gather(ctx, call, t, src, p.byPlace(counts), p.layout.place[root]); err != nil {
		return p.lift(err)
	}
	if len(dst) > 0 {
		restore(dst, t, counts, p.layout.order)
	}
	return nil
}

func (p places) AllToAll(ctx context.Context, call plan.Call, dst, src []byte, sendCounts, recvCounts []int) error {
	s, d := make([]byte, len(src)), make([]byte, len(dst))
	arrange(s, src, sendCounts, p.layout.order)
	if err := p.comm.AllToAll(ctx, call, d, s, p.byPlace(sendCounts), p.byPlace(recvCounts)); err != nil {
		return p.lift(err)
	}
	restore(dst, d, recvCounts, p.layout.order)
	return nil
}

func (p places) Barrier(ctx context.Context, call plan.Call) error {
	return p.lift(p.comm.Barrier(ctx, call))
}

func (p places) Send(ctx context.Context, call plan.Call, to int, b []byte) error {
	return p.lift(p.comm.Send(ctx, call, p.layout.place[to], b))
}

func (p places) Recv(ctx context.Context, call plan.Call, from int, b []byte) error {
	return p.lift(p.comm.Recv(ctx, call, p.layout.place[from], b))
}
