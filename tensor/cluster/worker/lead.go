package worker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// A session of several workers of this host, whose client is here too, has conns of its own: from the client to the first worker, and
// from that to each of the others. The first passes a message on to all others and then does it; the others do what comes
// over that conn where it lies. So all have the same messages in the same order.
//
//	client ══ Run ══▶ worker 0 ═╤═ Run ══▶ worker 1 ── Done, if it has a part of a result ──▶ dispatcher ──▶ client
//	       ◀═ Done ══           ╘═ Run ══▶ worker 2
//
// The dispatcher decides when, by giving turns (its turns.go says why nobody waits in a circle). From the first's side:
//
//	dispatcher ◀─ ask ── it has a message and no turn
//	           ── one, or open ─▶ and to the others: while a worker holds a turn, it does of what needs several workers
//	                              nothing but that session's messages
//	           ── back ─▶         an open one is to end, after the message under way
//	           ◀─ over ──         and to the others, behind the messages. They hold until they have read that, the first
//	                              until its own message is done
type lead struct {
	others    []roomy // at the first: conns to the others; nil where there are none. Written before the team is ready
	turnAsked bool    // at the first: for a turn
	back      bool    // it was asked back before it began
	hasTurn   bool    // it has the turn here, or had it and is not done
	one       bool    // that is for one message
	passed    bool    // the message under way was passed on
	overSaid  bool    // the first has said so
	bound     bool    // to a core, for its sake
}

// badTurn is the error of a word about a turn that makes no sense here.
func (s *session) badTurn(what wire.TurnWhat) error {
	if s.shared == nil {
		return fmt.Errorf("%w: Turn %d in a session of one worker", errProtocol, what)
	}
	return fmt.Errorf("%w: Turn %d for rank %d, which has a turn: %v, asked for one: %v", errProtocol, what, s.rank, s.hasTurn, s.turnAsked)
}

// offerOwn makes this worker's end of the session's own conns: the first's is the client's to take, and the others' the first's, whom
// they tell in any case. It returns the descriptor for the client.
func (s *session) offerOwn(ctx context.Context) (*os.File, error) {
	var f *os.File
	if local.Is(s.w.conn) {
		f = s.offer()
	}
	if s.rank == 0 {
		return f, nil
	}
	m := wire.Meet{Session: s.id, Rank: uint32(s.rank), Group: groupLead}
	var files []*os.File
	if f != nil {
		defer f.Close()
		s.direct.deaf, files = true, []*os.File{f}
	}
	return nil, s.w.send(ctx, wire.KindMeet, m.Size(), func(dst []byte) []byte { return wire.AppendMeet(dst, &m) }, files...)
}

// takeOthers takes the conns that the others offer to the first; nil if one of them has none.
func (t *team) takeOthers(ctx context.Context, w *Worker) (conns []roomy, err error) {
	defer func() {
		if err != nil {
			for _, c := range conns {
				_ = c.Close()
			}
			conns = nil
		}
	}()
	for r := 1; r < t.size(); r++ {
		said, err := t.listen(ctx, meeting{rank: uint32(r), group: groupLead})
		if err != nil {
			return conns, err
		}
		if said.file == nil {
			return conns, fmt.Errorf("rank %d offers none", r)
		}
		c, err := local.New().Take(ctx, said.file, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: w.o.Name}, Waiter: w.waiter, Logger: w.log})
		if err != nil {
			return conns, fmt.Errorf("rank %d: %w", r, err)
		}
		conns = append(conns, c.(roomy)) // as every conn of ipc/local
	}
	return conns, nil
}

// mayBegin says whether the message that a conn of the session's own holds can be done, by all but room for answers: it is the
// session's turn, and at the first worker there is room for it at the others.
func (s *session) mayBegin() bool {
	if !s.hasTurn {
		s.w.asking = s.w.asking || s.rank == 0 && !s.turnAsked
		return false
	}
	if s.overSaid && !s.passed {
		return false // as in the moment before it holds no more
	}
	for i := 0; !s.passed && i < len(s.others); i++ {
		if !s.others[i].CanSend(len(s.direct.msg.Body)) {
			return false
		}
	}
	return true
}

// ask asks for turns for the sessions that need one.
func (w *Worker) ask(ctx context.Context) error {
	w.asking = false
	for _, s := range w.owned {
		if s.shared == nil || s.rank > 0 || s.hasTurn || s.turnAsked || !s.direct.held {
			continue
		}
		s.turnAsked = true
		if err := s.word(ctx, wire.TurnAsk); err != nil {
			return err
		}
	}
	return nil
}

// word says something about a turn to the dispatcher.
func (s *session) word(ctx context.Context, what wire.TurnWhat) error {
	m := wire.Turn{Session: s.id, What: what}
	return s.w.send(ctx, wire.KindTurn, m.Size(), func(dst []byte) []byte { return wire.AppendTurn(dst, &m) })
}

// hearTurn does what the dispatcher says about a turn.
func (s *session) hearTurn(ctx context.Context, src []byte) error {
	var m wire.Turn
	if err := wire.ParseTurn(src, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if s.shared == nil {
		return s.badTurn(m.What)
	}
	switch {
	case m.What == wire.TurnBack && s.rank == 0:
		if !s.hasTurn {
			s.back = true
		} else if !s.overSaid {
			return s.endTurn(ctx)
		}
		return nil
	case (m.What == wire.TurnOne || m.What == wire.TurnOpen) && s.w.holder == nil && s.turnAsked == (s.rank == 0):
		s.w.holder = s
		s.hasTurn, s.one = true, m.What == wire.TurnOne || s.back
		s.turnAsked, s.back = false, false
		if s.rank == 0 && s.direct == nil { // it has ended since
			return s.endTurn(ctx)
		}
		return nil
	}
	return s.badTurn(m.What)
}

// beginOwn is before the message that a conn of the session's own holds is done. It reports whether there is nothing else to do about it.
func (s *session) beginOwn(ctx context.Context, m *ipc.Message) (done bool, err error) {
	if s.rank > 0 {
		if m.Kind != wire.KindTurn {
			return false, nil
		}
		var turn wire.Turn
		if err := wire.ParseTurn(m.Body, &turn); err != nil || turn.What != wire.TurnOver {
			return true, s.badTurn(turn.What)
		}
		s.letGo()
		return true, nil
	}
	if s.passed {
		return false, nil
	}
	switch m.Kind {
	case wire.KindSegment, wire.KindBody, wire.KindRun, wire.KindSave:
	default:
		return false, nil // to be refused
	}
	for _, c := range s.others {
		if err := pass(ctx, c, m.Kind, m.Body, m.Files); err != nil {
			return true, err
		}
	}
	s.passed = true
	if s.one {
		return false, s.endTurn(ctx)
	}
	return false, nil
}

// pass sends one of the others a message.
func pass(ctx context.Context, c roomy, kind uint32, body []byte, files []*os.File) error {
	buf, err := c.Reserve(ctx, kind, len(body))
	if err == nil {
		copy(buf, body)
		err = c.Commit(files...)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ipc.ContextError(ctx)
	}
	return fmt.Errorf("%w: %w", errTeam, err)
}

// endOwnMessage is after a message of a conn of the session's own is done.
func (s *session) endOwnMessage() {
	if s.passed = false; s.overSaid {
		s.letGo()
	}
}

// endTurn says that the turn is over, once all of them have what was passed on.
func (s *session) endTurn(ctx context.Context) error {
	m := wire.Turn{Session: s.id, What: wire.TurnOver}
	body := wire.AppendTurn(make([]byte, 0, 16), &m)
	for _, c := range s.others {
		if err := pass(ctx, c, wire.KindTurn, body, nil); err != nil {
			return err
		}
	}
	if s.overSaid = true; !s.passed {
		s.letGo()
	}
	return s.word(ctx, wire.TurnOver)
}

// letGo ends the turn here. A message that could have been done in it waits for the next.
func (s *session) letGo() {
	if s.direct != nil {
		s.direct.ready = false
	}
	s.hasTurn, s.one, s.overSaid = false, false, false
	if s.w.holder == s {
		s.w.holder = nil
	}
}

// lostOwn is when a conn of the session's own has ended. The client, or the first worker, is gone; the dispatcher ends the
// session in time. Until then the others hold their turn: what they have not done of it they may be waited for in, and their end
// is how those who wait learn of it.
func (s *session) lostOwn(ctx context.Context) error {
	s.w.disown(s)
	if s.shared == nil || s.rank > 0 || !s.hasTurn || s.overSaid {
		return nil
	}
	s.passed = false
	err := s.endTurn(ctx)
	if errors.Is(err, errTeam) {
		return s.w.failSession(ctx, s, err)
	}
	return err
}
