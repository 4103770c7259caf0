package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/plan"
)

// A part is the bytes that a call has for one rank. Parts lie in one of three orders: by
// rank (users' buffers), by place (host by host), and by rail (position by position, each
// with its part of every host). inside and across can cut the last two.

// byRail lists the ranks in the order of rails. Hosts are uniform.
func (h *hosts) byRail() []int { return slices.Concat(h.railLists()...) }

// railLists returns the ranks of every rail.
func (h *hosts) railLists() [][]int {
	out := make([][]int, h.rails)
	for k := range out {
		out[k] = h.rail(k)
	}
	return out
}

// counts returns the bytes by rank of r.
func (h *hosts) counts(r *plan.Request) (counts, recv []int) {
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

// reduceScatter folds, with rails, inside what is for ranks at each position, and across
// what is for each rank.
func (h *hosts) reduceScatter(ctx context.Context, r plan.Request) error {
	if !h.layout.uniform() {
		return h.reduceScatterByLeaders(ctx, r)
	}
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
	out, err := h.temp(2, wide[h.rank])
	if err != nil {
		return err
	}
	arrange(u, t, wide, h.byRail())
	perRail := totals(wide, h.railLists())
	mine := plan.Packed(perRail)[h.pos].Of(u)
	if err := h.within(ctx, plan.ReduceScatter, plan.Request{Call: unscaled(wcall), Dst: mine, Src: u, Counts: perRail}); err != nil {
		return err
	}
	step := plan.Request{Call: wcall, Dst: out, Src: mine, Counts: pick(wide, h.rail(h.pos))}
	if err := h.between(ctx, plan.ReduceScatter, step); err != nil {
		return err
	}
	finish(call, r.Dst, out)
	return nil
}

// reduceScatterByLeaders folds to the leaders, scatters across, and then inside.
func (h *hosts) reduceScatterByLeaders(ctx context.Context, r plan.Request) error {
	call := r.Call
	counts, _ := h.counts(&r)
	t, err := h.reduceToLeader(ctx, call, nil, r.Src)
	if err != nil {
		return err
	}
	var ours []byte
	if h.pos == 0 {
		wcall := widened(call)
		wide := scaled(counts, call.DType.Size(), wcall.DType.Size())
		u, err := h.temp(1, len(t))
		if err != nil {
			return err
		}
		arrange(u, t, wide, h.layout.order)
		perHost := totals(wide, h.layout.hosts)
		folded := t[:perHost[h.host]]
		if err := h.between(ctx, plan.ReduceScatter, plan.Request{Call: wcall, Dst: folded, Src: u, Counts: perHost}); err != nil {
			return err
		}
		if ours, err = h.temp(2, total(counts, h.local())); err != nil {
			return err
		}
		finish(call, ours, folded)
	}
	return h.within(ctx, plan.Scatter, plan.Request{Call: call, Dst: r.Dst, Src: ours, Counts: pick(counts, h.local())})
}

// allGather gathers, with rails, each rail's parts across and then all inside; else by
// leaders.
func (h *hosts) allGather(ctx context.Context, r plan.Request) error {
	call := r.Call
	counts, _ := h.counts(&r)
	u, err := h.temp(1, len(r.Dst))
	if err != nil {
		return err
	}
	if h.layout.uniform() {
		perRail := totals(counts, h.railLists())
		mine := plan.Packed(perRail)[h.pos].Of(u)
		step := plan.Request{Call: call, Dst: mine, Src: r.Src, Counts: pick(counts, h.rail(h.pos))}
		if err := h.between(ctx, plan.AllGather, step); err != nil {
			return err
		}
		if err := h.within(ctx, plan.AllGather, plan.Request{Call: call, Dst: u, Src: mine, Counts: perRail}); err != nil {
			return err
		}
		restore(r.Dst, u, counts, h.byRail())
		return nil
	}
	perHost := totals(counts, h.layout.hosts)
	ours := plan.Packed(perHost)[h.host].Of(u)
	if h.pos != 0 {
		ours = nil
	}
	if err := h.within(ctx, plan.Gather, plan.Request{Call: call, Dst: ours, Src: r.Src, Counts: pick(counts, h.local())}); err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.between(ctx, plan.AllGather, plan.Request{Call: call, Dst: u, Src: ours, Counts: perHost}); err != nil {
			return err
		}
	}
	if err := h.within(ctx, plan.Broadcast, plan.Request{Call: call, Dst: u}); err != nil {
		return err
	}
	restore(r.Dst, u, counts, h.layout.order)
	return nil
}

// broadcast enters the other hosts on the root's rail if it has one, else on the
// leaders'.
func (h *hosts) broadcast(ctx context.Context, r plan.Request) error {
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	entry := h.via(pos)
	if h.host == there && entry != pos {
		if err := h.within(ctx, plan.Broadcast, plan.Request{Call: r.Call, Dst: r.Dst, Peer: pos}); err != nil {
			return err
		}
	}
	if h.pos == entry {
		if err := h.between(ctx, plan.Broadcast, plan.Request{Call: r.Call, Dst: r.Dst, Peer: there}); err != nil {
			return err
		}
	}
	if h.host == there && entry != pos {
		return nil
	}
	return h.within(ctx, plan.Broadcast, plan.Request{Call: r.Call, Dst: r.Dst, Peer: entry})
}

// relay moves all between the root and the rank at position entry of its host, where that
// is another: to it if the root sends, else to the root.
func (h *hosts) relay(ctx context.Context, r *plan.Request, entry int, all []byte, rootSends bool) error {
	there, pos := h.layout.hostOf[r.Peer], h.layout.posOf[r.Peer]
	if h.host != there || entry == pos || h.pos != pos && h.pos != entry {
		return nil
	}
	other := entry
	if h.pos == entry {
		other = pos
	}
	step := plan.Recv
	if (h.rank == r.Peer) == rootSends {
		step = plan.Send
	}
	return h.within(ctx, step, plan.Request{Call: r.Call, Dst: all, Peer: other})
}

// scatter moves the root's buffer to the position whose rail carries it, scatters across,
// and then inside.
func (h *hosts) scatter(ctx context.Context, r plan.Request) error {
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
		if err := h.between(ctx, plan.Scatter, plan.Request{Call: r.Call, Dst: ours, Src: all, Counts: perHost, Peer: there}); err != nil {
			return err
		}
	}
	return h.within(ctx, plan.Scatter, plan.Request{Call: r.Call, Dst: r.Dst, Src: ours, Counts: pick(counts, h.local()), Peer: entry})
}

// gather is the reverse of scatter.
func (h *hosts) gather(ctx context.Context, r plan.Request) error {
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
	if err := h.within(ctx, plan.Gather, plan.Request{Call: r.Call, Dst: ours, Src: r.Src, Counts: pick(counts, h.local()), Peer: entry}); err != nil {
		return err
	}
	if h.pos == entry {
		if err := h.between(ctx, plan.Gather, plan.Request{Call: r.Call, Dst: all, Src: ours, Counts: perHost, Peer: there}); err != nil {
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
func (h *hosts) allToAll(ctx context.Context, r plan.Request) error {
	call := r.Call
	counts, recv := h.counts(&r)
	sends, recvs, err := h.exchangeCounts(ctx, call, counts, recv)
	if err != nil {
		return err
	}
	// Step 1: by rail of the destination, within that by place.
	routes := make([][]int, len(h.local()))
	for _, to := range h.layout.order {
		k := h.via(h.layout.posOf[to])
		routes[k] = append(routes[k], to)
	}
	s := make([]byte, len(r.Src))
	arrange(s, r.Src, counts, slices.Concat(routes...))
	mine := routes[h.pos] // empty unless this rank has a rail
	arriving := make([]int, len(routes))
	for i := range routes {
		arriving[i] = total(sends[i], mine)
	}
	t := make([]byte, sum(arriving))
	step := plan.Request{Call: call, Dst: t, Src: s, Counts: totals(counts, routes), Recv: arriving}
	if err := h.within(ctx, plan.AllToAll, step); err != nil {
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
		for _, d := range h.routed() {
			from[a] += total(recvs[d], ranks)
		}
	}
	v := make([]byte, sum(from))
	if err := h.between(ctx, plan.AllToAll, plan.Request{Call: call, Dst: v, Src: u, Counts: perHost, Recv: from}); err != nil {
		return err
	}
	// Step 3: v has by place of the sender the parts of each of this rail's destinations
	// here.
	return h.deliver(ctx, call, r.Dst, v, recvs)
}

// routed returns the positions on this host that this rank's rail carries for.
func (h *hosts) routed() []int {
	var out []int
	for pos := range h.local() {
		if h.via(pos) == h.pos {
			out = append(out, pos)
		}
	}
	return out
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

// deliver cuts v, which is (sender by place, destination), by destination. Where hosts
// are uniform it is all this rank's.
func (h *hosts) deliver(ctx context.Context, call plan.Call, dst, v []byte, recvs [][]int) error {
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
	if err := h.within(ctx, plan.Scatter, plan.Request{Call: call, Dst: t, Src: slices.Concat(parts...), Counts: counts}); err != nil {
		return err
	}
	restore(dst, t, recvs[h.pos], h.layout.order)
	return nil
}

// exchangeCounts returns, by position, how many bytes each rank of this host sends to and
// receives from every rank.
func (h *hosts) exchangeCounts(ctx context.Context, call plan.Call, counts, recv []int) (sends, recvs [][]int, err error) {
	n, l := len(counts), len(h.local())
	mine := make([]byte, 0, 16*n)
	for _, c := range slices.Concat(counts, recv) {
		mine = binary.LittleEndian.AppendUint64(mine, uint64(c))
	}
	all := make([]byte, l*len(mine))
	if err := h.within(ctx, plan.AllGather, plan.Request{Call: call, Dst: all, Src: mine}); err != nil {
		return nil, nil, err
	}
	sends, recvs = make([][]int, l), make([][]int, l)
	for i := range l {
		both := make([]int, 2*n)
		for j := range both {
			c := binary.LittleEndian.Uint64(all[(i*2*n+j)*8:])
			if c > 1<<48 {
				return nil, nil, &plan.PeerError{Rank: h.local()[i], Call: call,
					Err: fmt.Errorf("%w: a count of %d bytes, expected at most %d", ErrMismatch, c, 1<<48)}
			}
			both[j] = int(c)
		}
		sends[i], recvs[i] = both[:n], both[n:]
	}
	for i, a := range h.local() {
		for j, b := range h.local() {
			if sends[i][b] != recvs[j][a] {
				return nil, nil, &plan.PeerError{Rank: a, Call: call,
					Err: fmt.Errorf("%w: rank %d sends %d bytes to rank %d, which expects %d",
						ErrMismatch, a, sends[i][b], b, recvs[j][a])}
			}
		}
	}
	return sends, recvs, nil
}
