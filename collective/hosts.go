package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/algorithm/onehost"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
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
// A position carries for itself where it has a rail, and the first one for all others:
// the ranks of its route.
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
	// ranks that a position carries for, in the order of places; of this one by host
	routes [][]int
	route  [][]int
	// by rank: of two, the lower rank first, where no rail and no host connects
	pairs  []comm
	shared *onehost.Comm // inside, if there is more than one rank

	scratch [3][]byte
}

// newHosts returns the comm of a rank, which is alone on its host and has no rail yet.
func newHosts(l layout, rank int) *hosts {
	h := &hosts{layout: l, rank: rank, host: l.hostOf[rank], pos: l.posOf[rank], inside: solo{}, across: solo{},
		rails: 1, pairs: make([]comm, len(l.order)), route: make([][]int, len(l.hosts))}
	h.routes = make([][]int, len(h.local()))
	if l.uniform() {
		h.rails = len(h.local())
	}
	for host, ranks := range l.hosts {
		for pos, rank := range ranks {
			k := h.via(pos)
			h.routes[k] = append(h.routes[k], rank)
			if k == h.pos {
				h.route[host] = append(h.route[host], rank)
			}
		}
	}
	return h
}

// stepped makes a call of each kind in steps inside the hosts and across.
var stepped = map[protocol.Kind]func(h *hosts, ctx context.Context, r protocol.Request) error{
	protocol.Barrier:       (*hosts).barrier,
	protocol.AllReduce:     (*hosts).allReduce,
	protocol.Reduce:        (*hosts).reduce,
	protocol.ReduceScatter: (*hosts).reduceScatter,
	protocol.AllGather:     (*hosts).allGather,
	protocol.Broadcast:     (*hosts).broadcast,
	protocol.Scatter:       (*hosts).scatter,
	protocol.Gather:        (*hosts).gather,
	protocol.AllToAll:      (*hosts).allToAll,
	protocol.Send:          (*hosts).message,
	protocol.Recv:          (*hosts).message,
}

// Do makes the call in steps.
func (h *hosts) Do(ctx context.Context, r protocol.Request) error {
	return stepped[r.Kind()](h, ctx, r)
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
func (h *hosts) within(ctx context.Context, step protocol.Kind, r protocol.Request) error {
	r.Step = step
	return lift(h.inside.Do(ctx, r), h.local())
}

// between makes a step of the given kind among this rank's rail.
func (h *hosts) between(ctx context.Context, step protocol.Kind, r protocol.Request) error {
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
func (h *hosts) message(ctx context.Context, r protocol.Request) error {
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
func widened(call protocol.Call) protocol.Call {
	if call.DType.IsStorage() {
		call.Counts = call.Hash()
		call.DType = call.DType.Wide()
	}
	return call
}

// unscaled returns the call of a fold inside a host: the last fold scales.
func unscaled(call protocol.Call) protocol.Call {
	call.Scale = 1
	return call
}

// partial returns src as a fold of it needs it: itself, or a copy in the wide type.
func (h *hosts) partial(call protocol.Call, i int, src []byte) ([]byte, error) {
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
func finish(call protocol.Call, dst, t []byte) {
	switch {
	case call.DType.IsStorage():
		kernel.Narrow(dst, t, call.DType, 1)
	case !same(dst, t):
		copy(dst, t)
	}
}

// foldInside folds src of this host's ranks: to every rail its part, by counts, or all of
// it to the first position if only that carries.
func (h *hosts) foldInside(ctx context.Context, rails int, call protocol.Call, dst, src []byte, counts []int) error {
	r := protocol.Request{Call: unscaled(call), Dst: dst, Src: src}
	if rails == 1 {
		return h.within(ctx, protocol.Reduce, r)
	}
	r.Counts = counts
	return h.within(ctx, protocol.ReduceScatter, r)
}

// gatherInside is the reverse of foldInside: all are the parts of the rails.
func (h *hosts) gatherInside(ctx context.Context, rails int, call protocol.Call, all, part []byte, counts []int) error {
	if rails == 1 {
		return h.within(ctx, protocol.Broadcast, protocol.Request{Call: call, Dst: all})
	}
	return h.within(ctx, protocol.AllGather, protocol.Request{Call: call, Dst: all, Src: part, Counts: counts})
}

// allReduce folds each rail's share inside, then across, and gathers the shares inside.
func (h *hosts) allReduce(ctx context.Context, r protocol.Request) error {
	call, wcall, rails := r.Call, widened(r.Call), h.rails
	if len(r.Dst) <= leaderBytes {
		rails = 1
	}
	t, err := h.partial(call, 0, r.Src)
	if err != nil {
		return err
	}
	into := r.Dst
	if wcall.DType != call.DType {
		into = t
	}
	mine, share := into, r.Dst // of this rank's rail, folded and final
	var counts, final []int
	if rails > 1 {
		unit := wcall.DType.Size()
		shares := protocol.SplitLines(len(into), unit, rails)
		counts, final = make([]int, rails), make([]int, rails)
		for i, s := range shares {
			counts[i], final[i] = s.Len, s.Len/unit*call.DType.Size()
		}
		mine, share = shares[h.pos].Of(into), protocol.Packed(final)[h.pos].Of(r.Dst)
	}
	if err := h.foldInside(ctx, rails, wcall, mine, t, counts); err != nil {
		return err
	}
	if h.pos < rails {
		if err := h.between(ctx, protocol.AllReduce, protocol.Request{Call: wcall, Dst: mine, Src: mine}); err != nil {
			return err
		}
		finish(call, share, mine)
	}
	return h.gatherInside(ctx, rails, call, r.Dst, share, final)
}

// reduce folds inside to the position whose rail leads to the root, then across to the
// root's host, and from there to the root where that is another.
func (h *hosts) reduce(ctx context.Context, r protocol.Request) error {
	call, wcall := r.Call, widened(r.Call)
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	entry := h.via(pos)
	t, err := h.partial(call, 0, r.Src)
	if err != nil {
		return err
	}
	var into []byte
	switch {
	case h.pos != entry:
	case wcall.DType != call.DType:
		into = t
	case h.rank == r.Peer:
		into = r.Dst
	default:
		if into, err = h.temp(0, len(r.Src)); err != nil {
			return err
		}
	}
	if err := h.within(ctx, protocol.Reduce, protocol.Request{Call: unscaled(wcall), Dst: into, Src: t, Peer: entry}); err != nil {
		return err
	}
	if h.pos == entry {
		step := protocol.Request{Call: wcall, Src: into, Peer: there}
		if h.host == there {
			step.Dst = into
		}
		if err := h.between(ctx, protocol.Reduce, step); err != nil {
			return err
		}
	}
	out := r.Dst
	if h.host == there && h.pos == entry {
		if h.rank != r.Peer {
			if out, err = h.temp(1, len(r.Src)); err != nil {
				return err
			}
		}
		finish(call, out, into)
	}
	return h.relay(ctx, &r, entry, out, false)
}

// barrier meets inside, across and inside again.
func (h *hosts) barrier(ctx context.Context, r protocol.Request) error {
	if err := h.within(ctx, protocol.Barrier, r); err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.between(ctx, protocol.Barrier, r); err != nil {
			return err
		}
	}
	return h.within(ctx, protocol.Barrier, r)
}
