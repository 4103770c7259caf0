package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/plan"
)

// places is a comm of ranks on top of a comm of places, where the two differ. It copies
// buffers of several parts into the other order.
type places struct {
	comm
	layout layout
}

// inPlaces returns c, whose ranks are l's places, as a comm of ranks.
func inPlaces(c comm, l layout) comm {
	if l.inOrder() {
		return c
	}
	return places{c, l}
}

// Do makes the call in the order of places.
func (p places) Do(ctx context.Context, r plan.Request) error {
	order := p.layout.order
	r.Peer = p.layout.place[r.Peer]
	var in, out bool // whether Src, and Dst, has a part for every rank
	switch r.Kind() {
	case plan.ReduceScatter, plan.Scatter:
		in = len(r.Src) > 0
	case plan.AllGather, plan.Gather:
		out = len(r.Dst) > 0
	case plan.AllToAll:
		in, out = true, true
	default:
		return lift(p.comm.Do(ctx, r), order)
	}
	counts, recv := r.Parts(make([]int, len(order)))
	if r.Kind() != plan.AllToAll {
		recv = counts
	}
	r.Counts, r.Recv = pick(counts, order), pick(recv, order)
	if in {
		t := make([]byte, len(r.Src))
		arrange(t, r.Src, counts, order)
		r.Src = t
	}
	dst := r.Dst
	if out {
		r.Dst = make([]byte, len(dst))
	}
	if err := p.comm.Do(ctx, r); err != nil {
		return lift(err, order)
	}
	if out {
		restore(dst, r.Dst, recv, order)
	}
	return nil
}
