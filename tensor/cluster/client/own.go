package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// A session whose workers are of this host has a connection of its own with its (first)
// worker. Messages about the session itself, that it is open or why it is over, and the
// answers of other workers use the connection with the dispatcher.
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
		e.own, e.to = c, c
	case ctx.Err() != nil:
		return ipc.ContextError(ctx)
	default:
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
	case e.otherHeld:
		e.otherHeld = false
		return e.handle(&e.other, e.conn)
	case e.gone != nil:
		return e.fail(e.gone)
	}
	return e.abandoned()
}

// abandoned ends the session because its own connection has ended. It waits for the
// dispatcher's reason.
func (e *Engine) abandoned() error {
	err := e.ownGone
	if errors.Is(err, ipc.ErrPeerGone) {
		ctx, cancel := context.WithTimeout(e.ctx, reasonWait)
		defer cancel()
		for e.err == nil {
			m, err := e.conn.Recv(ctx)
			if err != nil {
				if ctx.Err() == nil {
					return e.fail(err)
				}
				break
			}
			_ = e.handle(&m, e.conn) // its error is e.err
		}
	}
	w := &e.workers[0]
	err = e.fail(fmt.Errorf("%w: the connection between %q here and worker %q (pid %d) ended: %w", ErrLost, e.name, w.name, w.pid, err))
	_ = e.conn.Close() // so that the other end notices
	return err
}

// room waits for room for n bytes. On the session's own connection it handles messages
// meanwhile, because the worker runs nothing for a client that does not read its answers.
func (e *Engine) room(ctx context.Context, kind uint32, n int) (buf []byte, err error) {
	if e.own == nil {
		return e.conn.Reserve(ctx, kind, n)
	}
	for {
		if err := e.waiter.Wait(ctx, func() bool {
			buf, err = e.own.TryReserve(kind, n)
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
