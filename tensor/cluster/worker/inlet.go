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

// localConn is a connection of package ipc/local.
type localConn interface {
	ipc.Conn
	CanSend(n int) bool
}

// inlet is a session's own connection with a process of this host: its client, or for the
// later ranks of several workers the first one. Messages come over it, and answers to a
// client go over it. The dispatcher, which placed the session and ends it, sees none of
// them.
//
//	client ── OpenSession ──▶ dispatcher ── OpenSession ──▶ worker
//	client ◀─ SessionOpened ─ dispatcher ◀─ SessionOpened ─ worker, with a descriptor
//	client ◀═══════ Hello, Welcome; then Run, Done, ... ══▶ worker
//
// The connection's queue is the session's backlog: a message stays there until it is
// handled, and a client that sends too much fills its own queue. A message of a client is
// handled only if there is room for its answer, and without that room the worker does not
// ask for a turn. So a client that reads no answers holds up no other.
//
// Until the peer has taken the connection, and if it never does, the session's messages
// come through the dispatcher. A message of the client is answered where it came from;
// later ranks answer through the dispatcher. The zero value is an inlet that is not
// offered.
type inlet struct {
	taken   atomic.Pointer[localConn] // taken by the peer, and not yet seen by receive
	refused atomic.Bool               // the peer will not take it
	closed  atomic.Bool
	cancel  func() // ends the offer

	// The rest belongs to the worker's goroutine.
	conn  ipc.Conn    // nil until the peer has taken it
	local localConn   // conn: to make one of the other for each message costs a look-up
	msg   ipc.Message // the oldest message, if held
	held  bool
	ready bool // msg can be handled now
	err   error
	body  []byte // the answer that is sent
}

const (
	// joinTimeout bounds the time in which the workers of a session connect to each
	// other.
	joinTimeout = 30 * time.Second

	// offerTimeout bounds the time until a session's own connection is taken. It is more
	// than joinTimeout: a client takes the connection when its session has opened, and
	// the session opens when its workers are connected.
	offerTimeout = joinTimeout + ipc.DefaultHandshakeTimeout

	// inlineBytes is the largest result that travels in an answer over an inlet. Up to
	// this size a value costs no more in the answer than its handle, lease and return
	// would.
	inlineBytes = 64
)

// offer makes the connection and returns the descriptor for the peer. It waits for the
// peer in a goroutine.
func (in *inlet) offer(e *env) (theirs *os.File, err error) {
	e.closing.Add(1)
	theirs, in.cancel, err = local.New().Offer(&ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: e.name},
		Waiter: e.waiter, Logger: e.log, HandshakeTimeout: offerTimeout},
		func(c ipc.Conn, err error) {
			defer e.closing.Done()
			if err != nil {
				in.refused.Store(true)
				e.waiter.Wake()
				if !in.closed.Load() {
					e.log.Warn("a session's own connection was not taken: its messages go through the dispatcher", "err", err)
				}
				return
			}
			in.take(c.(localConn)) // as every connection of ipc/local
			e.waiter.Wake()
		})
	if err != nil {
		in.cancel = nil
		e.closing.Done()
		e.log.Warn("no connection of its own for a session: its messages go through the dispatcher", "err", err)
	}
	return theirs, err
}

// offered reports whether there is a connection, or an offer of one.
func (in *inlet) offered() bool { return in.cancel != nil }

// take receives the connection in a goroutine of the offer. The goroutine stores taken
// before it loads closed, and close stores closed before it swaps taken: one of them sees
// the other, so a connection that is taken after close is closed.
func (in *inlet) take(c localConn) {
	in.taken.Store(&c)
	if in.closed.Load() {
		in.drop()
	}
}

// drop closes a connection that receive has not seen.
func (in *inlet) drop() {
	if c := in.taken.Swap(nil); c != nil {
		_ = (*c).Close()
	}
}

// close ends the connection, and the offer of one.
func (in *inlet) close() {
	if !in.offered() {
		return
	}
	in.closed.Store(true)
	in.cancel()
	in.drop()
	if in.conn != nil {
		_ = in.conn.Close()
	}
	in.release()
	in.conn, in.local, in.cancel, in.err = nil, nil, nil, nil
}

// receive finds the oldest message and reports whether there is one. It is called very
// often.
func (in *inlet) receive() bool {
	if in.held || in.err != nil {
		return in.held
	}
	if in.conn == nil {
		c := in.taken.Load()
		if c == nil {
			return false
		}
		in.taken.Store(nil)
		in.conn, in.local = *c, *c
	}
	in.msg, in.held, in.err = in.conn.TryRecv()
	return in.held
}

// admit reports whether there is room for an answer, so that the message can be handled.
func (in *inlet) admit() bool {
	in.ready = in.local.CanSend(ipc.MaxMessage)
	if !in.ready {
		in.err = in.conn.Err()
	}
	return in.ready
}

// release gives the held message back.
func (in *inlet) release() {
	if !in.held {
		return
	}
	ipc.CloseFiles(in.msg.Files)
	in.conn.Release()
	in.msg, in.held, in.ready = ipc.Message{}, false, false
}

// finish ends the handling of a message that returned err. After errAgain the message
// stays where it is, without its files, and finish returns nil.
func (in *inlet) finish(err error) error {
	if errors.Is(err, errAgain) {
		ipc.CloseFiles(in.msg.Files)
		in.msg.Files = nil
		return nil
	}
	in.release()
	return err
}

// inlineBytes returns the largest result that travels in an answer.
func (in *inlet) inlineBytes() int { return inlineBytes }

// send answers the message that is being handled. There is room, for admit has looked.
func (in *inlet) send(ctx context.Context, kind uint32, m wire.Message, files ...*os.File) error {
	in.body = wire.Append(in.body[:0], m)
	switch err := ipc.TrySend(in.conn, ipc.Message{Kind: kind, Body: in.body, Files: files}); {
	case err == nil, errors.Is(err, ipc.ErrPeerGone), errors.Is(err, net.ErrClosed), errors.Is(err, ipc.ErrCorrupt):
		return nil // receive finds out as well
	case errors.Is(err, ipc.ErrFull):
		return fmt.Errorf("%w: %w", errProtocol, errUnread)
	default:
		return fmt.Errorf("%w: %w: %s could not be sent: %w", errProtocol, errInternal, wire.KindName(kind), err)
	}
}
