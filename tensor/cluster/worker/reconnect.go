package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// A dispatcher that dies takes with it what only it knows: which client a session belongs
// to, the messages that were on their way, and whose turn it is. So the sessions whose
// messages it forwards, and those of several workers, end. A session that has a
// connection of its own with its client needs none of this: the worker goes on with it,
// ends it when that connection ends, and looks for another dispatcher at the same
// address. It tells that one the last number that a session had (Device) and each of
// these sessions (Held), with the token by which its client names it there too. If such a
// session fails, the client is told over its connection as well: it may not have come to
// the new dispatcher yet.

// redialEvery is the pause between two looks for a dispatcher. A dispatcher waits for
// longer than that before it says that it has no worker.
const redialEvery = 50 * time.Millisecond

// seeker looks for a dispatcher when the worker's has died.
type seeker struct {
	w       *Worker
	note    string        // tells the dispatcher that a connection is of this worker
	came    chan ipc.Conn // nil: the worker has a dispatcher
	overdue atomic.Bool   // it has looked for Options.Reconnect
}

// done reports whether there is a dispatcher, or none for too long while there is no
// session to go on with.
func (k *seeker) done() bool {
	return k.came != nil && (len(k.came) > 0 || len(k.w.sessions) == 0 && k.overdue.Load())
}

// died reports whether err, of a step, is the end of a dispatcher that said nothing
// before. One that stops says so, and its workers end.
func (k *seeker) died(err error) bool {
	w := k.w
	return w.o.Reconnect > 0 && errors.Is(err, ipc.ErrPeerGone) && !errors.Is(err, ErrDispatcher) && w.out.conn.Err() != nil
}

// outlive keeps the sessions that need no dispatcher, ends the others, and has another
// dispatcher looked for until ctx is done.
//
// A client of this host whose session ends may be reading results in the worker's memory,
// and nothing tells when it has gone: its leases stay until the worker ends.
func (k *seeker) outlive(ctx context.Context, addr string, err error) {
	w := k.w
	for _, m := range w.deferred {
		ipc.CloseFiles(m.Files)
	}
	w.deferred, w.lost = nil, nil
	for _, s := range w.sessions {
		if d, ok := s.(*direct); ok && d.in.offered() {
			d.alone = true
			continue
		}
		w.endSession(s)
		if c := s.core(); !c.results.mapped {
			w.dev.Arena().ReleaseOwner(c.id)
		}
	}
	w.trim()
	w.log.Warn("dispatcher died: looking for another one there", "worker", w.name, "dispatcher", addr, "sessions", len(w.sessions), "err", err)
	k.came = make(chan ipc.Conn, 1)
	k.overdue.Store(false)
	w.closing.Go(func() { k.seek(ctx, addr) })
}

// seek looks for a dispatcher until there is one.
func (k *seeker) seek(ctx context.Context, addr string) {
	began := time.Now()
	tick := time.NewTicker(redialEvery)
	defer tick.Stop()
	for {
		c, err := k.dial(ctx, addr)
		if err == nil {
			k.came <- c
			k.w.waiter.Wake()
			return
		}
		if time.Since(began) > k.w.o.Reconnect {
			k.overdue.Store(true)
			k.w.waiter.Wake()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// dial connects to the dispatcher at addr.
func (k *seeker) dial(ctx context.Context, addr string) (ipc.Conn, error) {
	w := k.w
	order := route.Order()
	if w.o.Transport != nil {
		order = []ipc.Transport{w.o.Transport}
	}
	return route.Dial(ctx, order, []string{addr}, &ipc.Options{
		Hello: ipc.Peer{Role: ipc.RoleWorker, Name: w.name, Note: k.note}, Logger: w.log, Secret: w.o.Secret, TLS: w.o.TLS, Waiter: w.waiter,
	})
}

// join takes the dispatcher that was found.
func (k *seeker) join(ctx context.Context) error {
	w := k.w
	if len(k.came) == 0 {
		return fmt.Errorf("worker %q: %w, and no other one came to its address within %v", w.name, ErrDispatcher, w.o.Reconnect)
	}
	c := <-k.came
	k.came = nil
	w.out.replace(c)
	w.log.Info("worker connected again", "worker", w.name, "sessions", len(w.sessions))
	err := w.tellDevice(ctx)
	for _, s := range w.sessions {
		if d, ok := s.(*direct); ok && err == nil && len(d.held.Token) > 0 {
			err = w.out.send(ctx, wire.KindHeld, &d.held)
		}
	}
	return err
}

// tellOver tells the dispatcher, if there is one, that a session has ended. The session
// has begun under a dispatcher that died.
func (k *seeker) tellOver(ctx context.Context, session uint64) error {
	if k.came != nil {
		return nil
	}
	return k.w.out.send(ctx, wire.KindHeld, &wire.Held{Session: session, Over: true})
}

// replace sends to another dispatcher from now on. Messages for the old one are dropped.
func (o *outbox) replace(c ipc.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.posted {
		ipc.CloseFiles(m.Files)
	}
	o.posted = nil
	o.pending.Store(false)
	_ = o.conn.Close()
	o.conn = c
}

// release ends the leases of a session whose client is gone.
func release(w *Worker, session uint64) {
	if w.dev.Arena().ReleaseOwner(session) > 0 {
		w.trim()
	}
}

// hear receives the dispatcher's next message, if there is a dispatcher.
func (k *seeker) hear() (ipc.Message, bool, error) {
	if k.came != nil {
		return ipc.Message{}, false, nil
	}
	return k.w.out.conn.TryRecv()
}

// unheard reports whether nothing can be heard for session b any more: its own connection
// or, if it has none, the dispatcher's has ended.
func (k *seeker) unheard(b *base) bool {
	w := k.w
	if s, ok := w.sessions[b.id].(connected); ok && s.inlet().conn != nil {
		if s.inlet().conn.Err() != nil {
			return true
		}
		if _, ok := s.(*direct); ok && w.o.Reconnect > 0 {
			return false
		}
	}
	return w.out.conn.Err() != nil
}
