package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// Limits of what one session may have.
const (
	maxPrograms     = 1024     // a client keeps to a quarter of this
	maxProgramBytes = 64 << 20 // of encoded programs

	// maxSegments is more than a client's arena makes in most machines' memory; each costs a descriptor here.
	maxSegments = 512

	// Uploads that were given back wait for the next answer, but no more than these.
	maxReturned      = 256
	maxReturnedBytes = 8 << 20
)

// Options of a worker. The zero value and nil are the documented defaults.
type Options struct {
	// Name of the worker, which no other of the same dispatcher has. Default worker-PID.
	Name string

	// Device runs the programs; the worker closes it at the end of Serve. Default the cpu of
	// this machine, see package tensor/cpu.
	Device Device

	// Transport dials the dispatcher. Default the first of route.Order that reaches its address: TCP for
	// host:port, and with Secret.
	Transport ipc.Transport

	// Secret is shared with a dispatcher on another host.
	Secret []byte

	// Quota bounds the bytes of one session's values, and MaxMapped those of a client's
	// segments that are mapped here. 0: no limit but the machine's.
	Quota     uint64
	MaxMapped int64

	// Bind has the worker's goroutine run on one core, by its rank, while it has a session whose workers are of this host and as many as
	// there are cores. For one that has a process of its own.
	Bind bool

	// AllowUnsealed takes clients' segments that the client can still shrink, such as those
	// of a file system. A client that does so while it is read then ends the worker, or, if it is
	// read by the worker's own goroutine, its session.
	AllowUnsealed bool

	// Logger receives sessions that come, go and misbehave; nothing per message. nil discards.
	Logger *slog.Logger
}

// Stats are a worker's counters.
type Stats struct {
	Sessions       int    // open
	Opened, Failed uint64 // sessions since the start; of these ended by their mistakes
	Runs, Errors   uint64 // batches; of these failed
	Programs       uint64 // bodies received
	Imports        uint64 // uploads read in place
	Results        uint64 // values handed out
}

// Worker runs programs. Stats may be called by any goroutine.
type Worker struct {
	o        Options
	log      *slog.Logger
	dev      Device
	conn     ipc.Conn       // to the dispatcher
	waiter   *local.Waiter  // that the goroutine sleeps on, for this conn and those of sessions
	post     post           // what is said over it
	leaving  sync.WaitGroup // of groups that sessions had, and of offers of conns
	table    *shm.Table     // the clients' segments, by session
	sessions map[uint64]*session
	run      wire.Run    // the one being handled
	done     wire.Done   // its answer
	ready    []*session  // those with a backlog
	owned    []*session  // those with conns of their own, or an offer of one
	broken   bool        // one of these conns is
	asking   bool        // one of these sessions wants a turn
	holder   *session    // that has the turn here, of those of several workers
	msg      ipc.Message // the dispatcher's oldest message, when held
	held     bool
	lost     error         // why the dispatcher is
	look     func() bool   // finds something to do
	arrived  uint64        // messages that were put into backlogs
	looked   time.Time     // when what had come was last taken in
	clock    time.Duration // what the session that had the last turn had used before it
	binding  binding
	watch    watching
	stats    struct {
		sessions                                                 atomic.Int64
		opened, failed, runs, errors, programs, imports, results atomic.Uint64
	}
}

// New makes a worker; Serve runs it.
func New(o *Options) (*Worker, error) {
	w := &Worker{sessions: map[uint64]*session{}}
	if o != nil {
		w.o = *o
	}
	if w.o.Name == "" {
		w.o.Name = fmt.Sprintf("worker-%d", os.Getpid())
	}
	if len(w.o.Name) > wire.MaxName || w.o.MaxMapped < 0 {
		return nil, fmt.Errorf("%w: Name of %d bytes, at most %d; MaxMapped %d", ErrOption, len(w.o.Name), wire.MaxName, w.o.MaxMapped)
	}
	if w.log = w.o.Logger; w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.dev = w.o.Device; w.dev == nil {
		dev, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{Segment: Segments()}})
		if err != nil {
			return nil, err
		}
		w.dev = CPU(dev)
	}
	w.look = w.lookAround
	w.table = shm.NewTable(&shm.TableOptions{Sealed: !w.o.AllowUnsealed, MaxBytes: w.o.MaxMapped, MaxSegments: maxSegments, OnRelease: func(owner uint64, h shm.Handle) {
		if s := w.sessions[owner]; s != nil {
			s.giveBack(h)
		}
	}})
	return w, nil
}

// Segments is how a device's arena is best made: clients can read their results in it, and neither
// write nor take memory away.
func Segments() shm.Options { return shm.Options{Backing: shm.Memfd, PeersRead: true} }

// Name is the worker's name.
func (w *Worker) Name() string { return w.o.Name }

// Stats returns the counters so far.
func (w *Worker) Stats() Stats {
	s := &w.stats
	return Stats{
		Sessions: int(s.sessions.Load()), Opened: s.opened.Load(), Failed: s.failed.Load(),
		Runs: s.runs.Load(), Errors: s.errors.Load(), Programs: s.programs.Load(),
		Imports: s.imports.Load(), Results: s.results.Load(),
	}
}

// Serve connects to the dispatcher at addr and runs what it sends, until ctx is done (then nil)
// or the dispatcher is gone (then ErrDispatcher; ErrNameTaken when it did not want us). Sessions
// that are open then are told why. It is called once.
func (w *Worker) Serve(ctx context.Context, addr string) error {
	defer w.close()
	var err error
	if w.waiter, err = local.NewWaiter(); err != nil {
		return fmt.Errorf("worker %q: %w", w.o.Name, err)
	}
	order := route.Order()
	if w.o.Transport != nil {
		order = []ipc.Transport{w.o.Transport}
	}
	conn, err := route.Dial(ctx, order, []string{addr}, &ipc.Options{
		Hello: ipc.Peer{Role: ipc.RoleWorker, Name: w.o.Name}, Logger: w.log, Secret: w.o.Secret, Waiter: w.waiter,
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("worker %q: %w", w.o.Name, err)
	}
	w.conn = conn
	w.log.Info("worker connected", "worker", w.o.Name, "device", w.dev.Name(), "dispatcher", addr)
	// Of segments that are not sealed: a client that shrinks the file makes reading it a fault. As a
	// panic it costs that client its session and nobody else anything.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for {
		err := w.step(ctx)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			w.farewell(context.Cause(ctx))
			return nil
		case errors.Is(err, ErrNameTaken), errors.Is(err, ErrDispatcher):
			return err
		default:
			return fmt.Errorf("worker %q: %w at %s: %w", w.o.Name, ErrDispatcher, addr, err)
		}
	}
}

// close gives everything back. Leases end with the arena and not before: a client that was just handed a
// result reads it as it is, though nobody is there any more who could tell it otherwise.
func (w *Worker) close() {
	if w.conn != nil {
		_ = w.conn.Close()
	}
	for _, s := range w.sessions {
		w.disown(s)
		s.free()
	}
	w.leaving.Wait()
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
	text := wire.CutText(fmt.Sprintf("worker %q (pid %d) is stopping: %v", w.o.Name, os.Getpid(), cause))
	for _, s := range w.sessions {
		m := wire.Fail{Session: s.id, Code: wire.CodeWorkerGone, Text: text}
		if w.trySend(wire.KindFail, m.Size(), func(dst []byte) []byte { return wire.AppendFail(dst, &m) }) != nil {
			return
		}
	}
}

// handle does what one message says. An error ends the worker.
func (w *Worker) handle(ctx context.Context, m *ipc.Message) error {
	id, ok := wire.Session(m.Body)
	if !ok {
		return fmt.Errorf("%w: %s of %d bytes", ipc.ErrCorrupt, wire.KindName(m.Kind), len(m.Body))
	}
	if w.watch.on {
		defer w.watch.message(w, time.Now(), m.Kind, id, len(m.Body))
	}
	switch m.Kind {
	case wire.KindWatch:
		return w.answerWatch(ctx, m)
	case wire.KindOpenSession:
		return w.openSession(ctx, m)
	case wire.KindFail:
		return w.refused(m)
	}
	s := w.sessions[id]
	if s == nil {
		return nil // it was failed here, and the dispatcher had not heard
	}
	switch m.Kind {
	case wire.KindCloseSession:
		w.endSession(s)
		return nil
	case wire.KindLink:
		if s.link == nil {
			return w.failSession(ctx, s, fmt.Errorf("%w: Link in a session that shares memory", errProtocol))
		}
		if err := s.link.hear(m.Body); err != nil {
			return w.failSession(ctx, s, err)
		}
		return nil
	case wire.KindMeet:
		if s.shared == nil {
			return w.failSession(ctx, s, fmt.Errorf("%w: Meet in a session of one worker", errProtocol))
		}
		if err := s.team.hear(m); err != nil {
			return w.failSession(ctx, s, err)
		}
		return nil
	}
	var err error
	if m.Kind == wire.KindTurn {
		err = s.hearTurn(ctx, m.Body)
	} else {
		err = s.handle(ctx, m)
	}
	if ends(err) {
		return w.failSession(ctx, s, err)
	}
	return err
}

// refused is what the dispatcher says to the worker itself.
func (w *Worker) refused(m *ipc.Message) error {
	var f wire.Fail
	if err := wire.ParseFail(m.Body, &f); err != nil {
		return err
	}
	if f.Code == wire.CodeNameTaken {
		return fmt.Errorf("%w: %s", ErrNameTaken, f.Text)
	}
	return fmt.Errorf("%w: %s", ErrDispatcher, f.Text)
}

// openSession starts a session and answers the client.
func (w *Worker) openSession(ctx context.Context, m *ipc.Message) error {
	var open wire.OpenSession
	if err := wire.ParseOpenSession(m.Body, &open); err != nil {
		return err
	}
	if w.sessions[open.Session] != nil {
		return fmt.Errorf("%w: session %d opened twice", ipc.ErrCorrupt, open.Session)
	}
	quota := w.o.Quota
	if open.Quota != 0 && (quota == 0 || open.Quota < quota) {
		quota = open.Quota
	}
	s := newSession(w, open.Session, open.Name, quota)
	w.sessions[open.Session] = s
	w.stats.sessions.Add(1)
	w.stats.opened.Add(1)
	w.log.Debug("session opened", "session", open.Session, "name", open.Name)
	reply := w.opened(&open)
	write := func(dst []byte) []byte { return wire.AppendSessionOpened(dst, &reply) }
	if open.Apart {
		s.link = newLink(w, &open)
		var alone func() error // else the team tells, when it stands as well
		if open.Workers <= 1 {
			alone = func() error { return w.say(wire.KindSessionOpened, reply.Size(), write) }
		}
		s.link.start(bytes.Clone(open.Token), alone)
	}
	switch {
	case open.Workers > 1:
		if err := s.share(ctx, &open, reply); err != nil {
			if !ends(err) {
				return err
			}
			return w.failSession(ctx, s, err)
		}
		return nil
	case open.Apart:
		return nil
	}
	var theirs []*os.File
	if open.Direct && local.Is(w.conn) {
		if f := s.offer(); f != nil {
			theirs = append(theirs, f)
			defer f.Close()
		}
	}
	return w.send(ctx, wire.KindSessionOpened, reply.Size(), write, theirs...)
}

// endSession frees what a session has. When it was the last one, memory that nobody has mapped
// any more goes back to the machine.
func (w *Worker) endSession(s *session) {
	delete(w.sessions, s.id)
	w.stats.sessions.Add(-1)
	w.watch.fold(s)
	w.disown(s)
	s.close()
	w.log.Debug("session closed", "session", s.id, "name", s.name)
	if len(w.sessions) == 0 {
		w.dev.Arena().Trim()
	}
}

// failSession ends a session that broke the protocol, and tells its client.
func (w *Worker) failSession(ctx context.Context, s *session, cause error) error {
	if ctx.Err() != nil && errors.Is(cause, errTeam) {
		return ctx.Err() // the worker that is missing is this one, which says why as it leaves
	}
	w.stats.failed.Add(1)
	level := slog.LevelWarn
	if errors.Is(cause, errTeam) { // of several workers those that are left see that it ended, and the dispatcher says why
		level = slog.LevelInfo
	}
	w.log.Log(ctx, level, "session failed", "session", s.id, "name", s.name, "err", cause)
	w.endSession(s)
	m := wire.Fail{Session: s.id, Code: wire.CodeProtocol, Text: wire.CutText(fmt.Sprintf("worker %q: %v", w.o.Name, cause))}
	switch {
	case errors.Is(cause, errInternal):
		m.Code = wire.CodeInternal
	case errors.Is(cause, errTeam):
		m.Code = wire.CodeWorkerGone
	case errors.Is(cause, errUnread):
		m.Code = wire.CodeQuota
	}
	return w.send(ctx, wire.KindFail, m.Size(), func(dst []byte) []byte { return wire.AppendFail(dst, &m) })
}
