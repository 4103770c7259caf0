package launch

import (
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective/rendezvous"
)

// confession is how long the others are not asked to end when those that failed name a
// rank that has not ended: mostly it has closed its group because of an error, and is
// about to say which.
const confession = 2 * time.Second

// blame finds out which rank's failure began it, of those that failed before the launcher
// ended any. One that fails because of another may end before it: a rank that returns an
// error closes its group first.
type blame struct {
	failed []*rank                    // in the order of their ends
	ended  map[int]bool               // all that have, by rank
	says   map[int]rendezvous.Verdict // by rank: what those said that name another
	votes  []int                      // by rank: how many others name it
}

// look reads what the ranks have said. Those of other hosts, and of programs without a
// collective.Group, say nothing.
func (b *blame) look(s *settled, epoch int) {
	read := map[int]rendezvous.Verdict{}
	if s.folder != nil {
		for _, p := range s.places {
			if v, err := rendezvous.ReadVerdict(s.verdict(p.rank, epoch), s.Ranks); err == nil && v.Rank != p.rank {
				read[p.rank] = v
			}
		}
	}
	b.hear(read, s.Ranks)
}

// hear takes in what the ranks have said. One that names a rank which names another has
// failed because of that one.
func (b *blame) hear(read map[int]rendezvous.Verdict, ranks int) {
	b.says, b.votes = map[int]rendezvous.Verdict{}, make([]int, ranks)
	for p, direct := range read {
		v, seen := direct, map[int]bool{p: true, direct.Rank: true}
		for next, names := read[v.Rank]; names; next, names = read[v.Rank] {
			if v = next; seen[v.Rank] { // they name each other
				v = direct
				break
			}
			seen[v.Rank] = true
		}
		b.says[p] = v
		b.votes[v.Rank]++
	}
}

// awaited is the rank that most of the others name if it has not ended, and will; else
// -1.
func (b *blame) awaited() int {
	most := slices.Max(b.votes)
	for _, v := range b.says {
		if b.votes[v.Rank] == most && !v.Stuck && !b.ended[v.Rank] {
			return v.Rank
		}
	}
	return -1
}

// weight ranks the failed ranks by the evidence that they failed first: other ranks name
// it; a signal ended it, which another rank's end does not cause; it names no other rank.
func (b *blame) weight(r *rank) []int {
	w := []int{b.votes[r.place.rank], 0, 0}
	if r.err.Code > 128 && r.err.Code < 255 {
		w[1] = 1
	}
	if _, names := b.says[r.place.rank]; !names {
		w[2] = 1
	}
	return w
}

// verdict is the error of the rank that began it, as well as it is known.
func (b *blame) verdict() *RankError {
	first := slices.MaxFunc(b.failed, func(x, y *rank) int { return slices.Compare(b.weight(x), b.weight(y)) })
	e := first.err
	if b.votes[e.Rank] > 0 {
		return e
	}
	if v, ok := b.says[e.Rank]; ok { // the rank that it names has not failed
		e.Because = &Because{v.Rank, v.Text}
		return e
	}
	for _, r := range b.failed {
		if r != first && slices.Equal(b.weight(r), b.weight(first)) {
			e.Also = append(e.Also, r.place.rank)
		}
	}
	slices.Sort(e.Also)
	return e
}
