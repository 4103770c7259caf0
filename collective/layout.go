package collective

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
)

// layout says which rank is on which host. Hosts are numbered by their lowest rank. A
// rank's place is its index when the ranks of all hosts are written one host after the
// other, each in rank order. Reductions fold in the order of places. So hosts that were
// given ranks in turns (0, 2 and 1, 3) give the same bits as hosts with consecutive
// ranks.
type layout struct {
	hosts  [][]int // ranks of each host, ascending
	hostOf []int   // by rank
	posOf  []int   // by rank: its index in hosts[hostOf[rank]]
	order  []int   // by place: the rank
}

// newLayout groups ranks by equal keys.
func newLayout[K comparable](keys []K) layout {
	l := layout{hostOf: make([]int, len(keys)), posOf: make([]int, len(keys))}
	index := map[K]int{}
	for rank, key := range keys {
		h, ok := index[key]
		if !ok {
			h = len(l.hosts)
			index[key] = h
			l.hosts = append(l.hosts, nil)
		}
		l.hostOf[rank], l.posOf[rank] = h, len(l.hosts[h])
		l.hosts[h] = append(l.hosts[h], rank)
	}
	l.order = slices.Concat(l.hosts...)
	return l
}

// sizes returns the number of ranks of each host, which is the fold of the group's comm.
func (l layout) sizes() []int {
	out := make([]int, len(l.hosts))
	for h, ranks := range l.hosts {
		out[h] = len(ranks)
	}
	return out
}

// uniform reports whether all hosts have the same number of ranks.
func (l layout) uniform() bool {
	return !slices.ContainsFunc(l.hosts, func(ranks []int) bool { return len(ranks) != len(l.hosts[0]) })
}

// equal reports whether m has the same ranks on the same hosts.
func (l layout) equal(m layout) bool { return slices.Equal(l.hostOf, m.hostOf) }

// String returns a text such as "2 hosts of 2" or "hosts of [3 1]".
func (l layout) String() string {
	switch {
	case len(l.hosts) == 1:
		return "1 host"
	case l.uniform():
		return fmt.Sprintf("%d hosts of %d", len(l.hosts), len(l.hosts[0]))
	}
	return fmt.Sprintf("hosts of %v", l.sizes())
}

// sum adds up counts.
func sum(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// pick returns the counts of the given ranks.
func pick(counts, ranks []int) []int {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = counts[r]
	}
	return out
}

// total returns the sum of the counts of the given ranks.
func total(counts, ranks []int) int { return sum(pick(counts, ranks)) }

// totals returns the total for each list of ranks.
func totals(counts []int, lists [][]int) []int {
	out := make([]int, len(lists))
	for i, ranks := range lists {
		out[i] = total(counts, ranks)
	}
	return out
}

// arrange copies the parts of src, which lie by rank, into the given order of ranks.
func arrange(dst, src []byte, counts, order []int) {
	from, off := protocol.Packed(counts), 0
	for _, r := range order {
		off += copy(dst[off:], from[r].Of(src))
	}
}

// restore is the inverse of arrange.
func restore(dst, src []byte, counts, order []int) {
	to, off := protocol.Packed(counts), 0
	for _, r := range order {
		off += copy(to[r].Of(dst), src[off:])
	}
}
