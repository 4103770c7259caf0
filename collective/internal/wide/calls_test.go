package wide

import (
	"context"

	"github.com/ringside-go/ringside/collective/plan"
)

// The methods below spell the Requests of tests.

func (c *Comm) AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	call.Kind, call.Scale = plan.AllReduce, scale
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src})
}

func (c *Comm) Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error {
	call.Kind, call.Scale = plan.Reduce, scale
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src, Peer: root})
}

func (c *Comm) ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	call.Kind, call.Scale = plan.ReduceScatter, scale
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src, Counts: counts})
}

func (c *Comm) AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error {
	call.Kind = plan.AllGather
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src, Counts: counts})
}

func (c *Comm) Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	call.Kind = plan.Gather
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src, Counts: counts, Peer: root})
}

func (c *Comm) Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error {
	call.Kind = plan.Broadcast
	return c.Do(ctx, plan.Request{Call: call, Dst: buf, Peer: root})
}

func (c *Comm) Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	call.Kind = plan.Scatter
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src, Counts: counts, Peer: root})
}

func (c *Comm) AllToAll(ctx context.Context, call plan.Call, dst, src []byte, send, recv []int) error {
	call.Kind = plan.AllToAll
	return c.Do(ctx, plan.Request{Call: call, Dst: dst, Src: src, Counts: send, Recv: recv})
}

func (c *Comm) Barrier(ctx context.Context, call plan.Call) error {
	call.Kind = plan.Barrier
	return c.Do(ctx, plan.Request{Call: call})
}

func (c *Comm) Send(ctx context.Context, call plan.Call, to int, b []byte) error {
	call.Kind = plan.Send
	return c.Do(ctx, plan.Request{Call: call, Dst: b, Peer: to})
}

func (c *Comm) Recv(ctx context.Context, call plan.Call, from int, b []byte) error {
	call.Kind = plan.Recv
	return c.Do(ctx, plan.Request{Call: call, Dst: b, Peer: from})
}
