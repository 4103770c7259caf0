package worker

import (
	"context"
	"fmt"
	"os"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// lead is the connections and the turns of a session of several workers of this host,
// whose client is here too: a connection from the client to the first worker, and one
// from that to each of the others. The first worker passes a message on to all others and
// then handles it; the others handle the messages of that connection. So all have the
// same messages in the same order.
//
//	client ══ Run ══▶ worker 0 ═╤═ Run ══▶ worker 1 ── Done ──▶ dispatcher ──▶ client,
//	       ◀═ Done ══           ╘═ Run ══▶ worker 2             if it has a part of a result
//
// The dispatcher decides when, by giving turns (its turns.go says why no session waits in
// a circle). For the first worker:
//
//	dispatcher ◀─ ask ── it has a message and no turn
//	           ── one, or open ─▶ and to the others. While a worker holds a turn, it handles
//	                              of the sessions of several workers only that one's messages
//	           ── back ─▶         an open turn is to end, after the message under way
//	           ◀─ over ──         and to the others, behind the messages. They hold the turn
//	                              until they read that, the first until its message is done
//
// A session without such connections has no turns.
type lead struct {
	env     *env
	session uint64
	rank    int
	own     inlet       // from the client, or from the first worker
	others  []localConn // from the first worker; written before the team is ready

	asked  bool // at the first worker: for a turn
	back   bool // at the first worker: the turn was asked back before it began
	has    bool // the session has the turn here, or had it and its message is not done
	one    bool // the turn is for one message
	passed bool // the message under way was passed on
	over   bool // the first worker has said that the turn is over
}

func (t *lead) inlet() *inlet { return &t.own }

// badTurn returns the error of a Turn message that does not match the session's state.
func (t *lead) badTurn(what wire.TurnWhat) error {
	return fmt.Errorf("%w: Turn %d for rank %d, which has a turn: %v, asked for one: %v", errProtocol, what, t.rank, t.has, t.asked)
}

// connectOthers takes the connections that the other workers offer to the first one.
func (t *lead) connectOthers(ctx context.Context, team *team) (err error) {
	defer func() {
		if err != nil {
			for _, c := range t.others {
				_ = c.Close()
			}
			t.others = nil
		}
	}()
	for r := 1; r < team.size(); r++ {
		m, err := team.await(ctx, meetKey{rank: uint32(r), group: groupLead})
		if err != nil {
			return err
		}
		if m.file == nil {
			return fmt.Errorf("rank %d offers none", r)
		}
		c, err := local.New().Take(ctx, m.file, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: t.env.name},
			Waiter: t.env.waiter, Logger: t.env.log})
		if err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		t.others = append(t.others, c.(localConn)) // as every connection of ipc/local
	}
	return nil
}

// conns returns the connections to the other workers.
func (t *lead) conns() []localConn { return t.others }

// poll reports whether a message, or an error, of the session's own connection can be
// handled now: it is the session's turn, and there is room for the message at the other
// workers and for an answer.
func (t *lead) poll() bool {
	return t.own.receive() && (t.own.ready || t.mayBegin() && t.own.admit()) || t.own.err != nil
}

// mayBegin reports whether the message that the connection holds can begin.
func (t *lead) mayBegin() bool {
	if !t.has {
		t.env.turns.asking = t.env.turns.asking || t.rank == 0 && !t.asked
		return false
	}
	if t.over && !t.passed {
		return false // the turn is about to end
	}
	for i := 0; !t.passed && i < len(t.others); i++ {
		if !t.others[i].CanSend(len(t.own.msg.Body)) {
			return false
		}
	}
	return true
}

// ask asks for a turn if the session needs one.
func (t *lead) ask(ctx context.Context) error {
	if t.rank > 0 || t.has || t.asked || !t.own.held {
		return nil
	}
	t.asked = true
	return t.say(ctx, wire.TurnAsk)
}

// say sends a Turn message to the dispatcher.
func (t *lead) say(ctx context.Context, what wire.TurnWhat) error {
	m := wire.Turn{Session: t.session, What: what}
	return t.env.out.send(ctx, wire.KindTurn, m.Size(), func(dst []byte) []byte { return wire.AppendTurn(dst, &m) })
}

// turn handles a Turn message of the dispatcher.
func (t *lead) turn(ctx context.Context, m wire.Turn) error {
	switch {
	case m.What == wire.TurnBack && t.rank == 0:
		if !t.has {
			t.back = true
		} else if !t.over {
			return t.end(ctx)
		}
		return nil
	case (m.What == wire.TurnOne || m.What == wire.TurnOpen) && t.env.turns.holder == nil && t.asked == (t.rank == 0):
		t.env.turns.holder = t
		t.has, t.one = true, m.What == wire.TurnOne || t.back
		t.asked, t.back = false, false
		if t.rank == 0 && !t.own.offered() { // the connection has ended since it asked
			return t.end(ctx)
		}
		return nil
	}
	return t.badTurn(m.What)
}

// begin is called before the message that the connection holds is handled. The first
// worker passes it on. It reports whether there is nothing else to do about the message.
func (t *lead) begin(ctx context.Context, m *ipc.Message) (done bool, err error) {
	if t.rank > 0 {
		if m.Kind != wire.KindTurn {
			return false, nil
		}
		var turn wire.Turn
		if err := wire.ParseTurn(m.Body, &turn); err != nil || turn.What != wire.TurnOver {
			return true, t.badTurn(turn.What)
		}
		t.release()
		return true, nil
	}
	if t.passed {
		return false, nil
	}
	switch m.Kind {
	case wire.KindSegment, wire.KindBody, wire.KindRun, wire.KindSave:
	default:
		return false, nil // to be refused
	}
	for _, c := range t.others {
		if err := pass(ctx, c, m.Kind, m.Body, m.Files); err != nil {
			return true, err
		}
	}
	t.passed = true
	if t.one {
		return false, t.end(ctx)
	}
	return false, nil
}

// pass sends a message to another worker.
func pass(ctx context.Context, c localConn, kind uint32, body []byte, files []*os.File) error {
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

// finish is called after a message of the connection was handled.
func (t *lead) finish() {
	if t.passed = false; t.over {
		t.release()
	}
}

// end says that the turn is over, when all workers have the messages that were passed on.
func (t *lead) end(ctx context.Context) error {
	m := wire.Turn{Session: t.session, What: wire.TurnOver}
	body := wire.AppendTurn(make([]byte, 0, 16), &m)
	for _, c := range t.others {
		if err := pass(ctx, c, wire.KindTurn, body, nil); err != nil {
			return err
		}
	}
	if t.over = true; !t.passed {
		t.release()
	}
	return t.say(ctx, wire.TurnOver)
}

// release ends the turn here. A message that could have begun in it waits for the next
// turn.
func (t *lead) release() {
	t.own.ready = false
	t.has, t.one, t.over = false, false, false
	if t.env.turns.holder == t {
		t.env.turns.holder = nil
	}
}

// lost closes the connection, which has ended with an error. The client, or the first
// worker, is gone, and the dispatcher ends the session soon. Until then the other workers
// hold their turn: another session's worker may wait for what they have not done of it,
// and learns of the end by theirs.
func (t *lead) lost(ctx context.Context) error {
	err := t.own.err
	t.own.close()
	if err := ownError(err); err != nil {
		return err
	}
	if t.rank > 0 || !t.has || t.over {
		return nil
	}
	t.passed = false
	return t.end(ctx)
}
