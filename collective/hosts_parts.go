package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
)

// A part is the bytes that a call has for one rank. Parts lie in one of two orders: by
// rank, as in users' buffers, or by route, so that those for the ranks of a route are
// together. A call inside a host can cut the second order by route, and a call across
// hosts can cut what is for one route by host.

// byRoute lists the ranks in the order of routes.
func (h *hosts) byRoute() []int { return slices.Concat(h.routes...) }

// counts returns the bytes by rank of r.
func (h *hosts) counts(r *protocol.Request) (counts, recv []int) {
	return r.Parts(make([]int, len(h.layout.order)))
}

// scaled returns counts of elements of from bytes as counts of elements of to bytes.
func scaled(counts []int, from, to int) []int {
	out := make([]int, len(counts))
	for i, n := range counts {
		out[i] = n / from * to
	}
	return out
}

// reduceScatter makes three steps: inside each host a fold of the parts for each route,
// across each rail a fold of the parts for each host, and, if there is one rail, a
// scatter inside each host.
func (h *hosts) reduceScatter(ctx context.Context, r protocol.Request) error {
	call, wcall := r.Call, widened(r.Call)
	counts, _ := h.counts(&r)
	wide := scaled(counts, call.DType.Size(), wcall.DType.Size())
	t, err := h.partial(call, 0, r.Src)
	if err != nil {
		return err
	}
	u, err := h.temp(1, len(t))
	if err != nil {
		return err
	}
	arrange(u, t, wide, h.byRoute())
	perRoute := totals(wide, h.routes)
	mine := protocol.Packed(perRoute)[h.pos].Of(u)
	if err := h.foldInside(ctx, h.rails, wcall, mine, u, perRoute); err != nil {
		return err
	}
	ours := r.Dst
	if h.pos < h.rails {
		perHost := totals(wide, h.route)
		out, err := h.temp(2, perHost[h.host])
		if err != nil {
			return err
		}
		if err := h.between(ctx, protocol.ReduceScatter, protocol.Request{Call: wcall, Dst: out, Src: mine, Counts: perHost}); err != nil {
			return err
		}
		if h.rails == 1 { // for all ranks of this host
			if ours, err = h.temp(0, total(counts, h.local())); err != nil {
				return err
			}
		}
		finish(call, ours, out)
	}
	if h.rails > 1 {
		return nil
	}
	return h.within(ctx, protocol.Scatter, protocol.Request{Call: call, Dst: r.Dst, Src: ours, Counts: pick(counts, h.local())})
}

// allGather makes three steps: a gather inside each host if there is one rail, a gather
// across each rail, and one of all routes inside each host.
func (h *hosts) allGather(ctx context.Context, r protocol.Request) error {
	call, ours := r.Call, r.Src
	counts, _ := h.counts(&r)
	u, err := h.temp(1, len(r.Dst))
	if err != nil {
		return err
	}
	perRoute, perHost := totals(counts, h.routes), totals(counts, h.route)
	mine := protocol.Packed(perRoute)[h.pos].Of(u)
	if h.rails == 1 {
		if ours = nil; h.pos == 0 {
			ours = protocol.Packed(perHost)[h.host].Of(mine)
		}
		if err := h.within(ctx, protocol.Gather, protocol.Request{Call: call, Dst: ours, Src: r.Src, Counts: pick(counts, h.local())}); err != nil {
			return err
		}
	}
	if h.pos < h.rails {
		if err := h.between(ctx, protocol.AllGather, protocol.Request{Call: call, Dst: mine, Src: ours, Counts: perHost}); err != nil {
			return err
		}
	}
	if err := h.gatherInside(ctx, h.rails, call, u, mine, perRoute); err != nil {
		return err
	}
	restore(r.Dst, u, counts, h.byRoute())
	return nil
}

// broadcast sends across the root's rail if it has one, else across the only one, and
// then inside the hosts. The root's host broadcasts inside first if the root has no rail.
func (h *hosts) broadcast(ctx context.Context, r protocol.Request) error {
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	entry := h.via(pos)
	if h.host == there && entry != pos {
		if err := h.within(ctx, protocol.Broadcast, protocol.Request{Call: r.Call, Dst: r.Dst, Peer: pos}); err != nil {
			return err
		}
	}
	if h.pos == entry {
		if err := h.between(ctx, protocol.Broadcast, protocol.Request{Call: r.Call, Dst: r.Dst, Peer: there}); err != nil {
			return err
		}
	}
	if h.host == there && entry != pos {
		return nil
	}
	return h.within(ctx, protocol.Broadcast, protocol.Request{Call: r.Call, Dst: r.Dst, Peer: entry})
}

// relay moves all between the root and the rank at position entry of its host, where that
// is another: to it if the root sends, else to the root.
func (h *hosts) relay(ctx context.Context, r *protocol.Request, entry int, all []byte, rootSends bool) error {
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	if h.host != there || entry == pos || h.pos != pos && h.pos != entry {
		return nil
	}
	other := entry
	if h.pos == entry {
		other = pos
	}
	step := protocol.Recv
	if (h.rank == r.Peer) == rootSends {
		step = protocol.Send
	}
	return h.within(ctx, step, protocol.Request{Call: r.Call, Dst: all, Peer: other})
}

// scatter moves the root's buffer to the position whose rail carries it, scatters across,
// and then inside.
func (h *hosts) scatter(ctx context.Context, r protocol.Request) error {
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	entry := h.via(pos)
	counts, _ := h.counts(&r)
	var all, ours []byte
	var err error
	if h.host == there && (h.pos == pos || h.pos == entry) {
		if all, err = h.temp(0, sum(counts)); err != nil {
			return err
		}
	}
	if h.rank == r.Peer {
		arrange(all, r.Src, counts, h.layout.order)
	}
	if err := h.relay(ctx, &r, entry, all, true); err != nil {
		return err
	}
	if h.pos == entry {
		perHost := totals(counts, h.layout.hosts)
		if ours, err = h.temp(1, perHost[h.host]); err != nil {
			return err
		}
		if err := h.between(ctx, protocol.Scatter, protocol.Request{Call: r.Call, Dst: ours, Src: all, Counts: perHost, Peer: there}); err != nil {
			return err
		}
	}
	return h.within(ctx, protocol.Scatter, protocol.Request{Call: r.Call, Dst: r.Dst, Src: ours, Counts: pick(counts, h.local()), Peer: entry})
}

// gather is the reverse of scatter.
func (h *hosts) gather(ctx context.Context, r protocol.Request) error {
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	entry := h.via(pos)
	counts, _ := h.counts(&r)
	var all, ours []byte
	var err error
	if h.host == there && (h.pos == pos || h.pos == entry) {
		if all, err = h.temp(0, sum(counts)); err != nil {
			return err
		}
	}
	perHost := totals(counts, h.layout.hosts)
	if h.pos == entry {
		if ours, err = h.temp(1, perHost[h.host]); err != nil {
			return err
		}
	}
	if err := h.within(ctx, protocol.Gather, protocol.Request{Call: r.Call, Dst: ours, Src: r.Src, Counts: pick(counts, h.local()), Peer: entry}); err != nil {
		return err
	}
	if h.pos == entry {
		if err := h.between(ctx, protocol.Gather, protocol.Request{Call: r.Call, Dst: all, Src: ours, Counts: perHost, Peer: there}); err != nil {
			return err
		}
	}
	if err := h.relay(ctx, &r, entry, all, false); err != nil {
		return err
	}
	if h.rank == r.Peer {
		restore(r.Dst, all, counts, h.layout.order)
	}
	return nil
}

// allToAll makes three steps: inside to the position whose rail leads to the destination,
// across, and inside to the destination where that is another. Every rank knows only its
// own counts, so those of a host tell each other first.
func (h *hosts) allToAll(ctx context.Context, r protocol.Request) error {
	call := r.Call
	counts, recv := h.counts(&r)
	sends, recvs, err := h.exchangeCounts(ctx, call, counts, recv)
	if err != nil {
		return err
	}
	// Step 1: by route of the destination.
	s := make([]byte, len(r.Src))
	arrange(s, r.Src, counts, h.byRoute())
	mine := h.routes[h.pos] // empty unless this rank has a rail
	arriving := make([]int, len(h.routes))
	for i := range h.routes {
		arriving[i] = total(sends[i], mine)
	}
	t := make([]byte, sum(arriving))
	step := protocol.Request{Call: call, Dst: t, Src: s, Counts: totals(counts, h.routes), Recv: arriving}
	if err := h.within(ctx, protocol.AllToAll, step); err != nil {
		return err
	}
	if h.pos >= h.rails {
		return h.deliver(ctx, call, r.Dst, nil, recvs)
	}
	// Step 2: t has for each local sender its parts by destination; each host gets its
	// destinations, sender by sender.
	u, perHost := regroup(t, sends, mine, h.layout)
	from := make([]int, len(h.layout.hosts))
	for a, ranks := range h.layout.hosts {
		for _, d := range h.route[h.host] {
			from[a] += total(recvs[h.layout.posOf[d]], ranks)
		}
	}
	v := make([]byte, sum(from))
	if err := h.between(ctx, protocol.AllToAll, protocol.Request{Call: call, Dst: v, Src: u, Counts: perHost, Recv: from}); err != nil {
		return err
	}
	// Step 3: v has by place of the sender the parts of each of this rail's destinations
	// here.
	return h.deliver(ctx, call, r.Dst, v, recvs)
}

// regroup turns the order (sender, host, destination) of t into (host, sender,
// destination); sizes are sends[sender][rank].
func regroup(t []byte, sends [][]int, dests []int, l layout) (u []byte, perHost []int) {
	byHost := make([][]byte, len(l.hosts))
	off := 0
	for _, counts := range sends {
		for _, d := range dests {
			h := l.hostOf[d]
			byHost[h] = append(byHost[h], t[off:off+counts[d]]...)
			off += counts[d]
		}
	}
	perHost = make([]int, len(l.hosts))
	for h, b := range byHost {
		perHost[h] = len(b)
	}
	return slices.Concat(byHost...), perHost
}

// deliver gives each destination its parts of v, which lie in the order (sender by place,
// destination). If hosts are uniform, all of v is for this rank.
func (h *hosts) deliver(ctx context.Context, call protocol.Call, dst, v []byte, recvs [][]int) error {
	if h.layout.uniform() {
		restore(dst, v, recvs[h.pos], h.layout.order)
		return nil
	}
	parts := make([][]byte, len(h.local()))
	counts := make([]int, len(parts))
	for d := range parts {
		counts[d] = sum(recvs[d])
	}
	if h.pos == 0 {
		off := 0
		for _, r := range h.layout.order {
			for d := range parts {
				parts[d] = append(parts[d], v[off:off+recvs[d][r]]...)
				off += recvs[d][r]
			}
		}
	}
	t := make([]byte, counts[h.pos])
	if err := h.within(ctx, protocol.Scatter, protocol.Request{Call: call, Dst: t, Src: slices.Concat(parts...), Counts: counts}); err != nil {
		return err
	}
	restore(dst, t, recvs[h.pos], h.layout.order)
	return nil
}

// exchangeCounts returns, by position, how many bytes each rank of this host sends to and
// receives from every rank.
func (h *hosts) exchangeCounts(ctx context.Context, call protocol.Call, counts, recv []int) (sends, recvs [][]int, err error) {
	n, l := len(counts), len(h.local())
	mine := make([]byte, 0, 16*n)
	for _, c := range slices.Concat(counts, recv) {
		mine = binary.LittleEndian.AppendUint64(mine, uint64(c))
	}
	all := make([]byte, l*len(mine))
	if err := h.within(ctx, protocol.AllGather, protocol.Request{Call: call, Dst: all, Src: mine}); err != nil {
		return nil, nil, err
	}
	sends, recvs = make([][]int, l), make([][]int, l)
	for i := range l {
		both := make([]int, 2*n)
		for j := range both {
			c := binary.LittleEndian.Uint64(all[(i*2*n+j)*8:])
			if c > 1<<48 {
				return nil, nil, &protocol.PeerError{Rank: h.local()[i], Call: call,
					Err: fmt.Errorf("%w: a count of %d bytes, expected at most %d", ErrMismatch, c, 1<<48)}
			}
			both[j] = int(c)
		}
		sends[i], recvs[i] = both[:n], both[n:]
	}
	for i, a := range h.local() {
		for j, b := range h.local() {
			if sends[i][b] != recvs[j][a] {
				return nil, nil, &protocol.PeerError{Rank: a, Call: call,
					Err: fmt.Errorf("%w: rank %d sends %d bytes to rank %d, which expects %d",
						ErrMismatch, a, sends[i][b], b, recvs[j][a])}
			}
		}
	}
	return sends, recvs, nil
}
