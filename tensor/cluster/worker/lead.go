package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/turn"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// lead is the connections and the turns of a session of several workers of this host,
// whose client is here too: a connection from the client to the first worker, and one
// from that to each of the others. The first worker passes a message on to all others and
// then handles it; the others handle the messages of that connection. So all have the
// same messages in the same order.
//
//	client ══ Run ══▶ worker 0 ═╤═ Run ══▶ worker 1 ── Done ──▶ dispatcher ──▶ client
//	       ◀═ Done ══           ╘═ Run ══▶ worker 2
//
// Later workers send Done only for a part of a result, a synced or failed Run, or memory
// to give back.
//
// The dispatcher decides when, by giving turns (package turn). While a session has the
// turn at a worker, the worker leaves the messages of other sessions of several workers
// alone. The first worker ends the turn with Over, first to the others, on the
// connections of the messages and after them, and then to the dispatcher. A session
// without such connections has no turns.
type lead struct {
	env     *env
	session uint64
	turn    turn.Turn
	in      inlet // from the client, or from the first worker
	// to the other workers; join's goroutine stores them before the team is ready and the
	// client is told, and the worker's goroutine uses them in turns, which come later
	others []localConn
}

func newLead(e *env, session uint64, rank int) *lead {
	t := &lead{env: e, session: session, turn: turn.Turn{Role: turn.Other}}
	if rank == 0 {
		t.turn.Role = turn.First
	}
	return t
}

// first reports whether this is the session's first worker.
func (t *lead) first() bool { return t.turn.Role == turn.First }

// step changes the state of the turn, and says that it is over if the change does. While
// the session has the turn, it is the holder of turns at this worker. A message that was
// ready, and has not begun when the turn ends, waits for the next turn.
func (t *lead) step(ctx context.Context, e turn.Event) error {
	over, err := t.turn.Step(e)
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if turns := &t.env.turns; t.turn.Held() {
		turns.holder = t
	} else if turns.holder == t {
		turns.holder = nil
		t.in.ready = false
	}
	if !over {
		return nil
	}
	m := wire.Turn{Session: t.session, What: wire.TurnOver}
	body := wire.Append(nil, &m)
	for _, c := range t.others {
		if err := pass(ctx, c, ipc.Message{Kind: wire.KindTurn, Body: body}); err != nil {
			return err
		}
	}
	return t.say(ctx, wire.TurnOver)
}

// say sends a Turn message to the dispatcher.
func (t *lead) say(ctx context.Context, what wire.TurnWhat) error {
	m := wire.Turn{Session: t.session, What: what}
	return t.env.out.send(ctx, wire.KindTurn, &m)
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
	return t.in.receive() && (t.in.ready || t.mayBegin() && t.in.admit()) || t.in.err != nil
}

// mayBegin reports whether the message that the connection holds can begin.
func (t *lead) mayBegin() bool {
	if !t.turn.MayRun() {
		t.env.turns.asking = t.env.turns.asking || t.wants()
		return false
	}
	return !slices.ContainsFunc(t.others, func(c localConn) bool { return !c.CanSend(len(t.in.msg.Body)) })
}

// wants reports whether the worker must ask for a turn: a message of the client waits for
// one, and there is room for its answer. A client that reads no answers would keep a turn
// that is of no use to it, and a turn for one message is never asked back. The room does
// not shrink before the turn, because answers on this connection are sent in the
// session's turns only.
func (t *lead) wants() bool {
	return t.first() && t.turn.State == turn.Idle && t.in.held && t.in.local.CanSend(ipc.MaxMessage)
}

// ask asks for a turn if the session needs one.
func (t *lead) ask(ctx context.Context) error {
	if !t.wants() {
		return nil
	}
	if err := t.step(ctx, turn.Ask); err != nil {
		return err
	}
	return t.say(ctx, wire.TurnAsk)
}

// hear handles a Turn message of the dispatcher.
func (t *lead) hear(ctx context.Context, m wire.Turn) error {
	begins := m.What == wire.TurnOne || m.What == wire.TurnOpen
	if !begins && m.What != wire.TurnBack || begins && t.env.turns.holder != nil {
		return fmt.Errorf("%w: %v from the dispatcher while the session's turn is %v, and another session's: %v",
			errProtocol, turn.Event(m.What), t.turn.State, t.env.turns.holder != nil)
	}
	return t.step(ctx, turn.Event(m.What))
}

// begin is called before the message that the connection holds is handled. The first
// worker passes the message on, and another worker handles Over. done reports whether
// there is nothing else to do about the message, which is so also with an error.
func (t *lead) begin(ctx context.Context, m *ipc.Message) (done bool, err error) {
	if !t.first() {
		if m.Kind != wire.KindTurn {
			return false, nil
		}
		var over wire.Turn
		if err := wire.Parse(m.Body, &over); err != nil {
			return true, fmt.Errorf("%w: %w", errProtocol, err)
		}
		if over.What != wire.TurnOver {
			return true, fmt.Errorf("%w: %v from the first worker, expected Over", errProtocol, turn.Event(over.What))
		}
		return true, t.step(ctx, turn.Over)
	}
	switch {
	case !t.turn.MayRun():
		return false, nil // it has begun, and is not done
	case !slices.Contains(passed, m.Kind):
		return false, nil // to be refused
	}
	for _, c := range t.others {
		if err := pass(ctx, c, *m); err != nil {
			return true, err
		}
	}
	return false, t.step(ctx, turn.Pass)
}

// passed are the kinds of messages that the first worker passes on.
var passed = []uint32{wire.KindSegment, wire.KindBody, wire.KindRun, wire.KindSave}

// pass sends a message to another worker. The error is errTeam if that worker is gone.
func pass(ctx context.Context, c localConn, m ipc.Message) error {
	switch err := ipc.Send(ctx, c, m); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ipc.ContextError(ctx)
	default:
		return fmt.Errorf("%w: %w", errTeam, err)
	}
}

// finish is called after a message of the connection was handled.
func (t *lead) finish(ctx context.Context) error {
	if !t.first() {
		return nil
	}
	return t.step(ctx, turn.Done)
}

// lost closes the inlet, whose connection has ended with an error. At the first worker
// the client is gone: the turn ends with Over. At another worker the first worker is gone
// or has given the session up: this worker keeps the turn until CloseSession. Another
// worker may wait for this one in this session's collective. It would wait for ever if
// this one went on to another session's collective.
func (t *lead) lost(ctx context.Context) error {
	err := t.in.err
	t.in.close()
	if err := inletError(err); err != nil {
		return err
	}
	if !t.first() {
		return nil
	}
	return t.step(ctx, turn.Lose)
}

// close closes the connection, and lets this worker begin other sessions' turns.
func (t *lead) close() {
	t.in.close()
	if t.env.turns.holder == t {
		t.env.turns.holder = nil
	}
}
