package dispatcher

import (
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/turn"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Sessions of several workers take turns as package turn describes, in the order of
// d.line. A session of one worker takes no turns.

// hearTurn handles a Turn of a session's first worker.
func (d *Dispatcher) hearTurn(p *peer, m *ipc.Message) {
	var what wire.Turn
	if !d.parse(p, m, &what) {
		return
	}
	s := p.sessions[what.Session]
	switch {
	case s == nil: // it ended meanwhile
	case s.turn == nil || !s.direct || p != s.workers[0]:
		d.misbehaves(p, fmt.Sprintf("%v for session %d, want it from the first worker of a session with connections of its own",
			turn.Event(what.What), s.id))
	default:
		if err := d.line.Hear(s.turn, what.What); err != nil {
			d.misbehaves(p, fmt.Sprintf("session %d: %v", s.id, err))
		}
	}
}

// sayTurn tells the workers of a session what the line says: all of them that it has the
// turn, the first that the turn is asked back.
func (d *Dispatcher) sayTurn(s *turn.Session[*peer], what wire.TurnWhat) {
	to := s.Workers
	if what == wire.TurnBack {
		to = to[:1]
	} else {
		d.stats.turns.Add(1)
	}
	for _, w := range to {
		w.send(wire.KindTurn, wire.Append(nil, &wire.Turn{Session: s.ID, What: what}), s.ID, nil)
	}
}
