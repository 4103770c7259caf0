package rendezvous

import (
	"errors"
	"slices"
)

// maxRefusals is how many refusals an error repeats: the last ones.
const maxRefusals = 4

// refusals are the callers that were not let in. A process that was refused for good (permanent) does not try again, so once
// as many of them have come as ranks are missing, nobody is left who could make the world complete. Strangers that speak
// another protocol, and ranks of an earlier attempt, are none of those. Nor is who calls at a port without knowing the
// secret: anybody could, claiming to be any rank, while the rank itself is yet to come.
type refusals struct {
	texts    []string
	missing  map[uint32]bool // ranks that callers said they are who differ on the secret or on the size
	doubles  int             // callers that said they are a rank which is here
	hopeless bool            // the world can't come about; final
}

// refuse keeps and logs that somebody was not let in, who says j of himself.
func (s *server) refuse(text string, j joining, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseLocked(text, j, why)
}

func (s *server) refuseLocked(text string, j joining, why error) {
	s.warnings.Warn(kindOf(why), "rendezvous: refused", "who", text)
	r := &s.refused
	if !slices.Contains(r.texts, text) {
		r.texts = append(r.texts, text)
	}
	if len(r.texts) > maxRefusals {
		r.texts = r.texts[1:]
	}
	switch {
	case errors.Is(why, ErrDuplicateRank):
		r.doubles++
	case errors.Is(why, ErrSecret) && s.guarded():
	case errors.Is(why, ErrSecret), errors.Is(why, ErrWorldSize):
		if r.missing == nil {
			r.missing = map[uint32]bool{}
		}
		if int(j.rank) < s.world.Size {
			r.missing[j.rank] = true
		}
	}
	s.checkHope()
}

// kindOf is of which kind a refusal is: what strangers send at random hides no rank that differs from the others.
func kindOf(why error) string {
	for _, kind := range []error{ErrSecret, ErrStale, ErrWorldSize, ErrDuplicateRank} {
		if errors.Is(why, kind) {
			return kind.Error()
		}
	}
	return "stranger"
}

// guarded says whether others than ranks may call here who can't join: at a port, if there is a secret.
func (s *server) guarded() bool { return s.world.MasterAddr != "" && len(s.world.Secret) > 0 }

// checkHope ends the gathers of all ranks once the world can't come about. The lock is held.
func (s *server) checkHope() {
	r := &s.refused
	if r.hopeless || r.doubles == 0 && len(r.missing) == 0 {
		return
	}
	refused, absent := r.doubles, 0
	for rank := range uint32(s.world.Size) {
		if s.peers[rank] == nil && !s.left[rank] {
			absent++
			if r.missing[rank] {
				refused++
			}
		}
	}
	if absent == 0 || refused < absent {
		return
	}
	r.hopeless = true
	for k, g := range s.gathers {
		if k.isWorlds() {
			s.giveUp(g)
		}
	}
}

// giveUp ends a gather of all ranks, without blame for those that are here and about to come to it.
func (s *server) giveUp(g *gather) {
	e := s.missing(g, "")
	e.ranks = slices.DeleteFunc(e.ranks, func(r int) bool { return s.peers[uint32(r)] != nil })
	s.answer(g, e)
}
