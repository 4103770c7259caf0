package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	// firstSegment is small: many clients upload little.
	firstSegment = 256 << 10

	// secondSegment is large: a segment costs a message.
	secondSegment = 4 << 20

	// trimEvery is how often queues are looked at. The second time in a row that one was
	// not used its memory goes back.
	trimEvery = 4 * time.Second

	// self owns the leases on blocks that the worker reads, and in the table the worker's
	// segments.
	self = 0

	// A client may be this far ahead of the worker, in batches and in bytes of their
	// uploads. It asks for an answer often enough to know.
	maxAhead      = 64
	askEvery      = maxAhead / 4
	maxAheadBytes = 256 << 20
)

// Engine runs programs on the workers of a session. As every tensor.Engine it is used by
// one goroutine at a time; any goroutine may call Close and Stats, and Release of a
// fetched value.
type Engine struct {
	addr  string // of the dispatcher
	name  string // of the client
	log   *slog.Logger
	far   []ipc.Transport // to workers that share no memory with the client
	tls   *ipc.TLS        // of those conns
	arena *shm.Arena      // of the client, for uploads
	table *shm.Table      // of the workers, for results
	lender
	ctx    context.Context // done with Close, for waits that have no other
	cancel context.CancelFunc
	stats  counters
	events *Events // nil unless Options.Trace
	paths

	watched watched // the context of the last Submit
	flight  flight

	segments handed[*shm.Segment] // of the arena, not announced yet

	smu     sync.Mutex
	trimmer *time.Timer // calls trim
	still   string      // what trim said last of a process that stands still

	// mu is held by Submit. It guards err and all below.
	mu  sync.Mutex
	err error // why the session is over
	team
	channels
	outbox
	results
	progress
	saver
	done wire.Done // the answer that is handled
}

// lender says whether Close was called, which it does first.
type lender struct{ closing atomic.Bool }

// Closed implements tensor.Lender.
func (l *lender) Closed() bool { return l.closing.Load() }

// progress is how far the session's Runs are.
type progress struct {
	seq    uint64 // of the last Run sent
	asked  uint64 // of the last Run sent that is answered in any case
	acked  uint64 // of the last Done of the first worker
	failed uint64 // of the last Run that failed
	ended  uint64 // of the last Run that a Stop has named, which may be lost
	ahead  []sent // Runs with uploads that are not acked
	aheadB int    // bytes of these uploads
	late   error  // first error of a Run that no caller waits for
}

// counters are the Engine's Stats.
type counters struct {
	batches, messages, bytes, roundTrips, bodies, bodyBytes atomic.Uint64
	uploads, uploadBytes, fetched, segments, pushed         atomic.Uint64
	known, forgotten, programs, programsB                   atomic.Uint64
	calls, moved, plans, took, hidden                       atomic.Uint64
}

// collect sums up the workers' counters of collectives.
func (c *counters) collect(workers []member) {
	var calls, moved, plans, took, hidden uint64
	for i := range workers {
		w := &workers[i]
		calls, moved, plans = max(calls, w.calls), max(moved, w.moved), max(plans, w.plans)
		took, hidden = took+w.took, hidden+w.hidden
	}
	c.calls.Store(calls)
	c.moved.Store(moved)
	c.plans.Store(plans)
	c.took.Store(took)
	c.hidden.Store(hidden)
}

// sent is how much a Run uploaded.
type sent struct {
	seq   uint64
	bytes int
}

var (
	_ tensor.Engine    = (*Engine)(nil)
	_ tensor.Explainer = (*Engine)(nil)
	_ tensor.Unfuser   = (*Engine)(nil)
	_ tensor.Lender    = (*Engine)(nil)
)

// Stats are an engine's counters.
type Stats struct {
	Batches    uint64 // calls of Submit that sent something
	Messages   uint64 // sent, of any kind
	Bytes      uint64 // of these messages; the bytes of uploads are in shared memory
	RoundTrips uint64 // waits for an answer
	Bodies     uint64 // programs sent, because the worker did not have them
	BodyBytes  uint64 // bytes of these
	Known      uint64 // batches whose program the worker had
	// programs that the worker was told to forget, to make room for others
	Forgotten    uint64
	Programs     uint64 // programs that the worker has
	ProgramBytes uint64 // bytes of these
	Uploads      uint64 // values uploaded
	UploadBytes  uint64 // bytes of these
	Fetched      uint64 // values read
	Segments     uint64 // segments of the client announced to the worker
	Pushed       uint64 // bytes of uploads sent to workers that share no memory
	// bytes of the client's memory in use by uploads, and by results of workers on other
	// hosts
	InUse uint64

	// In sessions of several workers, as of their last answers: the collectives of each
	// worker, the most bytes that one of them sent, and the programs that they rewrote
	// for the layouts of tensors. A program that is run again is not rewritten.
	Calls, Moved, Plans uint64

	// Over all of these workers: the time that collectives ran, without transfers between
	// stages, and the part of it in which the workers computed meanwhile.
	Took, Hidden time.Duration
}

// Name is the workers' names and processes, and the dispatcher's address.
func (e *Engine) Name() string {
	names := make([]string, len(e.workers))
	for i, w := range e.workers {
		names[i] = fmt.Sprintf("%s (pid %d)", w.name, w.pid)
	}
	word := "worker"
	if len(names) > 1 {
		word = "workers"
	}
	return fmt.Sprintf("%s %s by %s", word, strings.Join(names, ", "), e.addr)
}

// Worker is the name and the process id of the worker that serves the session, the first
// of several.
func (e *Engine) Worker() (name string, pid int) { return e.workers[0].name, int(e.workers[0].pid) }

// Workers is how many workers serve the session.
func (e *Engine) Workers() int { return len(e.workers) }

// Stats returns the counters so far.
func (e *Engine) Stats() Stats {
	s := &e.stats
	return Stats{
		Calls: s.calls.Load(), Moved: s.moved.Load(), Plans: s.plans.Load(),
		Took: time.Duration(s.took.Load()), Hidden: time.Duration(s.hidden.Load()),
		Batches: s.batches.Load(), Messages: s.messages.Load(), Bytes: s.bytes.Load(), RoundTrips: s.roundTrips.Load(),
		Bodies: s.bodies.Load(), BodyBytes: s.bodyBytes.Load(), Uploads: s.uploads.Load(), UploadBytes: s.uploadBytes.Load(),
		Fetched: s.fetched.Load(), Segments: s.segments.Load(), Pushed: s.pushed.Load(), InUse: uint64(e.arena.Stats().InUse),
		Known: s.known.Load(), Forgotten: s.forgotten.Load(), Programs: s.programs.Load(), ProgramBytes: s.programsB.Load(),
	}
}

// Alloc returns memory for an upload. When there is none, it waits for the worker to give
// back the blocks that it no longer uses.
func (e *Engine) Alloc(n int) (tensor.Buffer, error) {
	b, err := e.arena.Alloc(n)
	if errors.Is(err, shm.ErrNoSpace) {
		if _, serr := e.Submit(e.ctx, &tensor.Batch{Sync: true}); serr != nil {
			e.mu.Lock()
			lost := e.err != nil
			if e.late == nil { // the error is one of an earlier batch
				e.late = serr
			}
			e.mu.Unlock()
			if lost {
				return nil, serr
			}
		}
		b, err = e.arena.Alloc(n)
	}
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, shm.ErrClosed):
		return nil, fmt.Errorf("client: %w", tensor.ErrClosed)
	}
	return nil, fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
}

// fail makes err the reason why the session is over, unless there is one: the peer's own
// reason comes before the end of its connection.
func (e *Engine) fail(err error) error {
	if e.err != nil {
		return e.err
	}
	switch {
	case e.closing.Load(), errors.Is(err, net.ErrClosed):
		e.err = fmt.Errorf("client: %w", tensor.ErrClosed)
	case errors.Is(err, ErrLost):
		e.err = e.flight.recorded(e, err)
	default:
		e.err = e.flight.recorded(e, fmt.Errorf("%w: dispatcher at %s: %w", ErrLost, e.addr, err))
	}
	return e.err
}
