package launch

import (
	"bytes"
	"slices"

	"github.com/ringside-go/ringside/collective/rendezvous"
)

// newsMark is in every error of a group's failure.
var newsMark = []byte("collective: ")

// isNews reports whether a line that a rank wrote may be about the failure of its group,
// of which it has told this process by then.
func (s *settled) isNews(line []byte, rank, epoch int) bool {
	return bytes.Contains(line, newsMark) && s.told(rank, epoch) != ""
}

// told returns in words what a rank has said about the failure of its group; empty if it
// has said nothing.
func (s *settled) told(rank, epoch int) string {
	if s.folder == nil {
		return ""
	}
	v, err := rendezvous.ReadVerdict(s.verdict(rank, epoch), s.Ranks)
	if err != nil {
		return ""
	}
	return v.Text
}

// lastWords gives the error of the rank that began it the last line that was held back
// of its own, or else of the first rank that has one, and leaves out those of others that
// are about the same failure. It passes the rest on.
func (a *attempt) lastWords() {
	ranks := a.ranks
	if a.first != nil { // its own is the first
		ranks = append([]*rank{a.ranks[a.first.Rank]}, slices.Delete(slices.Clone(ranks), a.first.Rank, a.first.Rank+1)...)
	}
	about := ""
	for _, r := range ranks {
		line := r.errs.last()
		if line == "" {
			continue
		}
		told := a.s.told(r.place.rank, a.epoch)
		switch e := a.first; {
		case e != nil && e.SaidBy == nil:
			e.Said, e.SaidBy, about = line, []int{r.place.rank}, told
		case e != nil && told == about:
			e.SaidBy = append(e.SaidBy, r.place.rank)
		default:
			r.errs.pass(line)
		}
	}
}
