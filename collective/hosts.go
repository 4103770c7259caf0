package collective

import (
	"context"
	"errors"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// leaderBytes is the largest all-reduce that only one rank of a host carries to the others: below, the number of exchanges
// between hosts counts and not their size.
const leaderBytes = 16 << 10

// hosts is a comm of several hosts with several ranks each, of comms inside and across.
//
//	          rail 0      rail 1                host 0   host 1
//	host 0    rank 0 ──── rank 1   inside       rank 0 ┐ rank 3 ┐
//	            │           │                   rank 1 │ rank 4 │
//	host 1    rank 2 ──── rank 3                rank 2 ┘   │
//	           across      across                 └─across─┘
//
// Where every host has as many ranks (left) each rank has counterparts on the other hosts, its rail, and large data is split
// so that each rail carries its share at the same time. Otherwise (right) the first rank of a host carries everything.
//
// What is reduced is folded inside in rank order and then across in the order of hosts, 16-bit floats in 32 bits until the
// very end. All ranks of a host call inside in the same order, all of a rail across, so nothing here can deadlock.
type hosts struct {
	layout    layout
	rank      int
	host, pos int

	inside comm   // among this host's ranks, by position
	across comm   // among this rank's rail, by host; solo if it has none
	rails  int    // positions below this one have a rail
	pairs  []comm // by rank: of two, the lower rank first, where no rail and no host connects
	alloc  allocator

	scratch [3][]byte
}

// via is the position whose rail carries what is for position pos.
func (h *hosts) via(pos int) int { return min(pos, h.rails-1) }

// rail is the ranks of a rail, by host.
func (h *hosts) rail(k int) []int {
	out := make([]int, len(h.layout.hosts))
	for i, ranks := range h.layout.hosts {
		out[i] = ranks[k]
	}
	return out
}

// railed says whether a rail connects two ranks of different hosts.
func (h *hosts) railed(a, b int) bool {
	return h.layout.posOf[a] == h.layout.posOf[b] && h.layout.posOf[a] < h.rails
}

// local is this host's ranks, by position.
func (h *hosts) local() []int { return h.layout.hosts[h.host] }

// in gives an error from inside the group's ranks, out one from across.
func (h *hosts) in(err error) error { return lift(err, h.local()) }

func (h *hosts) out(err error) error {
	if err == nil {
		return nil
	}
	return lift(err, h.rail(h.via(h.pos)))
}

// temp is n bytes that the next call uses again; the numbers keep apart what one call needs at a time. It is memory that the
// others on this host can read in place.
func (h *hosts) temp(i, n int) ([]byte, error) {
	if len(h.scratch[i]) >= n {
		return h.scratch[i][:n], nil
	}
	size := 4096
	for size < n {
		size *= 2
	}
	if h.alloc == nil {
		h.scratch[i] = make([]byte, size)
		return h.scratch[i][:n], nil
	}
	if h.scratch[i] != nil {
		old := h.scratch[i]
		h.scratch[i] = nil
		if err := h.alloc.Free(old); err != nil {
			return nil, err
		}
	}
	b, err := h.alloc.Alloc(size)
	if err != nil {
		return nil, err
	}
	h.scratch[i] = b
	return b[:n], nil
}

// widened is the call of a partial fold: of f32 where elements are shorter floats.
func widened(call plan.Call) plan.Call {
	if call.DType.Wide() != call.DType {
		call.Counts = call.Word() // so that calls which differ still do
		call.DType = call.DType.Wide()
	}
	return call
}

// partial is src as a fold of it needs it: itself, or a copy in f32.
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

func (h *hosts) AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	if h.rails == 1 || len(dst) <= leaderBytes {
		return h.allReduceByLeaders(ctx, call, scale, dst, src)
	}
	t, err := h.partial(call, 0, src)
	if err != nil {
		return err
	}
	into, wcall := dst, widened(call)
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
	if err := h.in(h.inside.ReduceScatter(ctx, wcall, 1, mine, t, counts)); err != nil {
		return err
	}
	if err := h.out(h.across.AllReduce(ctx, wcall, scale, mine, mine)); err != nil {
		return err
	}
	share := plan.Packed(final)[h.pos].Of(dst)
	finish(call, share, mine)
	return h.in(h.inside.AllGather(ctx, call, dst, share, final))
}

func (h *hosts) allReduceByLeaders(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	t, err := h.reduceToLeader(ctx, call, dst, src)
	if err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.out(h.across.AllReduce(ctx, widened(call), scale, t, t)); err != nil {
			return err
		}
		finish(call, dst, t)
	}
	return h.in(h.inside.Broadcast(ctx, call, dst, 0))
}

// reduceToLeader folds src of this host's ranks. The leader's result lies in dst, if that has the room, else in scratch 0.
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
	return into, h.in(h.inside.Reduce(ctx, widened(call), 1, into, t, 0))
}

func (h *hosts) Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error {
	there, pos := h.layout.hostOf[root], h.layout.posOf[root]
	if h.rank != root {
		dst = nil
	}
	t, err := h.reduceToLeader(ctx, call, dst, src)
	if err != nil {
		return err
	}
	if h.pos == 0 {
		var into []byte
		if h.host == there {
			into = t
		}
		if err := h.out(h.across.Reduce(ctx, widened(call), scale, into, t, there)); err != nil {
			return err
		}
	}
	switch {
	case h.host != there || h.pos != 0 && h.rank != root:
		return nil
	case h.rank == root && h.pos == 0:
		finish(call, dst, t)
		return nil
	case h.rank == root:
		return h.in(h.inside.Recv(ctx, call, 0, dst))
	}
	if call.DType.Wide() != call.DType {
		u, err := h.temp(1, len(src))
		if err != nil {
			return err
		}
		finish(call, u, t)
		t = u
	}
	return h.in(h.inside.Send(ctx, call, pos, t))
}

func (h *hosts) Barrier(ctx context.Context, call plan.Call) error {
	if err := h.in(h.inside.Barrier(ctx, call)); err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.out(h.across.Barrier(ctx, call)); err != nil {
			return err
		}
	}
	return h.in(h.inside.Barrier(ctx, call))
}

// link is the comm that connects this rank with another, the other's number in it, and its ranks.
func (h *hosts) link(rank int) (c comm, number int, ranks []int) {
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

func (h *hosts) Send(ctx context.Context, call plan.Call, to int, b []byte) error {
	c, number, ranks := h.link(to)
	return lift(c.Send(ctx, call, number, b), ranks)
}

func (h *hosts) Recv(ctx context.Context, call plan.Call, from int, b []byte) error {
	c, number, ranks := h.link(from)
	return lift(c.Recv(ctx, call, number, b), ranks)
}

// each calls f for every comm that there is.
func (h *hosts) each(f func(comm)) {
	for _, c := range append([]comm{h.inside, h.across}, h.pairs...) {
		if c != nil {
			f(c)
		}
	}
}

func (h *hosts) Abort(err error) { h.each(func(c comm) { c.Abort(err) }) }

func (h *hosts) Close() error {
	var errs []error
	h.each(func(c comm) { errs = append(errs, c.Close()) })
	return errors.Join(errs...)
}
