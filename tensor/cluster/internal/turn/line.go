package turn

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Line gives turns to sessions of several workers, in the order in which they asked. The
// dispatcher has one. A session gets the turn when, for each of its workers,
//
//   - no session has the turn there, and
//   - no earlier session in the line needs that worker.
//
// Sessions whose messages are forwarded stand in the line too. They get no turn: where
// they would get it, one of their messages is forwarded. W identifies a worker.
type Line[W comparable] struct {
	say     func(s *Session[W], what wire.TurnWhat)
	waiting []*Session[W] // oldest first
	holder  map[W]*Session[W]
	shared  map[W]int // number of sessions of several workers
}

// NewLine returns an empty line. It calls say to tell the workers of a session something:
// all of them that it has the turn, the first that the turn is asked back.
func NewLine[W comparable](say func(s *Session[W], what wire.TurnWhat)) *Line[W] {
	return &Line[W]{say: say, holder: map[W]*Session[W]{}, shared: map[W]int{}}
}

// Session is a session of several workers.
type Session[W comparable] struct {
	ID      uint64
	Workers []W // by rank
	Turn    Turn
	own     bool // it asked for turns: its messages are not forwarded
	queued  bool // it is in the line
}

// Own reports whether the session's messages use connections of their own: its first
// worker has asked for a turn.
func (s *Session[W]) Own() bool { return s.own }

// Join makes a session known.
func (l *Line[W]) Join(id uint64, workers []W) *Session[W] {
	for _, w := range workers {
		l.shared[w]++
	}
	return &Session[W]{ID: id, Workers: workers}
}

// Leave forgets a session that is over, and its turn.
func (l *Line[W]) Leave(s *Session[W]) {
	for _, w := range s.Workers {
		if l.shared[w]--; l.shared[w] == 0 {
			delete(l.shared, w)
		}
	}
	l.dequeue(s)
	l.free(s)
	l.next()
}

// Contended reports whether one of the session's workers has another session of several
// workers. If so, a turn is for one message. A session whose messages are forwarded then
// has at most one Run that was sent and has not begun: with many, it would make the
// others wait for all of them.
func (l *Line[W]) Contended(s *Session[W]) bool {
	return slices.ContainsFunc(s.Workers, func(w W) bool { return l.shared[w] > 1 })
}

// Hear handles a message of the session's first worker: Ask or Over. The error is for one
// that breaks the protocol.
func (l *Line[W]) Hear(s *Session[W], what wire.TurnWhat) error {
	if what != wire.TurnAsk && what != wire.TurnOver {
		return fmt.Errorf("turn: the first worker sent %v, expected %v or %v", Event(what), Ask, Over)
	}
	if _, err := s.Turn.Step(Event(what)); err != nil {
		return err
	}
	if what == wire.TurnOver {
		l.free(s)
	} else {
		s.own = true
		if !s.queued {
			l.queue(s)
		}
	}
	l.next()
	return nil
}

// MayForward reports whether the next message of s may be forwarded to its workers. It
// puts s into the line, where s stays until Forwarded or Leave, unless the line is empty
// and no session has the turn at a worker of s.
func (l *Line[W]) MayForward(s *Session[W]) bool {
	if len(l.waiting) == 0 && !l.held(s) {
		return true
	}
	if !s.queued {
		l.queue(s)
		l.next()
	}
	for _, before := range l.waiting {
		if before == s {
			break
		}
		if slices.ContainsFunc(s.Workers, func(w W) bool { return slices.Contains(before.Workers, w) }) {
			return false
		}
	}
	return !l.held(s)
}

// Forwarded takes s out of the line: its message was sent to all of its workers.
func (l *Line[W]) Forwarded(s *Session[W]) {
	if s.queued {
		l.dequeue(s)
		l.next()
	}
}

// held reports whether a session has the turn at one of s's workers.
func (l *Line[W]) held(s *Session[W]) bool {
	return slices.ContainsFunc(s.Workers, func(w W) bool { return l.holder[w] != nil })
}

func (l *Line[W]) queue(s *Session[W]) {
	s.queued = true
	l.waiting = append(l.waiting, s)
}

func (l *Line[W]) dequeue(s *Session[W]) {
	if s.queued {
		s.queued = false
		l.waiting = slices.DeleteFunc(l.waiting, func(x *Session[W]) bool { return x == s })
	}
}

// free ends the turn of s at its workers.
func (l *Line[W]) free(s *Session[W]) {
	for _, w := range s.Workers {
		if l.holder[w] == s {
			delete(l.holder, w)
		}
	}
}

// next gives the turn to each session in the line that can have it, and asks open turns
// back that keep others waiting.
func (l *Line[W]) next() {
	if len(l.waiting) == 0 {
		return
	}
	var wanted []W
	for _, s := range slices.Clone(l.waiting) {
		free := true
		for _, w := range s.Workers {
			if h := l.holder[w]; h != nil {
				free = false
				l.askBack(h)
			}
			free = free && !slices.Contains(wanted, w)
		}
		if free && s.own {
			l.give(s)
			continue
		}
		wanted = append(wanted, s.Workers...)
	}
}

func (l *Line[W]) give(s *Session[W]) {
	l.dequeue(s)
	what := wire.TurnOpen
	if l.Contended(s) {
		what = wire.TurnOne
	}
	// it has asked: only such sessions are own and in the line
	_, _ = s.Turn.Step(Event(what))
	for _, w := range s.Workers {
		l.holder[w] = s
	}
	l.say(s, what)
}

// askBack asks a session to end its turn, if that is open.
func (l *Line[W]) askBack(s *Session[W]) {
	if s.Turn.State == HasOpen {
		_, _ = s.Turn.Step(Back)
		l.say(s, wire.TurnBack)
	}
}
