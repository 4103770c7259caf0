package collective

import (
	"fmt"
	"slices"
)

// layout says which rank is on which host. Hosts are numbered by their lowest rank; a place is where a rank stands when
// hosts are written one after the other, each in rank order. Reductions fold in the order of places, so that hosts that
// were given ranks in turns (0, 2 and 1, 3) give the same bits as what follows says for any others.
type layout struct {
	hosts  [][]int // ranks of each host, ascending
	hostOf []int   // by rank
	posOf  []int   // by rank: its index in hosts[hostOf[rank]]
	order  []int   // by place: the rank
	place  []int   // by rank: the place
}

// newLayout groups ranks by equal keys.
func newLayout[K comparable](keys []K) layout {
	l := layout{hostOf: make([]int, len(keys)), posOf: make([]int, len(keys)), place: make([]int, len(keys))}
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
	for _, ranks := range l.hosts {
		for _, rank := range ranks {
			l.place[rank] = len(l.order)
			l.order = append(l.order, rank)
		}
	}
	return l
}

// sizes is the number of ranks of each host: the fold that the comms are told.
func (l layout) sizes() []int {
	out := make([]int, len(l.hosts))
	for h, ranks := range l.hosts {
		out[h] = len(ranks)
	}
	return out
}

// uniform says whether all hosts have as many ranks.
func (l layout) uniform() bool {
	for _, ranks := range l.hosts {
		if len(ranks) != len(l.hosts[0]) {
			return false
		}
	}
	return true
}

// inOrder says whether places are ranks.
func (l layout) inOrder() bool { return slices.IsSorted(l.order) }

func (l layout) equal(m layout) bool { return slices.Equal(l.hostOf, m.hostOf) }

// String is as in "2 hosts of 2" or "hosts of 3, 1".
func (l layout) String() string {
	switch {
	case len(l.hosts) == 1:
		return "1 host"
	case l.uniform():
		return fmt.Sprintf("%d hosts of %d", len(l.hosts), len(l.hosts[0]))
	}
	return fmt.Sprintf("hosts of %v", l.sizes())
}
