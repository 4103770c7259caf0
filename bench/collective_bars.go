package bench

import (
	"fmt"
	"math"
	"strings"
)

// The sides, by name. Open MPI has one for each way in which it moves bytes; where it is
// compared with, the best of a round counts.
const (
	sideFloor      = "C"
	sideOurs       = "ringside"
	sidePersistent = "ringside, persistent"
	sideGloo       = "Gloo"
	sideMPI        = "Open MPI, " // and how
)

const (
	maxSmallOverFloor   = 1.5 // persistent calls
	maxPlainOverFloor   = 2.0 // small calls that are not
	maxLargeOverFloor   = 1.2
	maxStagedOverFloor  = 1.3
	maxBarrierOverFloor = 1.6
	minOverMPI          = 3
	minOverGloo         = 20
	minOverGlooLarge    = 10
	glooLarge           = 1 << 20 // above it the other limit holds
)

// best is the quickest of these sides, round by round; nil if there is none. sideMPI is
// all that begin so.
func (b *collectiveBook) best(c collectiveCase, sides ...string) *series {
	var out *series
	for _, at := range b.order {
		for _, p := range sides {
			if at.collectiveCase != c || at.side != p && !(p == sideMPI && strings.HasPrefix(at.side, p)) {
				continue
			}
			if out == nil {
				out = &series{}
				for range b.cells[at].rounds {
					out.add(math.Inf(1))
				}
			}
			for i, x := range b.cells[at].medians() {
				out.rounds[i][0] = min(out.rounds[i][0], x)
			}
		}
	}
	return out
}

// worst returns the largest ratio of x's to y's times among the cases, and whether there
// is any that both measured. Other libraries have no private memory: their registered
// case is compared.
func (b *collectiveBook) worst(cases []collectiveCase, x, y []string) (worst float64, ok bool) {
	at := func(c collectiveCase, names []string) *series {
		if s := b.best(c, names...); s != nil {
			return s
		}
		c.private = false
		return b.best(c, names...)
	}
	for _, c := range cases {
		if p, q := at(c, x), at(c, y); p != nil && q != nil {
			worst, ok = max(worst, ratio(p, q)), true
		}
	}
	return worst, ok
}

// pick lists the cases of ours that have the properties: none if a size is missing that a
// limit for all of them is about.
func (b *collectiveBook) pick(ranks int, op, dtype string, private bool, from, to int) (cases []collectiveCase) {
	measured := map[int]bool{}
	for _, at := range b.order {
		if at.side == sideOurs && at.ranks == ranks && at.op == op && at.dtype == dtype && at.private == private && at.bytes >= from && at.bytes <= to {
			cases = append(cases, at.collectiveCase)
			measured[at.bytes] = true
		}
	}
	for _, n := range collectiveSizes() {
		if n >= from && n <= to && op != "barrier" && !measured[max(n, leastBytes(op, ranks))] {
			return nil
		}
	}
	return cases
}

// bars adds those figures for so many ranks that both sides of were measured.
func (b *collectiveBook) bars(r *Report, ranks int) {
	ours, again, floor := []string{sideOurs}, []string{sidePersistent}, []string{sideFloor}
	gloo, mpi := []string{sideGloo}, []string{sideMPI}
	suffix := ""
	if ranks != 2 {
		suffix = fmt.Sprint("_", ranks)
	}
	over := func(name string, cases []collectiveCase, side []string, limit float64) {
		if x, ok := b.worst(cases, ours, side); ok {
			r.atMost(name+suffix, x, limit)
		}
	}
	// small compares persistent calls with the floor, and plain ones by a wider limit.
	small := func(name string, cases []collectiveCase, limit float64) {
		if x, ok := b.worst(cases, again, floor); ok {
			r.atMost(name+suffix, x, limit)
		}
		over(name+"_plain", cases, floor, maxPlainOverFloor)
	}
	faster := func(name string, cases []collectiveCase, side []string, limit float64) {
		if x, ok := b.worst(cases, ours, side); ok {
			r.atLeast(name+suffix, 1/x, limit)
		}
	}
	all := func(op, dtype string) []collectiveCase { return b.pick(ranks, op, dtype, false, 0, math.MaxInt) }
	few, large := b.pick(ranks, "allreduce", "f32", false, 0, smallCall), b.pick(ranks, "allreduce", "f32", false, largeCall, math.MaxInt)
	if ranks != 2 { // more ranks than cores: the peers are the measure
		faster("allreduce_openmpi_ratio", all("allreduce", "f32"), mpi, 1)
		faster("allreduce_gloo_ratio", all("allreduce", "f32"), gloo, 1)
		small("barrier_over_floor", all("barrier", "f32"), maxBarrierOverFloor)
		return
	}
	small("allreduce_small_over_floor", few, maxSmallOverFloor)
	over("allreduce_large_over_floor", large, floor, maxLargeOverFloor)
	faster("allreduce_openmpi_ratio", large, mpi, minOverMPI)
	faster("allreduce_small_openmpi_ratio", b.pick(ranks, "allreduce", "f32", false, 0, largeCall-1), mpi, 1)
	faster("allreduce_gloo_ratio", b.pick(ranks, "allreduce", "f32", false, 0, glooLarge), gloo, minOverGloo)
	faster("allreduce_large_gloo_ratio", b.pick(ranks, "allreduce", "f32", false, glooLarge+1, math.MaxInt), gloo, minOverGlooLarge)
	for _, dtype := range []string{"f16", "bf16"} {
		small("allreduce_"+dtype+"_small_over_floor", b.pick(ranks, "allreduce", dtype, false, 0, smallCall), maxSmallOverFloor)
		over("allreduce_"+dtype+"_large_over_floor", b.pick(ranks, "allreduce", dtype, false, largeCall, math.MaxInt), floor, maxLargeOverFloor)
	}
	private := b.pick(ranks, "allreduce", "f32", true, 0, math.MaxInt)
	// Small calls are persistent.
	if x, ok := b.worst(private, []string{sideOurs, sidePersistent}, floor); ok {
		r.atMost("allreduce_staged_over_floor", x, maxStagedOverFloor)
	}
	faster("allreduce_staged_openmpi_ratio", b.pick(ranks, "allreduce", "f32", true, largeCall, math.MaxInt), mpi, 1)
	for _, op := range []string{"reducescatter", "allgather", "broadcast"} {
		faster(op+"_openmpi_ratio", all(op, "f32"), mpi, 1)
		over(op+"_large_over_floor", b.pick(ranks, op, "f32", false, largeCall, math.MaxInt), floor, maxLargeOverFloor)
	}
	small("barrier_over_floor", all("barrier", "f32"), maxBarrierOverFloor)
}
