package worker

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	// maxBacklog and maxBacklogBytes are how much of one session may wait here before the
	// dispatcher is told to hold it back. What the dispatcher had already sent comes on top: at
	// most its queue to us. They are more than a client that waits for answers sends ahead.
	maxBacklog      = 64
	maxBacklogBytes = 256 << 10

	// maxSorted bounds how many messages are taken in between two that are done, beside those of sessions that are held back:
	// of these no more come than are on their way, and behind them may be somebody's first. maxHeld is more than a
	// queue of the default size has.
	maxSorted = 256
	maxHeld   = 64 << 10

	// lookEvery is how long the messages of an only session are done where they lie, without a look at what is behind them:
	// a session that another client opens.
	lookEvery = time.Millisecond

	// messageTime is what a message costs a session beside the time it takes.
	messageTime = time.Microsecond
)

// waiting is a message that waits for its session's turn. It owns its files.
type waiting struct {
	at    uint64 // counts what came
	kind  uint32
	body  []byte
	files []*os.File
}

// step takes in what has come, and does one message. What comes over a session's own conn is done where it lies. Of the
// dispatcher's messages too, with a single session, for there is nobody to share with; but it may have filled the queue to us with long
// batches, and so that another client need not wait for all of them to have its session opened, now and then the queue is emptied all
// the same.
//
// Otherwise it is fair queueing by time: of the sessions with a message the one that has used the least
// is next. One that had none starts where the others are.
//
// Sessions that several workers share wait for each other's workers. Among those each worker keeps to the order in which the
// messages came, or the word that a session has its turn, which is the dispatcher's and so everywhere the same: what came first to any worker waits
// for nothing but what is done already. That none of them sends far ahead of the others is the dispatcher's business (its turns.go).
func (w *Worker) step(ctx context.Context) error {
	if err := ipc.ContextError(ctx); err != nil {
		return err
	}
	if w.mayTurn() {
		w.lookAround()
	} else if err := w.waiter.Wait(ctx, w.look); err != nil {
		return err
	}
	if w.lost != nil {
		return w.lost
	}
	if w.held {
		if err := w.take(ctx); err != nil {
			return err
		}
	}
	if w.broken {
		if err := w.endOwned(ctx); err != nil {
			return err
		}
	}
	if w.asking {
		if err := w.ask(ctx); err != nil {
			return err
		}
	}
	return w.turn(ctx)
}

// mayTurn reports whether a session with a backlog can have its turn.
func (w *Worker) mayTurn() bool {
	for _, s := range w.ready {
		if s.shared == nil || w.holder == nil {
			return true
		}
	}
	return false
}

// lookAround finds what there is to do, beside backlogs: the dispatcher's next message, or one of a session's own conn.
func (w *Worker) lookAround() bool {
	w.deliver()
	if !w.held {
		var err error
		if w.msg, w.held, err = w.conn.TryRecv(); err != nil {
			w.lost = err
			return true
		}
	}
	return w.lookAll() || w.held
}

// take does the dispatcher's message, or sorts it and what is behind it.
func (w *Worker) take(ctx context.Context) error {
	var err error
	alone := len(w.sessions) < 2 && len(w.ready) == 0 && w.holder == nil // else it may be its next turn
	if alone {
		if err = w.handle(ctx, &w.msg); errors.Is(err, errAgain) {
			id, _ := wire.Session(w.msg.Body)
			err = nil
			w.again(w.sessions[id], waiting{kind: w.msg.Kind, body: slices.Clone(w.msg.Body)})
		}
	} else {
		err = w.sort(ctx, &w.msg)
	}
	ipc.CloseFiles(w.msg.Files)
	w.conn.Release()
	w.msg, w.held = ipc.Message{}, false
	if err == nil && (!alone || w.shouldLook()) {
		err = w.takeIn(ctx)
	}
	return err
}

// shouldLook reports whether it is time to take in what has come.
func (w *Worker) shouldLook() bool {
	return len(w.sessions) > 1 || time.Since(w.looked) >= lookEvery
}

// takeIn sorts what has come.
func (w *Worker) takeIn(ctx context.Context) error {
	w.looked = time.Now()
	for sorted, held := 0, 0; sorted < maxSorted && held < maxHeld; {
		m, ok, err := w.conn.TryRecv()
		if !ok || err != nil {
			return err
		}
		if id, _ := wire.Session(m.Body); w.sessions[id] != nil && w.sessions[id].stopped {
			held++
		} else {
			sorted++
		}
		err = w.sort(ctx, &m)
		ipc.CloseFiles(m.Files)
		w.conn.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// sort puts a message into its session's backlog, or does it at once if it is about sessions.
func (w *Worker) sort(ctx context.Context, m *ipc.Message) error {
	id, ok := wire.Session(m.Body)
	s := w.sessions[id]
	switch m.Kind {
	case wire.KindTurn:
		var turn wire.Turn
		if wire.ParseTurn(m.Body, &turn) == nil && turn.What == wire.TurnBack {
			s = nil
		}
	case wire.KindOpenSession, wire.KindCloseSession, wire.KindFail, wire.KindMeet, wire.KindLink, wire.KindWatch:
		s = nil
	}
	if !ok || s == nil {
		return w.handle(ctx, m)
	}
	if len(s.backlog) == 0 {
		s.used = max(s.used, w.clock)
		w.ready = append(w.ready, s)
	}
	w.arrived++
	s.backlog = append(s.backlog, waiting{w.arrived, m.Kind, slices.Clone(m.Body), m.Files})
	s.backlogB += len(m.Body)
	m.Files = nil
	if !s.stopped && (len(s.backlog) >= maxBacklog || s.backlogB >= maxBacklogBytes) {
		return s.flow(ctx, true)
	}
	return nil
}

// turn does the oldest message of the session that has used the least, if any has one.
func (w *Worker) turn(ctx context.Context) error {
	if len(w.ready) == 0 && len(w.sessions) == 1 && len(w.owned) == 1 {
		if s := w.owned[0]; s.direct.ready { // nobody to share with
			return w.doOwn(ctx, s)
		}
	}
	var s, first *session
	for _, x := range w.owned {
		if x.direct.ready && (s == nil || x.used < s.used) {
			s = x
		}
	}
	for _, x := range w.ready {
		if x.shared == nil {
			if s == nil || x.used < s.used {
				s = x
			}
		} else if w.holder == nil && (first == nil || x.backlog[0].at < first.backlog[0].at) {
			first = x
		}
	}
	if s == nil || first != nil && first.used < s.used {
		s = first
	}
	if s == nil {
		return nil
	}
	w.clock = s.used
	began := time.Now()
	if s.direct != nil && s.direct.ready {
		err := w.doOwn(ctx, s)
		s.used += time.Since(began) + messageTime
		return err
	}
	q := s.backlog[0]
	s.backlog[0] = waiting{}
	s.backlog = s.backlog[1:]
	s.backlogB -= len(q.body)
	if len(s.backlog) == 0 {
		w.idle(s)
	}
	m := ipc.Message{Kind: q.kind, Body: q.body, Files: q.files}
	err := w.handle(ctx, &m)
	ipc.CloseFiles(m.Files)
	if errors.Is(err, errAgain) {
		err = nil
		w.again(s, q)
	}
	s.used += time.Since(began) + messageTime
	if err == nil && s.stopped && len(s.backlog) <= maxBacklog/2 && s.backlogB <= maxBacklogBytes/2 && w.sessions[s.id] == s {
		err = s.flow(ctx, false)
	}
	return err
}

// again puts a message that is not done back in front of the session's others. Its files were taken or closed.
func (w *Worker) again(s *session, q waiting) {
	w.looked = time.Time{} // for what it waits for may have come
	q.files = nil
	if len(s.backlog) == 0 {
		w.ready = append(w.ready, s)
	}
	s.backlog = slices.Insert(s.backlog, 0, q)
	s.backlogB += len(q.body)
}

// idle takes a session without a backlog off the list.
func (w *Worker) idle(s *session) {
	s.backlog = nil
	w.ready = slices.DeleteFunc(w.ready, func(x *session) bool { return x == s })
}

// flow tells the dispatcher to hold the session's messages back, or to send on.
func (s *session) flow(ctx context.Context, stop bool) error {
	s.stopped = stop
	m := wire.Flow{Session: s.id, Stop: stop}
	return s.w.send(ctx, wire.KindFlow, m.Size(), func(dst []byte) []byte { return wire.AppendFlow(dst, &m) })
}

// drop forgets what waits.
func (s *session) drop() {
	for _, q := range s.backlog {
		ipc.CloseFiles(q.files)
	}
	s.w.idle(s)
	s.backlogB = 0
}
