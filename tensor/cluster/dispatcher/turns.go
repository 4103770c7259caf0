package dispatcher

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Sessions of several workers can't take turns in the workers, which must all do the same in the same order. So they take them here.
//
// A session of workers of this host whose client is here too has conns of its own: from the client to the first worker, and from that to
// the others. Its messages don't come through here, and it has the turn, at all of its workers at once, when they are done: for one
// message where its workers have other such sessions, else until one of those wants it. It asks when it has a message and no turn. Two
// sessions that share a worker never have it at the same time.
//
//	first worker            dispatcher               all workers
//	    ── Turn: ask ───────────▶  ── Turn: one, or open ─▶    when none of them is somebody else's
//	    ◀─────── Turn: back ─────                              when it is open and others ask
//	    ── Turn: over ──────────▶                              what is done now is on its way to all of them
//
// All others have their messages forwarded to all workers, each at most one Run that has not begun (wire.RunTurn), and not while somebody
// has the turn at one of them. They stand in the same line.
//
// # The same order everywhere
//
// A worker begins what needs others in the order in which it hears of it from here: messages that are forwarded, and words that a turn
// begins. From such a word on it does that session's messages alone, of those that need others, until the one that says that the turn
// is over, on the conn that the messages came over. What is sent from here goes to all workers of a session, or is held back for all,
// before anything that is sent later to any of them. And a turn begins only when the one before it, at any of the workers, is known to be
// over: its messages are in the queues of all its workers by then. So there is one order of all turns and forwarded messages, which every
// worker keeps to as far as they are its own, and what is first in it waits for nothing that is not done.

// hearTurn handles what the first worker of a session says about turns.
func (d *Dispatcher) hearTurn(p *peer, m *ipc.Message) {
	var turn wire.Turn
	if err := wire.ParseTurn(m.Body, &turn); err != nil {
		d.misbehaves(p, err.Error())
		return
	}
	s := p.sessions[turn.Session]
	switch {
	case s == nil: // it ended meanwhile
	case turn.What == wire.TurnAsk && s.direct && p == s.workers[0] && !s.waits && !s.hasTurn:
		s.own, s.waits = true, true
		d.line = append(d.line, s)
		d.nextTurns()
	case turn.What == wire.TurnOver && s.hasTurn && p == s.workers[0]:
		d.endTurn(s)
		d.nextTurns()
	default:
		d.misbehaves(p, fmt.Sprintf("Turn %d for session %d, which has a turn: %v, asked for one: %v, has the worker as its first: %v",
			turn.What, s.id, s.hasTurn, s.waits, p == s.workers[0]))
	}
}

// nextTurns gives the turn, oldest first, to each session in the line none of whose workers has a holder or is wanted by one before it.
func (d *Dispatcher) nextTurns() {
	if len(d.line) == 0 {
		return
	}
	var wanted []*peer
	d.line = slices.DeleteFunc(d.line, func(s *session) bool {
		free := true
		for _, w := range s.workers {
			if w.holder != nil {
				free = false
				d.askBack(w.holder)
			}
			free = free && !slices.Contains(wanted, w)
		}
		if free && s.own {
			d.giveTurn(s)
			return true
		}
		wanted = append(wanted, s.workers...)
		return false
	})
}

// giveTurn gives s the turn.
func (d *Dispatcher) giveTurn(s *session) {
	s.waits, s.hasTurn, s.askedBack = false, true, false
	d.stats.turns.Add(1)
	word := wire.Turn{Session: s.id, What: wire.TurnOpen}
	if s.contended() {
		word.What, s.askedBack = wire.TurnOne, true
	}
	for _, w := range s.workers {
		w.holder = s
		w.send(wire.KindTurn, wire.AppendTurn(nil, &word), s.id, nil)
	}
}

// askBack asks the session that has an open turn to end it.
func (d *Dispatcher) askBack(s *session) {
	if s.askedBack {
		return
	}
	s.askedBack = true
	s.workers[0].send(wire.KindTurn, wire.AppendTurn(nil, &wire.Turn{Session: s.id, What: wire.TurnBack}), s.id, nil)
}

// endTurn ends a session's turn.
func (d *Dispatcher) endTurn(s *session) {
	s.hasTurn = false
	for _, w := range s.workers {
		w.holder = nil
	}
}

// mayForward reports whether the next message of s may be forwarded to its workers: none of them has a holder or is wanted by a session before
// s in the line. If not, s stands in the line from now on, until leave.
func (d *Dispatcher) mayForward(s *session) bool {
	if !s.waits && !slices.ContainsFunc(s.workers, func(w *peer) bool { return w.holder != nil }) && len(d.line) == 0 {
		return true
	}
	if !s.waits {
		s.waits = true
		d.line = append(d.line, s)
		d.nextTurns()
	}
	for _, before := range d.line {
		if before == s {
			break
		}
		if slices.ContainsFunc(s.workers, func(w *peer) bool { return slices.Contains(before.workers, w) }) {
			return false
		}
	}
	return !slices.ContainsFunc(s.workers, func(w *peer) bool { return w.holder != nil })
}

// leave takes s out of the line, and lets those behind it go on.
func (d *Dispatcher) leave(s *session) {
	if !s.waits {
		return
	}
	s.waits = false
	d.line = slices.DeleteFunc(d.line, func(x *session) bool { return x == s })
	d.nextTurns()
}
