package rendezvous

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// worldGather is the prefix of the gathers of all ranks; those of a group begin with groupGather and its name.
const (
	worldGather = "world/"
	groupGather = "group/"
)

func (k gatherKey) isWorlds() bool { return strings.HasPrefix(k.name, worldGather) }

// handle answers a request, at once or when what it waits for has come.
func (s *server) handle(p *peer, k kind, id uint32, q request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch k {
	case kindSet:
		if s.set(p, id, q.key, q.value) {
			p.value(id, nil)
		}
	case kindGet:
		if v, ok := s.keys[q.key]; ok {
			p.value(id, v)
		} else {
			p.fail(id, failure{code: codeNotFound, text: fmt.Sprintf("%q", q.key)})
		}
	case kindWait:
		if v, ok := s.keys[q.key]; ok {
			p.value(id, v)
			return
		}
		w := s.wait(p, id, q.timeout, func() failure {
			if s.waits[q.key] = live(s.waits[q.key]); len(s.waits[q.key]) == 0 {
				delete(s.waits, q.key)
			}
			return failure{code: codeMissing, text: fmt.Sprintf("nobody set %q", q.key)}
		})
		if w != nil {
			s.waits[q.key] = append(s.waits[q.key], w)
		}
	case kindAdd:
		old := s.keys[q.key]
		if old != nil && len(old) != 8 {
			p.fail(id, failure{code: codeTooLarge, text: fmt.Sprintf("%q holds %d bytes, expected a number", q.key, len(old))})
			return
		}
		n := q.delta
		if old != nil {
			n += int64(binary.LittleEndian.Uint64(old))
		}
		if s.set(p, id, q.key, count(n)) {
			p.value(id, count(n))
		}
	case kindDelete:
		v, ok := s.keys[q.key]
		if ok {
			delete(s.keys, q.key)
			s.bytes -= cost(q.key, v)
		}
		var n int64
		if ok {
			n = 1
		}
		p.value(id, count(n))
	case kindGather:
		s.gather(p, id, q)
	}
}

// cost is what a key takes, with the map's own share.
func cost(key string, value []byte) int { return len(key) + len(value) + 64 }

// set stores a value and answers who waits for it. It reports whether there was room; if not, it has answered.
func (s *server) set(p *peer, id uint32, key string, value []byte) bool {
	after := s.bytes + cost(key, value)
	if old, ok := s.keys[key]; ok {
		after -= cost(key, old)
	}
	if after > s.limit {
		p.fail(id, failure{code: codeFull, text: fmt.Sprintf("%d bytes are stored, %d are the limit", s.bytes, s.limit)})
		return false
	}
	s.bytes = after
	s.keys[key] = bytes.Clone(value)
	if s.keys[key] == nil {
		s.keys[key] = []byte{}
	}
	for _, w := range s.waits[key] {
		if s.finish(w) {
			w.p.value(w.id, s.keys[key])
		}
	}
	delete(s.waits, key)
	return true
}

// wait makes a pending request, which fails at its deadline with what late says; nil if the rank has too many.
func (s *server) wait(p *peer, id uint32, timeout time.Duration, late func() failure) *pending {
	if p.pending >= maxPending {
		p.fail(id, failure{code: codeBusy, text: fmt.Sprintf("rank %d has %d requests waiting", p.rank, p.pending)})
		return nil
	}
	p.pending++
	w := &pending{p: p, id: id}
	w.timer = time.AfterFunc(timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.finish(w) {
			p.fail(id, late())
		}
	})
	return w
}

// finish reports whether w is still to be answered, which the caller then does.
func (s *server) finish(w *pending) bool {
	if w.done {
		return false
	}
	w.done = true
	w.timer.Stop()
	w.p.pending--
	return true
}

// live drops those that were answered.
func live(ws []*pending) []*pending {
	out := ws[:0]
	for _, w := range ws {
		if !w.done {
			out = append(out, w)
		}
	}
	return out
}

// gather takes a rank's value, and answers all when the last has come.
func (s *server) gather(p *peer, id uint32, q request) {
	k := gatherKey{q.key, q.size}
	if want := uint32(s.world.Size); q.size > want || k.isWorlds() && (q.size != want || q.rank != p.rank) {
		p.fail(id, failure{code: codeSize, text: fmt.Sprintf("rank %d of %d gathers as rank %d of %d", p.rank, want, q.rank, q.size)})
		return
	}
	g := s.gathers[k]
	if g == nil {
		g = &gather{values: make([][]byte, q.size), left: int(q.size)}
		s.gathers[k] = g
		if k.isWorlds() && q.size > 1 {
			s.remind(g, s.patience)
		}
	}
	if g.values[q.rank] != nil {
		p.fail(id, failure{code: codeDuplicate, text: fmt.Sprintf("rank %d of %d gathered %q already", q.rank, q.size, q.key)})
		return
	}
	held := cost(q.key, q.value)
	if s.bytes+held > s.limit {
		p.fail(id, failure{code: codeFull, text: fmt.Sprintf("%d bytes are stored, %d are the limit", s.bytes, s.limit)})
		return
	}
	s.bytes += held
	g.values[q.rank] = append([]byte{}, q.value...)
	if w := s.wait(p, id, q.timeout, func() failure { return s.missing(g, "") }); w != nil {
		g.waits = append(g.waits, w)
	}
	if g.left--; g.left > 0 {
		if k.isWorlds() {
			if s.refused.hopeless {
				s.giveUp(g)
				return
			}
			for r := range s.left {
				if g.values[r] == nil {
					s.failGather(g, fmt.Sprintf("rank %d left", r))
					return
				}
			}
		}
		return
	}
	var all []byte
	for _, v := range g.values {
		all = appendBytes(all, v)
	}
	for _, w := range g.waits {
		if s.finish(w) {
			w.p.send(frame{kindValues, w.id, all})
		}
	}
	s.drop(k, g)
}

// failGather answers all who wait in g with who is missing. What came stays, so that a rank that comes later
// finds out as well.
func (s *server) failGather(g *gather, why string) {
	s.answer(g, s.missing(g, why))
}

func (s *server) answer(g *gather, e failure) {
	for _, w := range g.waits {
		if s.finish(w) {
			w.p.fail(w.id, e)
		}
	}
	g.waits = nil
}

// remind logs after some time for whom the others wait, again and again until they don't.
func (s *server) remind(g *gather, after time.Duration) {
	g.remind = time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if g.waits = live(g.waits); s.closed || g.left == 0 || len(g.waits) == 0 {
			return
		}
		missing := s.missing(g, "")
		s.log.Warn("rendezvous: waiting for ranks that have not come", "ranks", missing.ranks, "of", len(g.values), "text", missing.text)
		s.remind(g, 2*after)
	})
}

// drop forgets a gather that all have.
func (s *server) drop(k gatherKey, g *gather) {
	if g.remind != nil {
		g.remind.Stop()
	}
	delete(s.gathers, k)
	for _, v := range g.values {
		s.bytes -= cost(k.name, v)
	}
}

// missing says who has not come, and who was not let in: often the same.
func (s *server) missing(g *gather, why string) failure {
	e := failure{code: codeMissing, text: why}
	for r, v := range g.values {
		if v == nil {
			e.ranks = append(e.ranks, r)
		}
	}
	if len(s.refused.texts) > 0 {
		if e.text != "" {
			e.text += "; "
		}
		e.text += "refused: " + strings.Join(s.refused.texts, "; ")
	}
	return e
}
