package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// leaderBytes is the largest all-reduce that only one rank of a host carries to the
// others. Below it the number of exchanges between hosts counts, and not their size.
const leaderBytes = 16 << 10

// hosts is a comm of several hosts with several ranks each, of comms inside and across.
//
//	          rail 0      rail 1                host 0   host 1
//	host 0    rank 0 ──── rank 1   inside       rank 0 ┐ rank 3 ┐
//	            │           │                   rank 1 │ rank 4 │
//	host 1    rank 2 ──── rank 3                rank 2 ┘   │
//	           across      across                 └─across─┘
//
// Where every host has as many ranks (left) each rank has counterparts on the other
// hosts, its rail, and each rail carries its share of large data at the same time.
// Otherwise (right) the first rank of a host carries everything.
//
// A reduction is folded inside in rank order and then across in the order of hosts,
// 16-bit floats in 32 bits until the end. All ranks of a host call inside in the same
// order, and all of a rail across, so no ranks can wait for each other in a circle.
type hosts struct {
	layout    layout
	rank      int
	host, pos int

	inside comm // among this host's ranks, by position
	across comm // among this rank's rail, by host; solo if it has none
	rails  int  // positions below this one have a rail
	// by rank: of two, the lower rank first, where no rail and no host connects
	pairs  []comm
	shared *host.Comm // inside, if there is more than one rank

	scratch [3][]byte
}

// Do makes the call in steps inside the hosts and across.
func (h *hosts) Do(ctx context.Context, r plan.Request) error {
	switch r.Kind() {
	case plan.AllReduce:
		return h.allReduce(ctx, r)
	case plan.Reduce:
		return h.reduce(ctx, r)
	case plan.ReduceScatter:
		return h.reduceScatter(ctx, r)
	case plan.AllGather:
		return h.allGather(ctx, r)
	case plan.Broadcast:
		return h.broadcast(ctx, r)
	case plan.Scatter:
		return h.scatter(ctx, r)
	case plan.Gather:
		return h.gather(ctx, r)
	case plan.AllToAll:
		return h.allToAll(ctx, r)
	case plan.Send, plan.Recv:
		return h.message(ctx, r)
	}
	return h.barrier(ctx, r)
}

// Abort aborts every comm.
func (h *hosts) Abort(err error) {
	for _, c := range h.all() {
		c.Abort(err)
	}
}

// Close closes every comm.
func (h *hosts) Close() error {
	var errs []error
	for _, c := range h.all() {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// all returns the comms that there are.
func (h *hosts) all() (out []comm) {
	for _, c := range append([]comm{h.inside, h.across}, h.pairs...) {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// local returns this host's ranks, by position.
func (h *hosts) local() []int { return h.layout.hosts[h.host] }

// via returns the position whose rail carries the data of position pos.
func (h *hosts) via(pos int) int { return min(pos, h.rails-1) }

// rail returns the ranks of a rail, by host.
func (h *hosts) rail(k int) []int {
	out := make([]int, len(h.layout.hosts))
	for i, ranks := range h.layout.hosts {
		out[i] = ranks[k]
	}
	return out
}

// railed reports whether a rail connects two ranks of different hosts.
func (h *hosts) railed(a, b int) bool {
	return h.layout.posOf[a] == h.layout.posOf[b] && h.layout.posOf[a] < h.rails
}

// within makes a step of the given kind among this host's ranks.
func (h *hosts) within(ctx context.Context, step plan.Kind, r plan.Request) error {
	r.Step = step
	return lift(h.inside.Do(ctx, r), h.local())
}

// between makes a step of the given kind among this rank's rail.
func (h *hosts) between(ctx context.Context, step plan.Kind, r plan.Request) error {
	r.Step = step
	if err := h.across.Do(ctx, r); err != nil {
		return lift(err, h.rail(h.via(h.pos)))
	}
	return nil
}

// toward returns the comm that connects this rank with another, the other's number in it,
// and its ranks.
func (h *hosts) toward(rank int) (c comm, number int, ranks []int) {
	switch {
	case h.layout.hostOf[rank] == h.host:
		return h.inside, h.layout.posOf[rank], h.local()
	case h.railed(h.rank, rank):
		return h.across, h.layout.hostOf[rank], h.rail(h.pos)
	case rank > h.rank:
		return h.pairs[rank], 1, []int{h.rank, rank}
	}
	return h.pairs[rank], 0, []int{rank, h.rank}
}

// message sends or receives.
func (h *hosts) message(ctx context.Context, r plan.Request) error {
	c, number, ranks := h.toward(r.Peer)
	r.Peer = number
	return lift(c.Do(ctx, r), ranks)
}

// temp returns n bytes that the next call uses again; i keeps apart the memory that one
// call needs at a time. The others on this host can read it in place.
func (h *hosts) temp(i, n int) ([]byte, error) {
	if len(h.scratch[i]) >= n {
		return h.scratch[i][:n], nil
	}
	size := 4096
	for size < n {
		size *= 2
	}
	if h.shared == nil {
		h.scratch[i] = make([]byte, size)
		return h.scratch[i][:n], nil
	}
	if old := h.scratch[i]; old != nil {
		h.scratch[i] = nil
		if err := h.shared.Free(old); err != nil {
			return nil, err
		}
	}
	b, err := h.shared.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("collective: memory for a call: %w", err)
	}
	h.scratch[i] = b
	return b[:n], nil
}

// widened returns the call of a fold whose result is in the wide type. Its Counts have
// the hash of the original call, so that calls which differ still do.
func widened(call plan.Call) plan.Call {
	if call.DType.Wide() != call.DType {
		call.Counts = call.Hash()
		call.DType = call.DType.Wide()
	}
	return call
}

// unscaled returns the call of a fold inside a host: the last fold scales.
func unscaled(call plan.Call) plan.Call {
	call.Scale = 1
	return call
}

// partial returns src as a fold of it needs it: itself, or a copy in the wide type.
func (h *hosts) partial(call plan.Call, i int, src []byte) ([]byte, error) {
	wide := call.DType.Wide()
	if wide == call.DType {
		return src, nil
	}
	t, err := h.temp(i, len(src)/call.DType.Size()*wide.Size())
	if err == nil {
		kernel.Widen(t, src, call.DType)
	}
	return t, err
}

// finish stores a folded partial in dst.
func finish(call plan.Call, dst, t []byte) {
	switch {
	case call.DType.Wide() != call.DType:
		kernel.Narrow(dst, t, call.DType, 1)
	case !same(dst, t):
		copy(dst, t)
	}
}

// allReduce folds each rail's share inside, then across, and gathers the shares inside.
func (h *hosts) allReduce(ctx context.Context, r plan.Request) error {
	call := r.Call
	if h.rails == 1 || len(r.Dst) <= leaderBytes {
		return h.allReduceByLeaders(ctx, r)
	}
	t, err := h.partial(call, 0, r.Src)
	if err != nil {
		return err
	}
	into, wcall := r.Dst, widened(call)
	if wcall.DType != call.DType {
		into = t
	}
	unit := wcall.DType.Size()
	shares := plan.SplitLines(len(into), unit, h.rails)
	counts, final := make([]int, h.rails), make([]int, h.rails)
	for i, s := range shares {
		counts[i], final[i] = s.Len, s.Len/unit*call.DType.Size()
	}
	mine := shares[h.pos].Of(into)
	if err := h.within(ctx, plan.ReduceScatter, plan.Request{Call: unscaled(wcall), Dst: mine, Src: t, Counts: counts}); err != nil {
		return err
	}
	if err := h.between(ctx, plan.AllReduce, plan.Request{Call: wcall, Dst: mine, Src: mine}); err != nil {
		return err
	}
	share := plan.Packed(final)[h.pos].Of(r.Dst)
	finish(call, share, mine)
	return h.within(ctx, plan.AllGather, plan.Request{Call: call, Dst: r.Dst, Src: share, Counts: final})
}

// allReduceByLeaders folds to the first rank of each host, then across, and broadcasts
// inside.
func (h *hosts) allReduceByLeaders(ctx context.Context, r plan.Request) error {
	t, err := h.reduceToLeader(ctx, r.Call, r.Dst, r.Src)
	if err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.between(ctx, plan.AllReduce, plan.Request{Call: widened(r.Call), Dst: t, Src: t}); err != nil {
			return err
		}
		finish(r.Call, r.Dst, t)
	}
	return h.within(ctx, plan.Broadcast, plan.Request{Call: r.Call, Dst: r.Dst})
}

// reduceToLeader folds src of this host's ranks. The leader's result lies in dst, if that
// has the room, else in scratch 0.
func (h *hosts) reduceToLeader(ctx context.Context, call plan.Call, dst, src []byte) ([]byte, error) {
	t, err := h.partial(call, 0, src)
	if err != nil {
		return nil, err
	}
	into := []byte(nil)
	if h.pos == 0 {
		switch {
		case call.DType.Wide() != call.DType:
			into = t
		case len(dst) == len(src):
			into = dst
		default:
			if into, err = h.temp(0, len(src)); err != nil {
				return nil, err
			}
		}
	}
	return into, h.within(ctx, plan.Reduce, plan.Request{Call: unscaled(widened(call)), Dst: into, Src: t})
}

// reduce folds to the leaders, then across to the root's host, whose leader sends to the
// root.
func (h *hosts) reduce(ctx context.Context, r plan.Request) error {
	call, root := r.Call, r.Peer
	there, pos := h.layout.hostOf[root], h.layout.posOf[root]
	if h.rank != root {
		r.Dst = nil
	}
	t, err := h.reduceToLeader(ctx, call, r.Dst, r.Src)
	if err != nil {
		return err
	}
	if h.pos == 0 {
		step := plan.Request{Call: widened(call), Src: t, Peer: there}
		if h.host == there {
			step.Dst = t
		}
		if err := h.between(ctx, plan.Reduce, step); err != nil {
			return err
		}
	}
	switch {
	case h.host != there || h.pos != 0 && h.rank != root:
		return nil
	case h.rank == root && h.pos == 0:
		finish(call, r.Dst, t)
		return nil
	case h.rank == root:
		return h.within(ctx, plan.Recv, plan.Request{Call: call, Dst: r.Dst})
	}
	if call.DType.Wide() != call.DType {
		u, err := h.temp(1, len(r.Src))
		if err != nil {
			return err
		}
		finish(call, u, t)
		t = u
	}
	return h.within(ctx, plan.Send, plan.Request{Call: call, Dst: t, Peer: pos})
}

// barrier meets inside, across and inside again.
func (h *hosts) barrier(ctx context.Context, r plan.Request) error {
	if err := h.within(ctx, plan.Barrier, r); err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.between(ctx, plan.Barrier, r); err != nil {
			return err
		}
	}
	return h.within(ctx, plan.Barrier, r)
}
