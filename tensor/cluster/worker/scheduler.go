package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	// At most maxSorted messages are read between two that are handled. Messages of
	// stopped sessions do not count: few more can come, and they may hide the first
	// message of another session. maxHeld bounds those too; it is more than a queue of
	// the default size has.
	maxSorted = 256
	maxHeld   = 64 << 10

	// sortFor is how long the worker handles messages that open, end and stop sessions,
	// and lets go of connections that have ended, between two messages of sessions. When
	// very many clients come and go at once, the other clients' steps go on.
	sortFor = time.Millisecond

	// lookEvery is how long the messages of an only session are handled where they lie,
	// without a look at the messages after them, such as a session that another client
	// opens.
	lookEvery = time.Millisecond

	// messageTime is what a message costs a session besides the time it takes.
	messageTime = time.Microsecond
)

// scheduler decides which session's message the worker handles next, by fair queueing: it
// is the session that has used the least of the worker's time. A session that had no
// message and has one now counts as having used at least as much as the session that was
// chosen last.
//
// Sessions of several workers wait for each other's workers. Among those each worker
// keeps to the order in which their messages came, or the Turn messages that begin their
// turns. It is the dispatcher's order, and so the same on all workers. The session that
// is first in that order is first on all of its workers, and waits for nothing that is
// not done. The dispatcher keeps the workers from getting far ahead of each other
// (runPending in its forward.go, and turn.Line.Contended).
//
// With a single session messages are handled in the queue, for there is no session to
// share with. The dispatcher may have filled the queue with long batches: now and then
// the queue is emptied nevertheless, so that another client's session opens before all of
// them.
type scheduler struct {
	sessions  map[uint64]session
	ready     []session   // those with a backlog
	connected []connected // those with an inlet

	msg      ipc.Message // the dispatcher's oldest message, if held
	held     bool
	deferred []ipc.Message // those that came while their session waited, oldest first
	body     []byte        // of one that is handled without being sorted
	lost     error         // why the dispatcher is gone
	broken   bool          // an inlet has an error
	arrived  uint64        // number of messages that were put into backlogs
	looked   time.Time     // when the queue was last emptied
	clock    time.Duration // what the session that was chosen last had used before that
	chosen   uint64        // the session that was chosen last
	further  int           // of its messages, that are handled before another is chosen
}

// step reads the messages that have come, and handles one. It waits if there is none.
func (w *Worker) step(ctx context.Context) error {
	if err := ipc.ContextError(ctx); err != nil {
		return err
	}
	if len(w.deferred) > 0 {
		if err := w.takeDeferred(ctx); err != nil {
			return err
		}
	}
	if w.runnable() {
		w.poll()
	} else if err := w.waiter.Wait(ctx, w.polls); err != nil {
		return err
	}
	if w.lost != nil {
		return w.lost
	}
	if w.seeker.done() {
		if err := w.seeker.join(ctx); err != nil {
			return err
		}
	}
	if w.held {
		if err := w.take(ctx); err != nil {
			return err
		}
	}
	if w.broken {
		if err := w.endBroken(ctx); err != nil {
			return err
		}
	}
	if w.turns.asking {
		w.turns.asking = false
		for _, s := range w.connected {
			if err := s.ask(ctx); err != nil {
				return err
			}
		}
	}
	if w.trimmer.due.Load() {
		w.trimUnused()
	}
	return w.next(ctx)
}

// runnable reports whether the first message of some backlog can be handled now.
func (w *Worker) runnable() bool {
	return slices.ContainsFunc(w.ready, func(s session) bool { return !s.core().together() || w.turns.holder == nil })
}

// poll finds something to do besides backlogs: the dispatcher's next message, or one of
// an inlet.
func (w *Worker) poll() (found bool) {
	w.out.deliver()
	if !w.held {
		if w.msg, w.held, w.lost = w.seeker.hear(); w.lost != nil {
			return true
		}
	}
	for _, s := range w.connected {
		in := s.inlet()
		had := in.held
		found = s.poll() || found
		if !had && in.held {
			c := s.core()
			c.backlog.used = max(c.backlog.used, w.clock) // as the others
		}
		w.broken = w.broken || in.err != nil
	}
	return found || w.held || w.turns.asking || w.trimmer.due.Load() || w.seeker.done()
}

// take handles the dispatcher's message, or sorts it and those after it.
func (w *Worker) take(ctx context.Context) error {
	var err error
	alone := len(w.sessions) < 2 && len(w.ready) == 0 && w.turns.holder == nil
	if alone {
		// It is given back first, so that the worker can receive others while it listens.
		m := w.msg
		w.body = append(w.body[:0], m.Body...)
		m.Body = w.body
		w.out.conn.Release()
		w.msg, w.held = ipc.Message{}, false
		if err = w.handle(ctx, &m); errors.Is(err, errAgain) {
			id, _ := wire.Session(m.Body)
			err = nil
			w.again(w.sessions[id], waiting{Message: ipc.Message{Kind: m.Kind, Body: slices.Clone(m.Body)}})
		}
		ipc.CloseFiles(m.Files)
	} else {
		err = w.sort(ctx, &w.msg)
		ipc.CloseFiles(w.msg.Files)
		w.out.conn.Release()
		w.msg, w.held = ipc.Message{}, false
	}
	if err == nil && (!alone || len(w.sessions) > 1 || time.Since(w.looked) >= lookEvery) {
		err = w.takeAll(ctx)
	}
	return err
}

// takeDeferred handles the messages that came while the worker waited for their session.
func (w *Worker) takeDeferred(ctx context.Context) (err error) {
	all := w.deferred
	w.deferred = nil
	for i := range all {
		if err == nil {
			err = w.handle(ctx, &all[i])
		}
		ipc.CloseFiles(all[i].Files)
	}
	return err
}

// takeAll sorts the messages that have come.
func (w *Worker) takeAll(ctx context.Context) error {
	if len(w.deferred) > 0 { // they are first
		return nil
	}
	w.looked = time.Now()
	spent := time.Duration(0) // on messages that are handled at once
	for sorted, held := 0, 0; sorted < maxSorted && held < maxHeld && spent < sortFor; {
		m, ok, err := w.out.conn.TryRecv()
		if !ok || err != nil {
			return err
		}
		if id, _ := wire.Session(m.Body); w.sessions[id] != nil && w.sessions[id].core().backlog.stopped {
			held++
		} else {
			sorted++
		}
		began := time.Now()
		err = w.sort(ctx, &m)
		if atOnce(&m) {
			spent += time.Since(began)
		}
		ipc.CloseFiles(m.Files)
		w.out.conn.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// atOnce reports whether a message skips its session's backlog: those that open, end and
// stop sessions, Fail, Meet, Link, Watch, Show, and the Turn message Back.
func atOnce(m *ipc.Message) bool {
	switch m.Kind {
	case wire.KindTurn:
		var turn wire.Turn
		return wire.Parse(m.Body, &turn) == nil && turn.What == wire.TurnBack
	case wire.KindOpenSession, wire.KindCloseSession, wire.KindStop, wire.KindFail, wire.KindMeet, wire.KindLink, wire.KindWatch, wire.KindShow:
		return true
	}
	return false
}

// sort puts a message into its session's backlog, or handles it at once.
func (w *Worker) sort(ctx context.Context, m *ipc.Message) error {
	id, ok := wire.Session(m.Body)
	s := w.sessions[id]
	if !ok || s == nil || atOnce(m) {
		return w.handle(ctx, m)
	}
	b := &s.core().backlog
	if len(b.waiting) == 0 {
		b.used = max(b.used, w.clock)
		w.ready = append(w.ready, s)
	}
	w.arrived++
	b.push(waiting{w.arrived, ipc.Message{Kind: m.Kind, Body: slices.Clone(m.Body), Files: m.Files}})
	m.Files = nil
	if !b.stopped && b.long() {
		return s.core().flow(ctx, true)
	}
	return nil
}

// next handles the oldest message of the session that has used the least, if any has one.
func (w *Worker) next(ctx context.Context) error {
	if len(w.ready) == 0 && len(w.sessions) == 1 && len(w.connected) == 1 {
		if s := w.connected[0]; s.inlet().ready { // no session to share with
			return w.handleInlet(ctx, s)
		}
	}
	s, x := w.stay()
	if s == nil && x == nil {
		s, x = w.choose()
		w.further = w.o.Batch - 1
	}
	switch {
	case x != nil:
		w.chosen = x.core().id
		b := &x.core().backlog
		w.clock = b.used
		began := time.Now()
		err := w.handleInlet(ctx, x)
		b.used += time.Since(began) + messageTime
		return err
	case s != nil:
		w.chosen = s.core().id
		w.clock = s.core().backlog.used
		return w.handleOldest(ctx, s)
	}
	return nil
}

// stay returns the session that was chosen last if it has a message and has not had
// Options.Batch of them: byInlet if the message is that of its inlet.
func (w *scheduler) stay() (s session, byInlet connected) {
	if w.further == 0 {
		return nil, nil
	}
	w.further--
	last := w.sessions[w.chosen]
	if last == nil || last.core().together() {
		return nil, nil
	}
	if x, ok := last.(connected); ok && slices.Contains(w.connected, x) && x.inlet().ready {
		return nil, x
	}
	if slices.Contains(w.ready, last) {
		return last, nil
	}
	return nil, nil
}

// choose returns the session that is next: byInlet if the message is that of its inlet,
// otherwise s, with a message in its backlog.
func (w *Worker) choose() (s session, byInlet connected) {
	least := time.Duration(0)
	for _, x := range w.connected {
		if used := x.core().backlog.used; x.inlet().ready && (byInlet == nil || used < least) {
			byInlet, least = x, used
		}
	}
	var first session // of those of several workers, the one with the oldest message
	for _, x := range w.ready {
		b := &x.core().backlog
		if !x.core().together() {
			if s == nil && byInlet == nil || b.used < least {
				s, byInlet, least = x, nil, b.used
			}
		} else if w.turns.holder == nil && (first == nil || b.waiting[0].number < first.core().backlog.waiting[0].number) {
			first = x
		}
	}
	if first != nil && (s == nil && byInlet == nil || first.core().backlog.used < least) {
		return first, nil
	}
	return s, byInlet
}

// handleOldest handles the oldest message of a session's backlog.
func (w *Worker) handleOldest(ctx context.Context, s session) error {
	c := s.core()
	began := time.Now()
	q := c.backlog.pop()
	if len(c.backlog.waiting) == 0 {
		w.idle(s)
	}
	err := w.handle(ctx, &q.Message)
	ipc.CloseFiles(q.Files)
	if errors.Is(err, errAgain) {
		err = nil
		w.again(s, q)
	}
	c.backlog.used += time.Since(began) + messageTime
	if err == nil && c.backlog.stopped && c.backlog.short() && w.sessions[c.id] == s {
		err = c.flow(ctx, false)
	}
	return err
}

// again puts a message that is not done before the others of its session.
func (w *Worker) again(s session, q waiting) {
	w.looked = time.Time{} // the message may wait for one that has come
	b := &s.core().backlog
	if len(b.waiting) == 0 {
		w.ready = append(w.ready, s)
	}
	b.putBack(q)
}

// idle takes a session without a backlog off the list.
func (w *Worker) idle(s session) {
	w.ready = slices.DeleteFunc(w.ready, func(x session) bool { return x == s })
}

// handleInlet handles the message of a session's inlet.
func (w *Worker) handleInlet(ctx context.Context, s connected) error {
	if w.monitor.on {
		m := &s.inlet().msg
		defer w.measure(time.Now(), m.Kind, s.core().id, len(m.Body))
	}
	err := s.handleInlet(ctx)
	if ends(err) {
		return w.failSession(ctx, s, err)
	}
	return err
}

// endBroken lets go of inlets that have errors, and fails the sessions whose clients
// broke the protocol there.
func (w *Worker) endBroken(ctx context.Context) error {
	w.broken = false
	began := time.Now()
	for _, s := range slices.Clone(w.connected) {
		if s.inlet().err == nil {
			continue
		}
		if time.Since(began) >= sortFor {
			w.broken = true // the others wait for the next step
			return nil
		}
		w.disown(s)
		if err := s.lost(ctx); ends(err) {
			if err := w.failSession(ctx, s, err); err != nil {
				return err
			}
		} else if err != nil {
			return err
		} else if d, ok := s.(*direct); ok && d.alone {
			w.endSession(d)
			release(w, d.id)
			if err := w.seeker.tellOver(ctx, d.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// disown takes a session off the list of those with inlets.
func (w *Worker) disown(s session) {
	w.connected = slices.DeleteFunc(w.connected, func(x connected) bool { return session(x) == s })
}
