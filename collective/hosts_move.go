package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/plan"
)

// A part is what a call has for one rank. Three orders of them occur: by rank (users' buffers), by place (host by host) and by
// rail (position by position, each with its part of every host), the order in which inside and across can cut.

// byRail lists the ranks in the order of rails. Only where hosts are uniform.
func (h *hosts) byRail() []int {
	out := make([]int, 0, len(h.layout.order))
	for k := range h.rails {
		out = append(out, h.rail(k)...)
	}
	return out
}

// pick is the counts of the given ranks.
func pick(counts, ranks []int) []int {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = counts[r]
	}
	return out
}

// total is the sum of the counts of the given ranks.
func total(counts, ranks []int) int {
	n := 0
	for _, r := range ranks {
		n += counts[r]
	}
	return n
}

// totals is total for each list of ranks.
func totals(counts []int, lists [][]int) []int {
	out := make([]int, len(lists))
	for i, ranks := range lists {
		out[i] = total(counts, ranks)
	}
	return out
}

// railLists is the ranks of every rail.
func (h *hosts) railLists() [][]int {
	out := make([][]int, h.rails)
	for k := range out {
		out[k] = h.rail(k)
	}
	return out
}

// arrange copies the parts of src, which lie by rank, into the given order.
func arrange(dst, src []byte, counts, order []int) {
	from, off := plan.Packed(counts), 0
	for _, r := range order {
		off += copy(dst[off:], from[r].Of(src))
	}
}

// restore is the inverse of arrange.
func restore(dst, src []byte, counts, order []int) {
	to, off := plan.Packed(counts), 0
	for _, r := range order {
		off += copy(to[r].Of(dst), src[off:])
	}
}

func scaled(counts []int, from, to int) []int {
	out := make([]int, len(counts))
	for i, n := range counts {
		out[i] = n / from * to
	}
	return out
}

// ReduceScatter with rails: inside, position k gets what is for ranks at position k anywhere; across, each of them its part.
func (h *hosts) ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	t, err := h.partial(call, 0, src)
	if err != nil {
		return err
	}
	wcall := widened(call)
	wide := scaled(counts, call.DType.Size(), wcall.DType.Size())
	u, err := h.temp(1, len(t))
	if err != nil {
		return err
	}
	out, err := h.temp(2, wide[h.rank])
	if err != nil {
		return err
	}
	if !h.layout.uniform() {
		return h.reduceScatterByLeaders(ctx, call, scale, dst, src, counts)
	}
	arrange(u, t, wide, h.byRail())
	perRail := totals(wide, h.railLists())
	mine := plan.Packed(perRail)[h.pos].Of(u)
	if err := h.in(h.inside.ReduceScatter(ctx, wcall, 1, mine, u, perRail)); err != nil {
		return err
	}
	if err := h.out(h.across.ReduceScatter(ctx, wcall, scale, out, mine, pick(wide, h.rail(h.pos)))); err != nil {
		return err
	}
	finish(call, dst, out)
	return nil
}

func (h *hosts) reduceScatterByLeaders(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	t, err := h.reduceToLeader(ctx, call, nil, src)
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
		if err := h.out(h.across.ReduceScatter(ctx, wcall, scale, t[:perHost[h.host]], u, perHost)); err != nil {
			return err
		}
		if ours, err = h.temp(2, total(counts, h.local())); err != nil {
			return err
		}
		finish(call, ours, t[:perHost[h.host]])
	}
	return h.in(h.inside.Scatter(ctx, call, dst, ours, pick(counts, h.local()), 0))
}

func (h *hosts) AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error {
	u, err := h.temp(1, len(dst))
	if err != nil {
		return err
	}
	if h.layout.uniform() {
		perRail := totals(counts, h.railLists())
		mine := plan.Packed(perRail)[h.pos].Of(u)
		if err := h.out(h.across.AllGather(ctx, call, mine, src, pick(counts, h.rail(h.pos)))); err != nil {
			return err
		}
		if err := h.in(h.inside.AllGather(ctx, call, u, mine, perRail)); err != nil {
			return err
		}
		restore(dst, u, counts, h.byRail())
		return nil
	}
	perHost := totals(counts, h.layout.hosts)
	ours := plan.Packed(perHost)[h.host].Of(u)
	if h.pos != 0 {
		ours = nil
	}
	if err := h.in(h.inside.Gather(ctx, call, ours, src, pick(counts, h.local()), 0)); err != nil {
		return err
	}
	if h.pos == 0 {
		if err := h.out(h.across.AllGather(ctx, call, u, ours, perHost)); err != nil {
			return err
		}
	}
	if err := h.in(h.inside.Broadcast(ctx, call, u, 0)); err != nil {
		return err
	}
	restore(dst, u, counts, h.layout.order)
	return nil
}

// Broadcast enters the other hosts on the root's rail if it has one, else on the leaders'.
func (h *hosts) Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error {
	there, pos := h.layout.hostOf[root], h.layout.posOf[root]
	entry := h.via(pos)
	if h.host == there && entry != pos {
		if err := h.in(h.inside.Broadcast(ctx, call, buf, pos)); err != nil {
			return err
		}
	}
	if h.pos == entry {
		if err := h.out(h.across.Broadcast(ctx, call, buf, there)); err != nil {
			return err
		}
	}
	if h.host == there && entry != pos {
		return nil
	}
	return h.in(h.inside.Broadcast(ctx, call, buf, entry))
}

func (h *hosts) Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	there, pos := h.layout.hostOf[root], h.layout.posOf[root]
	entry := h.via(pos)
	var all, ours []byte
	var err error
	if h.host == there && (h.pos == pos || h.pos == entry) {
		if all, err = h.temp(0, total(counts, h.layout.order)); err != nil {
			return err
		}
	}
	if h.rank == root {
		arrange(all, src, counts, h.layout.order)
	}
	if h.host == there && entry != pos {
		if h.rank == root {
			err = h.inside.Send(ctx, call, entry, all)
		} else if h.pos == entry {
			err = h.inside.Recv(ctx, call, pos, all)
		}
		if err != nil {
			return h.in(err)
		}
	}
	if h.pos == entry {
		perHost := totals(counts, h.layout.hosts)
		if ours, err = h.temp(1, perHost[h.host]); err != nil {
			return err
		}
		if err := h.out(h.across.Scatter(ctx, call, ours, all, perHost, there)); err != nil {
			return err
		}
	}
	return h.in(h.inside.Scatter(ctx, call, dst, ours, pick(counts, h.local()), entry))
}

func (h *hosts) Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	there, pos := h.layout.hostOf[root], h.layout.posOf[root]
	entry := h.via(pos)
	var all, ours []byte
	var err error
	if h.host == there && (h.pos == pos || h.pos == entry) {
		if all, err = h.temp(0, total(counts, h.layout.order)); err != nil {
			return err
		}
	}
	perHost := totals(counts, h.layout.hosts)
	if h.pos == entry {
		if ours, err = h.temp(1, perHost[h.host]); err != nil {
			return err
		}
	}
	if err := h.in(h.inside.Gather(ctx, call, ours, src, pick(counts, h.local()), entry)); err != nil {
		return err
	}
	if h.pos == entry {
		if err := h.out(h.across.Gather(ctx, call, all, ours, perHost, there)); err != nil {
			return err
		}
	}
	if h.host == there && entry != pos {
		if h.pos == entry {
			err = h.inside.Send(ctx, call, pos, all)
		} else if h.rank == root {
			err = h.inside.Recv(ctx, call, entry, all)
		}
		if err != nil {
			return h.in(err)
		}
	}
	if h.rank == root {
		restore(dst, all, counts, h.layout.order)
	}
	return nil
}

// AllToAll goes inside to the position whose rail leads to the destination, across, and inside to the destination where that
// is another. Every rank knows only its own counts, so those of a host tell each other first.
func (h *hosts) AllToAll(ctx context.Context, call plan.Call, dst, src []byte, sendCounts, recvCounts []int) error {
	sends, recvs, err := h.exchangeCounts(ctx, call, sendCounts, recvCounts)
	if err != nil {
		return err
	}
	// Step 1: by rail of the destination, within that by place.
	routes := make([][]int, len(h.local()))
	for _, r := range h.layout.order {
		k := h.via(h.layout.posOf[r])
		routes[k] = append(routes[k], r)
	}
	s := make([]byte, len(src))
	arrange(s, src, sendCounts, slices.Concat(routes...))
	mine := routes[h.pos] // empty unless this rank has a rail
	arriving := make([]int, len(routes))
	for i := range routes {
		arriving[i] = total(sends[i], mine)
	}
	n := 0
	for _, a := range arriving {
		n += a
	}
	t := make([]byte, n)
	if err := h.in(h.inside.AllToAll(ctx, call, t, s, totals(sendCounts, routes), arriving)); err != nil {
		return err
	}
	if h.pos >= h.rails {
		return h.deliver(ctx, call, dst, nil, recvs)
	}
	// Step 2: t has for each local sender its parts by destination; each host gets its destinations, sender by sender.
	u, perHost := regroup(t, sends, mine, h.layout)
	from := make([]int, len(h.layout.hosts))
	for a, ranks := range h.layout.hosts {
		for _, d := range h.routed() {
			from[a] += total(recvs[d], ranks)
		}
	}
	n = 0
	for _, f := range from {
		n += f
	}
	v := make([]byte, n)
	if err := h.out(h.across.AllToAll(ctx, call, v, u, perHost, from)); err != nil {
		return err
	}
	// Step 3: v has by place of the sender what each of this rail's destinations here gets.
	return h.deliver(ctx, call, dst, v, recvs)
}

// routed is the positions on this host that this rank's rail carries for.
func (h *hosts) routed() []int {
	var out []int
	for pos := range h.local() {
		if h.via(pos) == h.pos {
			out = append(out, pos)
		}
	}
	return out
}

// regroup turns (sender, host, destination) into (host, sender, destination); sizes are sends[sender][rank].
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

// deliver cuts v, which is (sender by place, destination), by destination. Where hosts are uniform it is all this rank's.
func (h *hosts) deliver(ctx context.Context, call plan.Call, dst, v []byte, recvs [][]int) error {
	if h.layout.uniform() {
		restore(dst, v, recvs[h.pos], h.layout.order)
		return nil
	}
	parts := make([][]byte, len(h.local()))
	counts := make([]int, len(parts))
	for d := range parts {
		counts[d] = total(recvs[d], h.layout.order)
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
	if err := h.in(h.inside.Scatter(ctx, call, t, slices.Concat(parts...), counts, 0)); err != nil {
		return err
	}
	restore(dst, t, recvs[h.pos], h.layout.order)
	return nil
}

// exchangeCounts gives what each rank of this host sends to and receives from every rank.
func (h *hosts) exchangeCounts(ctx context.Context, call plan.Call, sendCounts, recvCounts []int) (sends, recvs [][]int, err error) {
	n, l := len(sendCounts), len(h.local())
	mine := make([]byte, 0, 16*n)
	for _, c := range slices.Concat(sendCounts, recvCounts) {
		mine = binary.LittleEndian.AppendUint64(mine, uint64(c))
	}
	even := make([]int, l)
	for i := range even {
		even[i] = len(mine)
	}
	all := make([]byte, l*len(mine))
	if err := h.in(h.inside.AllGather(ctx, call, all, mine, even)); err != nil {
		return nil, nil, err
	}
	sends, recvs = make([][]int, l), make([][]int, l)
	for i := range l {
		both := make([]int, 2*n)
		for j := range both {
			c := binary.LittleEndian.Uint64(all[(i*2*n+j)*8:])
			if c > 1<<48 {
				return nil, nil, &plan.PeerError{Rank: h.local()[i], Call: call, Err: fmt.Errorf("%w: a count of %d bytes", ErrMismatch, c)}
			}
			both[j] = int(c)
		}
		sends[i], recvs[i] = both[:n], both[n:]
	}
	for i, a := range h.local() {
		for j, b := range h.local() {
			if sends[i][b] != recvs[j][a] {
				return nil, nil, &plan.PeerError{Rank: a, Call: call,
					Err: fmt.Errorf("%w: rank %d sends %d bytes to rank %d, which expects %d", ErrMismatch, a, sends[i][b], b, recvs[j][a])}
			}
		}
	}
	return sends, recvs, nil
}
