package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// A session whose workers are of this host has a connection of its own with its (first)
// worker. Messages about the session itself, that it is open or why it is over, and the
// answers of other workers use the connection with the dispatcher.
//
// If the session has no other worker, it goes on when the dispatcher dies: the worker
// keeps it, and ends it with the connection. Meanwhile both look for another dispatcher
// (rejoin.go). If the session fails, the worker says why over this connection too.
//
// The client handles the worker's messages before the dispatcher's: an answer to a Run
// counts although the worker has ended since.

// takeOffer takes the connection that the worker offers. Without it the dispatcher
// forwards, so it returns an error only if ctx is done.
func (e *Engine) takeOffer(ctx context.Context) error {
	f := e.offer
	if f == nil {
		return nil
	}
	e.offer = nil
	c, err := local.New().Take(ctx, f, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Name: e.name}, Waiter: e.waiter, Logger: e.log})
	switch {
	case err == nil:
		e.own, e.to, e.single = c, c, len(e.workers) == 1
	case ctx.Err() != nil:
		return ipc.ContextError(ctx)
	default:
		e.refused = err
		e.log.Warn("no connection of its own with the worker: the session uses the dispatcher", "worker", e.workers[0].name, "err", err)
	}
	return nil
}

// next handles what look found.
func (e *Engine) next() error {
	switch {
	case e.held:
		e.held = false
		return e.handle(&e.msg, e.own)
	case e.otherHeld && !e.found.known && e.other.Kind == wire.KindFail:
		e.otherHeld = false
		var f wire.Fail
		if wire.Parse(e.other.Body, &f) != nil {
			f.Text = "a Fail that makes no sense"
		}
		e.conn.Release()
		e.dismissed(f.Text)
		return nil
	case e.otherHeld:
		e.otherHeld = false
		return e.handle(&e.other, e.conn)
	case e.gone != nil && !e.without():
		return e.fail(dispatcherGone(e.gone))
	}
	e.to = e.conn
	return e.cut(&e.workers[0], "the connection", e.ownGone)
}

// dispatcherGone says what the end of the connection with the dispatcher means for a
// session that does not go on without it.
func dispatcherGone(err error) error {
	if !errors.Is(err, ipc.ErrPeerGone) {
		return err
	}
	return fmt.Errorf("%w: it has died, and this session's messages went through it: open another session, "+
		"when a dispatcher is there again (ringside up starts one)", err)
}

// cut ends the session because a connection with a worker has ended. It waits for the
// dispatcher's reason. The worker may be alive: it hangs up when it gives the session up
// because another worker is gone. Nothing more is sent: receive would begin with that,
// and a push would fail and come here again.
func (e *Engine) cut(w *member, what string, err error) error {
	e.pushing, e.unsent = false, nil
	if errors.Is(err, ipc.ErrPeerGone) && e.gone == nil && e.found.known {
		ctx, cancel := context.WithTimeout(e.ctx, reasonWait)
		defer cancel()
		for e.err == nil && e.receive(ctx) == nil {
		}
	}
	if e.gone != nil {
		err = fmt.Errorf("%w; the dispatcher at %s is gone as well: %w", err, e.addr, e.gone)
	}
	err = e.fail(fmt.Errorf("%w: %s between %q here and worker %q (pid %d) ended: %w", ErrLost, what, e.name, w.name, w.pid, err))
	_ = e.conn.Close() // so that the other end notices
	return err
}

// room waits for room for n bytes. It handles messages meanwhile, because the worker runs
// nothing for a client that does not read its answers.
func (e *Engine) room(ctx context.Context, kind uint32, n int) (buf []byte, err error) {
	for {
		if err := e.waiter.Wait(ctx, func() bool {
			buf, err = e.to.TryReserve(kind, n)
			return !errors.Is(err, ipc.ErrFull) || e.look()
		}); err != nil {
			return nil, err
		}
		if !errors.Is(err, ipc.ErrFull) {
			return buf, err
		}
		if err := e.next(); err != nil {
			return nil, err
		}
	}
}
