package worker

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// replier sends answers to a client. The outbox sends them through the dispatcher, an
// inlet over the session's own connection.
type replier interface {
	// send sends one message.
	send(ctx context.Context, kind uint32, m wire.Message, files ...*os.File) error

	// inlineBytes returns the largest result that travels in an answer instead of a
	// handle.
	inlineBytes() int
}

// outbox sends the worker's messages to the dispatcher.
//
// The worker's goroutine waits where the connection has no room. The goroutines that make
// connections and groups cannot wait, for a waiter serves one goroutine: post keeps their
// messages until the worker's goroutine can send them.
type outbox struct {
	conn   ipc.Conn
	waiter *local.Waiter

	mu      sync.Mutex    // held from TryReserve to Commit, and for Trim
	body    []byte        // the message that is sent
	posted  []ipc.Message // those that wait for room, oldest first; they own their files
	pending atomic.Bool
}

// inlineBytes returns 0: the dispatcher forwards handles, not values.
func (o *outbox) inlineBytes() int { return 0 }

// send sends one message and waits for room. The worker's goroutine alone calls it.
func (o *outbox) send(ctx context.Context, kind uint32, m wire.Message, files ...*os.File) error {
	err := o.trySend(kind, m, files...)
	if !errors.Is(err, ipc.ErrFull) {
		return err
	}
	if err := o.waiter.Wait(ctx, func() bool {
		err = o.trySend(kind, m, files...)
		return !errors.Is(err, ipc.ErrFull)
	}); err != nil {
		return err
	}
	return err
}

// trySend sends one message. It returns ErrFull if there is no room for it, or none for
// the messages that were posted before. A message for a dispatcher that is gone is
// dropped: receiving finds out, after the reason that the dispatcher gave.
func (o *outbox) trySend(kind uint32, m wire.Message, files ...*os.File) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.flush()
	if err == nil {
		o.body = wire.Append(o.body[:0], m)
		err = ipc.TrySend(o.conn, ipc.Message{Kind: kind, Body: o.body, Files: files})
	}
	if errors.Is(err, ipc.ErrPeerGone) {
		return nil
	}
	return err
}

// post sends a message, now or when there is room, and takes over its files.
// Any goroutine may call it.
func (o *outbox) post(kind uint32, m wire.Message, files ...*os.File) error {
	err := o.trySend(kind, m, files...)
	if !errors.Is(err, ipc.ErrFull) {
		ipc.ClosePassed(files)
		return err
	}
	o.mu.Lock()
	o.posted = append(o.posted, ipc.Message{Kind: kind, Body: wire.Append(nil, m), Files: files})
	o.pending.Store(true)
	o.mu.Unlock()
	o.waiter.Wake()
	return nil
}

// flush sends all posted messages, unless it returns an error. The caller holds mu.
func (o *outbox) flush() error {
	for len(o.posted) > 0 {
		if err := ipc.TrySend(o.conn, o.posted[0]); err != nil {
			return err
		}
		ipc.ClosePassed(o.posted[0].Files)
		o.posted = o.posted[1:]
	}
	o.pending.Store(false)
	return nil
}

// deliver sends the posted messages for which there is room.
func (o *outbox) deliver() {
	if !o.pending.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.flush() // receiving finds out that the dispatcher is gone
}

// trim is ipc.Trim while no other goroutine sends.
func (o *outbox) trim() {
	o.mu.Lock()
	defer o.mu.Unlock()
	ipc.Trim(o.conn)
}
