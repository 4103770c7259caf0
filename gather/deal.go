package gather

import (
	"cmp"
	"math/bits"
	"slices"
)

// Share returns what rank gets of list among size ranks, where offset others were dealt
// before.
func (p *Plan) Share(list []uint64, offset, rank, size int) []uint64 {
	switch p.Policy.Deal {
	case Longest:
		return p.longest(list, rank, size)
	case Rendezvous:
		return slices.DeleteFunc(slices.Clone(list), func(uid uint64) bool { return home(uid, size) != rank })
	}
	var mine []uint64
	for i, uid := range list { // the i-th goes to rank (offset+i) mod size
		if (offset+i)%size == rank {
			mine = append(mine, uid)
		}
	}
	return mine
}

func (p *Plan) longest(list []uint64, rank, size int) []uint64 {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b uint64) int { return cmp.Compare(p.Sizes[b], p.Sizes[a]) })
	load, count := make([]uint64, size), make([]int, size)
	var mine []uint64
	for _, uid := range sorted {
		to := 0
		for r := range load { // of equal loads the rank with fewer peers
			if cmp.Or(cmp.Compare(load[r], load[to]), cmp.Compare(count[r], count[to])) < 0 {
				to = r
			}
		}
		load[to], count[to] = load[to]+p.Sizes[uid], count[to]+1
		if to == rank {
			mine = append(mine, uid)
		}
	}
	return mine
}

// home returns the rank whose hash with the peer is the largest.
func home(uid uint64, size int) int {
	best, most := 0, uint64(0)
	for r := range size {
		hi, lo := bits.Mul64(uid^0x9e3779b97f4a7c15, (uint64(r)+1)*0xd6e8feb86659fd93)
		if x := (hi ^ lo) * 0xff51afd7ed558ccd; x > most {
			best, most = r, x
		}
	}
	return best
}
