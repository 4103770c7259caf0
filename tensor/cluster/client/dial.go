package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Dial opens a session with the dispatcher at addr, and waits until a worker serves it.
// It does not use Options.Addr. The error is one of the transport's Dial, ErrNoWorker or
// ErrLost.
func Dial(ctx context.Context, addr string, options *Options) (*Engine, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{addr: addr, name: o.Name, log: o.Logger, far: apart(o.Transport), tls: o.TLS, events: o.Trace}
	e.config, e.workers, e.programs.max = o.Config, make([]member, o.Workers), o.Programs
	e.flight.folder, e.flight.born = o.Flight, time.Now()
	for _, st := range o.Config.Stages() {
		for i, r := range st.Workers {
			e.workers[r] = member{stage: len(e.stages), mesh: st.Mesh, place: i}
		}
		e.stages = append(e.stages, st)
	}
	if o.Workers > 1 && !o.Config.AutoShard {
		e.hints, e.stageOf = o.Config.Hints(), o.Config.StageOf()
	}
	if o.Segment == (shm.Options{}) {
		o.Segment = shm.Options{Backing: shm.Memfd, PeersRead: true, Prefault: true}
	}
	e.arena, err = shm.NewArena(&shm.ArenaOptions{
		First: firstSegment, Second: secondSegment, MaxBytes: o.MaxBytes, Segment: o.Segment,
		OnSegment: func(s *shm.Segment) { e.segments.add(s) },
	})
	if err != nil {
		return nil, err
	}
	e.table = shm.NewTable(&shm.TableOptions{OnRelease: func(_ uint64, h shm.Handle) { e.returned.add(h) }})
	e.outbox.team, e.outbox.arena = &e.team, e.arena
	e.results.team, e.results.arena, e.results.table = &e.team, e.arena, e.table
	if e.waiter, err = local.NewWaiter(); err != nil {
		return nil, err
	}
	e.found.wake, e.found.known = e.waiter.Wake, true
	e.found.dial = func(ctx context.Context) (ipc.Conn, error) {
		return route.Dial(ctx, order(o.Transport), []string{addr}, &ipc.Options{
			Hello: ipc.Peer{Role: ipc.RoleClient, Name: o.Name}, Logger: o.Logger, Secret: o.Secret, TLS: o.TLS, Waiter: e.waiter,
		})
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.found.ctx = e.ctx
	if err := dialAndOpen(ctx, e, &o); err != nil {
		return nil, err
	}
	e.paths.all = pathsOf(&e.team, &e.channels)
	e.smu.Lock()
	defer e.smu.Unlock()
	e.trimmer = time.AfterFunc(trimEvery, e.trim)
	return e, nil
}

// dialAndOpen connects to the dispatcher and opens the session. It does so again where
// the dispatcher ended the connection, to make room for others, before it saw that a
// session was to be opened. On error the engine is closed.
func dialAndOpen(ctx context.Context, e *Engine, o *Options) (err error) {
	for {
		if e.conn, err = dialInTime(ctx, e.found.dial); err != nil {
			e.cancel()
			e.waiter.Close()
			return errors.Join(err, e.table.Close(), e.arena.Close())
		}
		e.to = e.conn
		if err = e.open(ctx, o); err == nil {
			return nil
		}
		if !errors.Is(err, errQuota) || e.opened > 0 || !hasEnded(ctx, e.conn) {
			e.Close()
			return err
		}
		_ = e.conn.Close()
		e.err, e.gone, e.found.known = nil, nil, true
	}
}

// hasEnded asks a dispatcher for its counters, to see whether it has ended a connection
// after its last message.
func hasEnded(ctx context.Context, c ipc.Conn) bool {
	err := ipc.Send(ctx, c, ipc.Message{Kind: wire.KindStatus, Body: wire.Append(nil, &wire.Status{})})
	for err == nil {
		var m ipc.Message
		if m, err = c.Recv(ctx); err == nil {
			ipc.CloseFiles(m.Files)
			c.Release()
			if m.Kind == wire.KindStatusReply {
				return false
			}
		}
	}
	return errors.Is(err, ipc.ErrPeerGone)
}

// dialInTime connects to the dispatcher, again where this process had no processor for so
// long that the dispatcher ended the connection as one of a client that opens no session.
func dialInTime(ctx context.Context, dial func(context.Context) (ipc.Conn, error)) (ipc.Conn, error) {
	for {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		m, ok, err := c.TryRecv()
		if !ok || err != nil {
			return c, nil // opening the session finds that the dispatcher is gone
		}
		var f wire.Fail
		if err = wire.Parse(m.Body, &f); m.Kind != wire.KindFail || err != nil {
			err = fmt.Errorf("%w: %s before a session", ipc.ErrCorrupt, wire.KindName(m.Kind))
		} else if f.Code != wire.CodeQuota {
			err = &remoteError{"client: session lost: " + f.Text, ErrLost}
		}
		ipc.CloseFiles(m.Files)
		c.Release()
		_ = c.Close()
		if err != nil {
			return nil, err
		}
	}
}

// trim gives the memory of queues that are not used back to the machine, now and then
// until the engine is closed, and handles the messages of an idle session: it notices
// that the dispatcher has died, and finds another one. Where the session waits for a
// process that stands still, it says so. Close waits for it, so that it finds mu free.
func (e *Engine) trim() {
	e.smu.Lock()
	defer e.smu.Unlock()
	if e.closing.Load() {
		return
	}
	if e.mu.TryLock() { // else they are used
		if e.err == nil {
			_ = e.drain()
		}
		ipc.Trim(e.conn)
		if e.own != nil {
			ipc.Trim(e.own)
		}
		e.mu.Unlock()
	} else if text := standstill(e); text != e.still {
		if e.still = text; text != "" {
			e.log.Warn("no answer", "session", e.name, "because", text)
		}
	}
	e.trimmer.Reset(trimEvery)
}

// open starts the session.
func (e *Engine) open(ctx context.Context, o *Options) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := wire.OpenSession{Quota: o.Quota, Kind: uint8(o.Kind), Mixed: o.MixKinds, Workers: uint32(o.Workers), Name: o.Name, Direct: e.conn.Features().Files}
	if o.Workers > 1 || o.Config.Exact > 0 {
		m.Config = o.Config.Marshal()
	}
	if o.Workers == 1 && o.Config.Exact > 0 {
		// The worker takes it for one of several, whose own connections need turns.
		m.Direct = false
	}
	if err := e.send(ctx, wire.KindOpenSession, &m); err != nil {
		return err
	}
	for e.opened < len(e.workers) {
		if err := e.receive(ctx); err != nil {
			return err
		}
		if err := e.connect(ctx); err != nil {
			return err
		}
	}
	return e.takeOffer(ctx)
}

// Close ends the session; the worker frees the session's memory. Fetched values that were
// not released stay mapped until they are, but the worker may change their bytes.
func (e *Engine) Close() error {
	if e.closing.Swap(true) {
		return nil
	}
	e.smu.Lock()
	if e.trimmer != nil { // the session was opened
		e.trimmer.Stop()
	}
	e.smu.Unlock()
	e.cancel()
	for i := range e.workers {
		e.workers[i].data.close()
	}
	conn := e.current(true)
	if e.mu.TryLock() {
		// Bye tells the dispatcher that the session ends in order. It is not sent if
		// there is no room for it.
		_ = ipc.TrySend(conn, ipc.Message{Kind: wire.KindBye, Body: wire.Append(nil, &wire.Bye{})})
		_ = conn.Close()
		e.closeOwn()
	} else {
		_ = conn.Close() // this wakes the goroutine in Submit
		e.closeOwn()
		e.mu.Lock()
	}
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = fmt.Errorf("client: %w", tensor.ErrClosed)
	}
	for i := range e.workers {
		e.workers[i].data.forget()
	}
	e.watched.watch(context.Background(), e.seq, nil)
	e.found.end()
	e.waiter.Close()
	return errors.Join(e.table.Close(), e.arena.Close())
}
