package onehost

import (
	"context"

	"github.com/ringside-go/ringside/collective/protocol"
)

// The methods below spell the Requests of tests. The call's Root is the communicator's.

func (c *Comm) AllReduce(ctx context.Context, call protocol.Call, scale float64, dst, src []byte) error {
	call.Kind, call.Scale = protocol.AllReduce, scale
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src})
}

func (c *Comm) Reduce(ctx context.Context, call protocol.Call, scale float64, dst, src []byte, root int) error {
	call.Kind, call.Scale, call.Root = protocol.Reduce, scale, int32(root)
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src, Peer: root})
}

func (c *Comm) ReduceScatter(ctx context.Context, call protocol.Call, scale float64, dst, src []byte, counts []int) error {
	call.Kind, call.Scale = protocol.ReduceScatter, scale
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src, Counts: counts})
}

func (c *Comm) AllGather(ctx context.Context, call protocol.Call, dst, src []byte, counts []int) error {
	call.Kind = protocol.AllGather
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src, Counts: counts})
}

func (c *Comm) Gather(ctx context.Context, call protocol.Call, dst, src []byte, counts []int, root int) error {
	call.Kind, call.Root = protocol.Gather, int32(root)
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src, Counts: counts, Peer: root})
}

func (c *Comm) Broadcast(ctx context.Context, call protocol.Call, buf []byte, root int) error {
	call.Kind, call.Root = protocol.Broadcast, int32(root)
	return c.Do(ctx, protocol.Request{Call: call, Dst: buf, Peer: root})
}

func (c *Comm) Scatter(ctx context.Context, call protocol.Call, dst, src []byte, counts []int, root int) error {
	call.Kind, call.Root = protocol.Scatter, int32(root)
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src, Counts: counts, Peer: root})
}

func (c *Comm) AllToAll(ctx context.Context, call protocol.Call, dst, src []byte, send, recv []int) error {
	call.Kind = protocol.AllToAll
	return c.Do(ctx, protocol.Request{Call: call, Dst: dst, Src: src, Counts: send, Recv: recv})
}

func (c *Comm) Barrier(ctx context.Context, call protocol.Call) error {
	call.Kind = protocol.Barrier
	return c.Do(ctx, protocol.Request{Call: call})
}

func (c *Comm) Send(ctx context.Context, call protocol.Call, to int, b []byte) error {
	call.Kind = protocol.Send
	return c.Do(ctx, protocol.Request{Call: call, Dst: b, Peer: to})
}

func (c *Comm) Recv(ctx context.Context, call protocol.Call, from int, b []byte) error {
	call.Kind = protocol.Recv
	return c.Do(ctx, protocol.Request{Call: call, Dst: b, Peer: from})
}
