package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// MaxSegments bounds the segments of one client: more than its arena makes in most
// machines' memory. Each costs a mapping here.
const MaxSegments = 512

// tellEvery is the number of steps between two looks at how much memory values use.
const tellEvery = 64

// Worker runs programs. Stats may be called by any goroutine.
type Worker struct {
	env
	scheduler
	trimmer    trimmer
	standstill standstill
	o          Options
	polls      func() bool // poll, which Wait calls
	steps      uint64      // done so far
	told       wire.Device // as the dispatcher was told last
	seeker     seeker
	last       uint64 // greatest number of a session so far
}

// New makes a worker; Serve runs it.
func New(o *Options) (*Worker, error) {
	opt, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Worker{o: opt, env: env{name: opt.Name, log: opt.Logger, dev: opt.Device, binds: opt.Bind, tls: opt.TLS, flight: opt.Flight},
		scheduler: scheduler{sessions: map[uint64]session{}}}
	w.seeker.note = rand.Text()
	w.losable, _ = opt.Device.(device.Losable)
	w.polls = w.poll
	w.seeker.w = w
	w.table = shm.NewTable(&shm.TableOptions{Sealed: !opt.AllowUnsealed, MaxBytes: opt.MaxMapped, MaxSegments: MaxSegments,
		OnRelease: w.owners.giveBack})
	return w, nil
}

// Name returns the worker's name.
func (w *Worker) Name() string { return w.name }

// Stats returns the counters so far.
func (w *Worker) Stats() Stats {
	s := &w.stats
	return Stats{
		Sessions: int(s.sessions.Load()), Opened: s.opened.Load(), Failed: s.failed.Load(),
		Runs: s.runs.Load(), Errors: s.errors.Load(), Programs: s.programs.Load(),
		Imports: s.imports.Load(), Results: s.results.Load(),
	}
}

// Serve connects to the dispatcher at addr and handles its messages until ctx is done
// (then it returns nil), the device is lost (ErrDevice) or the dispatcher is gone (then
// ErrDispatcher; ErrNameTaken when it refused the worker). Sessions that are open then
// are told the reason. With Options.Reconnect it looks for another dispatcher at addr
// when one died. It is called once.
func (w *Worker) Serve(ctx context.Context, addr string) error {
	defer w.close()
	var err error
	if w.waiter, err = local.NewWaiter(); err != nil {
		return fmt.Errorf("worker %q: %w", w.name, err)
	}
	conn, err := w.seeker.dial(ctx, addr)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("worker %q: %w", w.name, err)
	}
	w.out.conn, w.out.waiter = conn, w.waiter
	w.log.Info("worker connected", "worker", w.name, "device", w.dev.Info().Name, "dispatcher", addr)
	w.listener.begin(func(b *base) { w.listenFor(ctx, b) })
	defer w.listener.end()
	w.trimmer.begin(w.o.KeepUnused/trimLooks, w.waiter.Wake)
	defer w.trimmer.end()
	w.standstill.begin(w.o.KeepUnused/trimLooks, &w.env)
	defer w.standstill.end()
	seeking, cancel := context.WithCancel(ctx)
	defer cancel()
	// A client that shrinks a segment which is not sealed makes reading it a fault. As a
	// panic the fault ends that client's session alone.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for err = w.tellDevice(ctx); ; err = w.step(ctx) {
		if w.seeker.died(err) {
			w.seeker.outlive(seeking, addr, err)
			err = nil
		}
		if w.steps++; err == nil && (w.told.Busy || w.steps%tellEvery == 0 && w.usedMuchElse()) {
			err = w.tellDevice(ctx)
		}
		if err == nil {
			err = w.deviceLost()
		}
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			w.farewell(context.Cause(ctx))
			return nil
		case errors.Is(err, ErrDevice):
			w.farewell(err)
			return fmt.Errorf("worker %q: %w", w.name, err)
		case errors.Is(err, ErrNameTaken), errors.Is(err, ErrDispatcher):
			return err
		default:
			return fmt.Errorf("worker %q: %w at %s: %w", w.name, ErrDispatcher, addr, err)
		}
	}
}

// tellDevice tells the dispatcher what the worker computes on, and how much of its memory
// values use.
func (w *Worker) tellDevice(ctx context.Context) error {
	m := &w.told
	*m = wire.Device{Info: w.dev.Info(), Used: uint64(w.dev.Stats().Values.InUse), Last: min(w.last, wire.MaxSession)}
	m.Info.Name = m.Info.Name[:min(len(m.Info.Name), wire.MaxName)]
	return w.out.send(ctx, wire.KindDevice, m)
}

// tellBusy tells the dispatcher, if there is room to, that a program has run for long.
// The next step says that it is over.
func (w *Worker) tellBusy() {
	m := w.told
	m.Busy = true
	if w.out.trySend(wire.KindDevice, &m) == nil {
		w.told = m
	}
}

// usedMuchElse reports whether the memory that values use has changed by a sixteenth of
// the device's since the dispatcher was told. Where the device does not know its memory,
// the dispatcher does not place by it.
func (w *Worker) usedMuchElse() bool {
	part := w.told.Info.Bytes / 16
	if part == 0 {
		return false
	}
	used := uint64(w.dev.Stats().Values.InUse)
	return max(used, w.told.Used)-min(used, w.told.Used) >= part
}

// close frees everything. Leases end with the arena and not before: a client that was
// just given a result can still read it, though the worker cannot tell it any more that
// the result is gone.
func (w *Worker) close() {
	if w.out.conn != nil {
		_ = w.out.conn.Close()
	}
	for _, s := range w.sessions {
		s.close()
	}
	w.closing.Wait()
	if len(w.seeker.came) > 0 {
		_ = (<-w.seeker.came).Close()
	}
	if w.waiter != nil {
		w.waiter.Close()
	}
	_ = w.table.Close()
	if err := w.dev.Close(); err != nil {
		w.log.Warn("closing the device", "err", err)
	}
}

// farewell tells the sessions that the worker stops, as far as there is room to.
func (w *Worker) farewell(cause error) {
	text := wire.CutText(fmt.Sprintf("worker %q (pid %d) is stopping: %v", w.name, os.Getpid(), cause))
	for id, s := range w.sessions {
		m := wire.Fail{Session: id, Code: wire.CodeWorkerGone, Text: text}
		if d, ok := s.(*direct); ok {
			d.tell(&m)
		}
		if w.out.trySend(wire.KindFail, &m) != nil {
			return
		}
	}
}

// measure notes that a message was handled.
func (w *Worker) measure(began time.Time, kind uint32, session uint64, n int) {
	var u *usage
	if s := w.sessions[session]; s != nil {
		u = &s.core().usage
	}
	w.monitor.message(u, w.listener.waits != nil, began, kind, session, n)
}

// handle handles one message of the dispatcher. An error ends the worker.
func (w *Worker) handle(ctx context.Context, m *ipc.Message) error {
	id, ok := wire.Session(m.Body)
	if !ok {
		return fmt.Errorf("%w: %s of %d bytes", ipc.ErrCorrupt, wire.KindName(m.Kind), len(m.Body))
	}
	if w.monitor.on {
		defer w.measure(time.Now(), m.Kind, id, len(m.Body))
	}
	switch m.Kind {
	case wire.KindWatch:
		return w.answerWatch(ctx, m)
	case wire.KindShow:
		return answerShow(ctx, w, m)
	case wire.KindOpenSession:
		return w.openSession(ctx, m)
	case wire.KindCloseSession:
		return w.closeSession(m)
	case wire.KindStop:
		return w.stopSession(m)
	case wire.KindFail:
		return refusal(m)
	}
	s := w.sessions[id]
	if s == nil {
		// It failed here. The dispatcher does not know yet, or waits for a better reason
		// (its givenup.go).
		return nil
	}
	err := handleFor(ctx, s, m)
	if ends(err) {
		return w.failSession(ctx, s, err)
	}
	return err
}

// handleFor handles a message for a session.
func handleFor(ctx context.Context, s session, m *ipc.Message) error {
	switch m.Kind {
	case wire.KindLink:
		return s.core().uploads.memory.hear(m.Body)
	case wire.KindMeet, wire.KindTurn:
		if s, ok := s.(*shared); ok {
			return s.agreeOn(ctx, m)
		}
		return fmt.Errorf("%w: %s in a session of one worker", errProtocol, wire.KindName(m.Kind))
	}
	return s.handle(ctx, m)
}

// refusal returns the error of a Fail message of the dispatcher to the worker itself.
func refusal(m *ipc.Message) error {
	var f wire.Fail
	if err := wire.Parse(m.Body, &f); err != nil {
		return err
	}
	if f.Code == wire.CodeNameTaken {
		return fmt.Errorf("%w: %s", ErrNameTaken, f.Text)
	}
	return fmt.Errorf("%w: %s", ErrDispatcher, f.Text)
}

// openSession opens a session. The client is answered when the session's connections
// stand.
func (w *Worker) openSession(ctx context.Context, m *ipc.Message) error {
	var open wire.OpenSession
	if err := wire.Parse(m.Body, &open); err != nil {
		return err
	}
	if w.sessions[open.Session] != nil {
		return fmt.Errorf("%w: session %d opened twice", ipc.ErrCorrupt, open.Session)
	}
	w.last = max(w.last, open.Session)
	quota := w.o.Quota
	if open.Quota != 0 && (quota == 0 || open.Quota < quota) {
		quota = open.Quota
	}
	w.stats.sessions.Add(1)
	w.stats.opened.Add(1)
	w.log.Debug("session opened", "session", open.Session, "name", open.Name)
	reply := wire.SessionOpened{Session: open.Session, PID: uint32(os.Getpid()), Apart: open.Apart, Rank: open.Rank, Bytes: cmp.Or(quota, w.dev.Info().Bytes), Worker: w.name}
	b := newBase(&w.env, &open, w.memoryOf(&open, reply), quota)
	w.owners.set(b.id, &b.uploads)
	b.count(m.Kind)
	if shares(&open) {
		return w.openShared(ctx, b, &open, reply)
	}
	return w.openAlone(ctx, b, &open, reply)
}

// shares reports whether a session's programs are rewritten for its workers: there are
// several, or one with a config, which cuts batches in parts.
func shares(open *wire.OpenSession) bool { return open.Workers > 1 || len(open.Config) > 0 }

// memoryOf returns the memory of a session's client. A data connection of a session of
// this worker alone sends reply when it stands.
func (w *Worker) memoryOf(open *wire.OpenSession, reply wire.SessionOpened) clientMemory {
	if !open.Apart {
		return &mappedMemory{table: w.table, session: open.Session, imports: &w.stats.imports}
	}
	var opened func() error
	if !shares(open) {
		opened = func() error {
			return w.out.post(wire.KindSessionOpened, &reply)
		}
	}
	d := newDataConn(&w.env, open)
	d.start(bytes.Clone(open.Token), opened)
	return d
}

// openAlone opens a session of this worker alone.
func (w *Worker) openAlone(ctx context.Context, b *base, open *wire.OpenSession, reply wire.SessionOpened) error {
	var s session = &forwarded{b}
	var theirs []*os.File
	if open.Direct && w.out.conn.Features().Files && !open.Apart {
		d := &direct{forwarded: forwarded{b}, held: wire.Held{Session: b.id, Quota: open.Quota, Token: bytes.Clone(open.Token), Name: b.name}}
		if f, err := d.in.offer(&w.env); err == nil {
			reply.Token = d.held.Token
			s, theirs = d, []*os.File{f}
			w.connected = append(w.connected, d)
			defer f.Close()
		}
	}
	w.sessions[b.id] = s
	if open.Apart {
		return nil // answered by the data connection
	}
	return w.out.send(ctx, wire.KindSessionOpened, &reply, theirs...)
}

// openShared opens a session of several workers. It answers when these are connected.
func (w *Worker) openShared(ctx context.Context, b *base, open *wire.OpenSession, reply wire.SessionOpened) error {
	s, err := newShared(ctx, b, open)
	if err != nil {
		w.sessions[b.id] = &forwarded{b}
		return w.failSession(ctx, w.sessions[b.id], err)
	}
	w.sessions[b.id] = s
	err = s.start(ctx, open, reply)
	if s.inlet().offered() {
		w.connected = append(w.connected, s)
	}
	return err
}

// closeSession ends a session, and its leases if the client has closed it or is gone. The
// client of a session that failed may still read results: it does not know yet, or it is
// in the middle of a read. Its leases end with a second CloseSession, of CodeOK.
func (w *Worker) closeSession(m *ipc.Message) error {
	var c wire.CloseSession
	if err := wire.Parse(m.Body, &c); err != nil {
		return err
	}
	if s := w.sessions[c.Session]; s != nil {
		w.endSession(s)
	}
	if c.Reason == wire.CodeOK {
		release(w, c.Session)
	}
	return nil
}

// stopSession stops the programs of a session that its client no longer waits for.
func (w *Worker) stopSession(m *ipc.Message) error {
	var stop wire.Stop
	if err := wire.Parse(m.Body, &stop); err != nil {
		return err
	}
	if s := w.sessions[stop.Session]; s != nil {
		s.core().stops.to(stop.Seq)
	}
	return nil
}

// trim gives memory that no process has mapped back to the machine if no session is open.
func (w *Worker) trim() {
	if len(w.sessions) == 0 {
		w.dev.Arena().Trim()
	}
}

// endSession frees a session, except the results that are leased to its client.
func (w *Worker) endSession(s session) {
	c := s.core()
	delete(w.sessions, c.id)
	w.owners.set(c.id, nil)
	w.stats.sessions.Add(-1)
	for _, p := range c.programs.byHash {
		w.monitor.forgotten(p.parsed, p.runs)
	}
	w.monitor.traffic.add(c.traffic)
	w.disown(s)
	w.idle(s)
	s.close()
	w.log.Debug("session closed", "session", c.id, "name", c.name)
	w.trim()
}

// failSession ends a session because of an error, and tells the dispatcher why.
func (w *Worker) failSession(ctx context.Context, s session, cause error) error {
	if ctx.Err() != nil && errors.Is(cause, errTeam) {
		return ctx.Err() // this worker is the one that is missing
	}
	w.stats.failed.Add(1)
	level := slog.LevelWarn
	if errors.Is(cause, errTeam) { // the dispatcher logs the reason
		level = slog.LevelInfo
	}
	c := s.core()
	w.log.Log(ctx, level, "session failed", "session", c.id, "name", c.name, "err", cause)
	m := wire.Fail{Session: c.id, Code: failureCode(cause), Text: wire.CutText(fmt.Sprintf("worker %q: %v", w.name, cause))}
	if d, ok := s.(*direct); ok {
		d.tell(&m)
	}
	w.endSession(s)
	return w.out.send(ctx, wire.KindFail, &m)
}
