package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// direct is a session's own conn with its client, who is on this host: the session's messages come and its answers go over it, and
// the dispatcher, which placed the session and ends it, sees none of them.
//
//	client ── OpenSession ──▶ dispatcher ── OpenSession ──▶ worker
//	client ◀─ SessionOpened ─ dispatcher ◀─ SessionOpened ─ worker    with one end of a pair of sockets
//	client ◀═══════ Hello, Welcome; then Run, Done, ... ══▶ worker
//
// The queue of the conn is the session's backlog: a message stays where it lies until its turn, and who sends too much fills his
// own queue. A session whose client reads no answers gets no turn, for there must be room for what a message makes the worker say.
//
// Until the client has taken the conn, and if it never does, the session's messages come through the dispatcher. A message
// is answered where it came from.
type direct struct {
	s      *session
	met    atomic.Pointer[roomy] // the conn, from when the client has taken it until look
	over   atomic.Bool           // the session is
	cancel func()                // the offer

	// The rest is the worker's goroutine's.
	conn  roomy       // nil until the client has taken it, and after its end
	msg   ipc.Message // the oldest message, when held
	held  bool
	ready bool // it can be done now
	asked bool // it is being done: answers go where it came from,
	deaf  bool // unless who is there has no use for them
	err   error
}

// roomy is a conn of package ipc/local.
type roomy interface {
	ipc.Conn
	CanSend(n int) bool
}

// offerTimeout is how long a session's own conn may be taken: the session's other workers may take a while until it is open.
const offerTimeout = joinTimeout + ipc.DefaultHandshakeTimeout

// errUnread is that a client has not read its answers for so long that there is no room for more.
var errUnread = errors.New("the client reads no answers")

// offer makes the session's own conn, of which the client gets the descriptor; nil when there is to be none.
func (s *session) offer() *os.File {
	w, o := s.w, &direct{s: s}
	w.leaving.Add(1)
	theirs, cancel, err := local.New().Offer(&ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: w.o.Name}, Waiter: w.waiter, Logger: w.log,
		HandshakeTimeout: offerTimeout},
		func(c ipc.Conn, err error) {
			defer w.leaving.Done()
			o.meet(w, c, err)
		})
	if err != nil {
		w.leaving.Done()
		w.log.Warn("no conn of its own for a session: it goes through the dispatcher", "session", s.id, "name", s.name, "err", err)
		return nil
	}
	o.cancel = cancel
	s.direct = o
	w.owned = append(w.owned, s)
	return theirs
}

// meet takes the conn in, or the news that there won't be one. It runs in a goroutine of the offer's.
func (o *direct) meet(w *Worker, c ipc.Conn, err error) {
	if err != nil {
		if !o.over.Load() {
			w.log.Warn("a client has not taken its session's own conn: it goes through the dispatcher", "err", err)
		}
		return
	}
	r := c.(roomy) // as every conn of ipc/local
	o.met.Store(&r)
	if o.over.Load() { // close may have looked before
		o.drop()
	}
	w.waiter.Wake()
}

// drop closes a conn that look has not seen.
func (o *direct) drop() {
	if c := o.met.Swap(nil); c != nil {
		_ = (*c).Close()
	}
}

// close ends the conn, and the offer of one.
func (o *direct) close() {
	o.over.Store(true)
	o.cancel()
	o.drop()
	if o.conn != nil {
		_ = o.conn.Close()
	}
	o.release()
}

// release gives the held message back.
func (o *direct) release() {
	if !o.held {
		return
	}
	ipc.CloseFiles(o.msg.Files)
	o.conn.Release()
	o.msg, o.held, o.ready = ipc.Message{}, false, false
}

// look finds the oldest message, and reports whether it can be done now: there must be room for its answer. It is called very often.
func (o *direct) look() bool {
	if o.conn == nil {
		c := o.met.Load()
		if c == nil {
			return false
		}
		o.met.Store(nil)
		o.conn = *c
	}
	if !o.held {
		m, ok, err := o.conn.TryRecv()
		if err != nil {
			o.err = err
			return true
		}
		if !ok {
			return false
		}
		o.msg, o.held = m, true
	}
	if !o.ready {
		if o.s.shared != nil && !o.s.mayBegin() {
			return false
		}
		o.ready = o.conn.CanSend(ipc.MaxMessage)
		if !o.ready {
			o.err = o.conn.Err()
		}
	}
	return o.ready || o.err != nil
}

// lookAll is look for all sessions that have own conns.
func (w *Worker) lookAll() (found bool) {
	for _, s := range w.owned {
		was := s.direct.held
		if s.direct.look() {
			found = true
		}
		if !was && s.direct.held {
			s.used = max(s.used, w.clock) // it starts where the others are
		}
		w.broken = w.broken || s.direct.err != nil
	}
	return found || w.asking
}

// endOwned lets go of the conns that have ended, and fails the sessions whose clients broke the protocol there. That a client is
// gone the dispatcher says, which ends the session.
func (w *Worker) endOwned(ctx context.Context) error {
	w.broken = false
	for i := 0; i < len(w.owned); {
		s := w.owned[i]
		err := s.direct.err
		switch {
		case err == nil:
			i++
		case errors.Is(err, ipc.ErrPeerGone):
			if err := s.lostOwn(ctx); err != nil {
				return err
			}
		default:
			if err := w.failSession(ctx, s, fmt.Errorf("%w: its own conn: %w", errProtocol, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// disown closes a session's own conn.
func (w *Worker) disown(s *session) {
	if s.direct == nil {
		return
	}
	s.direct.close()
	s.direct = nil
	for i, x := range w.owned {
		if x == s {
			w.owned = append(w.owned[:i], w.owned[i+1:]...)
			break
		}
	}
}

// doOwn does the message that a session's own conn holds.
func (w *Worker) doOwn(ctx context.Context, s *session) error {
	o := s.direct
	if w.watch.on {
		defer w.watch.message(w, time.Now(), o.msg.Kind, s.id, len(o.msg.Body))
	}
	var done bool
	var err error
	if s.shared != nil {
		done, err = s.beginOwn(ctx, &o.msg)
	}
	if !done && err == nil {
		o.asked = !o.deaf
		err = s.handle(ctx, &o.msg)
		o.asked = false
	}
	if err == nil {
		o.release()
		if s.shared != nil && !done {
			s.endOwnMessage()
		}
		return nil
	}
	if errors.Is(err, errAgain) { // it stays where it is
		ipc.CloseFiles(o.msg.Files)
		o.msg.Files = nil
		return nil
	}
	o.release()
	if ends(err) {
		return w.failSession(ctx, s, err)
	}
	return err
}

// answersOwn says whether the message that is being done is answered over the session's own conn.
func (s *session) answersOwn() bool { return s.direct != nil && s.direct.asked }

// send answers the message that is being done where it came from.
func (s *session) send(ctx context.Context, kind uint32, n int, write func(dst []byte) []byte, files ...*os.File) error {
	if !s.answersOwn() {
		return s.w.send(ctx, kind, n, write, files...)
	}
	buf, err := s.direct.conn.TryReserve(kind, n)
	if err == nil {
		write(buf[:0])
		err = s.direct.conn.Commit(files...)
	}
	switch {
	case err == nil, errors.Is(err, ipc.ErrPeerGone), errors.Is(err, net.ErrClosed), errors.Is(err, ipc.ErrCorrupt):
		return nil // look finds out as well
	case errors.Is(err, ipc.ErrFull):
		return fmt.Errorf("%w: %w", errProtocol, errUnread)
	}
	return fmt.Errorf("%w: %w: %s could not be sent: %w", errProtocol, errInternal, wire.KindName(kind), err)
}
