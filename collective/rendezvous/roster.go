package rendezvous

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxRefusals is how many refusals an error repeats: the last ones.
const maxRefusals = 4

// roster records which ranks are here, which have left, and which callers were refused.
// The server's lock is held.
//
// A process that was refused for good does not try again. Once as many of them have come
// as ranks are missing, the world cannot become complete. Callers that don't count: those
// that speak another protocol, ranks of an earlier attempt, and callers at a port without
// the secret, since any process can claim to be any rank there.
type roster struct {
	world World
	here  map[uint32]*member // connected ranks
	left  map[uint32]bool    // ranks that were connected

	texts []string // the last refusals
	// ranks that refused callers claimed to be, which differ on the secret or on the size
	missing  map[uint32]bool
	doubles  int  // refused callers that claimed to be a rank which is here
	hopeless bool // the world cannot become complete; final
}

// join takes m in as the rank it says it is, or returns the reason against it.
func (r *roster) join(m *member, j joining) (failure, bool) {
	size := r.world.Size
	switch {
	case j.epoch != r.world.Epoch:
		return failure{code: codeEpoch, text: fmt.Sprintf("rank %d is of epoch %d, rank 0 of %d", j.rank, j.epoch, r.world.Epoch)}, false
	case int(j.size) != size:
		return failure{code: codeSize, text: fmt.Sprintf("rank %d says that there are %d ranks, rank 0 says %d", j.rank, j.size, size)}, false
	case int(j.rank) >= size:
		return failure{code: codeSize, text: fmt.Sprintf("rank %d, expected 0 to %d", j.rank, size-1)}, false
	case r.here[j.rank] != nil:
		return failure{code: codeDuplicate, text: fmt.Sprintf("rank %d of %d is connected already", j.rank, j.size)}, false
	case r.left[j.rank]:
		return failure{code: codeLeft, text: fmt.Sprintf("rank %d of %d was here and left", j.rank, j.size)}, false
	}
	m.rank, m.joined = j.rank, true
	r.here[j.rank] = m
	return failure{}, true
}

// leave forgets a rank whose connection ended.
func (r *roster) leave(m *member) {
	delete(r.here, m.rank)
	r.left[m.rank] = true
}

// alone reports whether no rank but rank 0 is here.
func (r *roster) alone() bool {
	return len(r.here) == 0 || len(r.here) == 1 && r.here[0] != nil
}

// refuse records a refused caller that claims j.
func (r *roster) refuse(text string, j joining, why error) {
	if !slices.Contains(r.texts, text) {
		r.texts = append(r.texts, text)
	}
	if len(r.texts) > maxRefusals {
		r.texts = r.texts[1:]
	}
	switch {
	case errors.Is(why, ErrDuplicateRank):
		r.doubles++
	case errors.Is(why, ErrSecret), errors.Is(why, ErrWorldSize):
		if r.missing == nil {
			r.missing = map[uint32]bool{}
		}
		if int(j.rank) < r.world.Size && j.size > 0 {
			r.missing[j.rank] = true
		}
	}
}

// judge sets hopeless once no process is left that could complete the world, and reports
// whether this call did.
func (r *roster) judge() bool {
	if r.hopeless || r.doubles == 0 && len(r.missing) == 0 {
		return false
	}
	refused, absent := r.doubles, 0
	for rank := range uint32(r.world.Size) {
		if r.here[rank] == nil && !r.left[rank] {
			absent++
			if r.missing[rank] {
				refused++
			}
		}
	}
	r.hopeless = absent > 0 && refused >= absent
	return r.hopeless
}

// explain adds the refusals, which often are of the missing ranks, to a reason.
func (r *roster) explain(why string) string {
	if len(r.texts) == 0 {
		return why
	}
	if why != "" {
		why += "; "
	}
	return why + "refused: " + strings.Join(r.texts, "; ")
}
