package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// base is the part that sessions of every kind have: one client's values, programs and
// memory, and its messages.
type base struct {
	*env
	id       uint64
	name     string
	workers  int // number of workers that run the session together
	space    device.Space
	own      device.Space // the device's, under space
	stops    stops
	programs programs
	uploads  uploads
	results  results
	shown    map[uint64]struct{} // segments that the session's other workers have mapped
	history  wire.History
	replies  replier // where the message being handled is answered
	saving   *saving // the Save under way; nil for none
	backlog  backlog
	usage    usage
	traffic  traffic // with the other workers
}

// runner runs a session's batches and finds the values of its Saves: forwarded on one
// worker, shared on several.
type runner interface {
	// compile makes a program of a complete encoding. A program that cannot be run has
	// the reason as its err.
	compile(hash tensor.Hash, encoded []byte) *program

	// execute does a batch and adds its results to done.
	execute(ctx context.Context, run *wire.Run, done *wire.Done) error

	// answers reports whether this worker answers a batch that fetches values.
	answers(done *wire.Done) bool

	// sign completes an answer.
	sign(done *wire.Done)

	// writers returns the place of this worker among those of the session, and their
	// number.
	writers() (rank, of int)

	// readable prepares values for being read, on all of the session's workers or none.
	readable(ctx context.Context, ids []uint64) error

	// part returns this worker's part of the i-th value of a Save, and whether it is to
	// write that.
	part(i int, id uint64) (p part, mine bool, err error)
}

// newBase returns the base of the session that open opens. memory is its client's; quota
// bounds the bytes of its values, 0 is no bound.
func newBase(e *env, open *wire.OpenSession, memory clientMemory, quota uint64) *base {
	arena := e.dev.Arena()
	b := &base{env: e, stops: stops{flag: new(atomic.Bool), leave: func() {}}, id: open.Session, name: open.Name, workers: max(1, int(open.Workers)), replies: &e.out,
		programs: programs{byHash: map[tensor.Hash]*program{}}, shown: map[uint64]struct{}{},
		uploads: uploads{memory: memory, arena: arena},
		results: results{arena: arena, session: open.Session, mapped: memory.mapped(), announced: map[uint64]struct{}{}}}
	b.own = e.dev.Open()
	b.space = attend(e.dev, b.own, b)
	if quota > 0 {
		b.space = &limited{Space: b.space, quota: int(min(quota, math.MaxInt)), sizes: map[uint64]int{}}
	}
	return b
}

// core returns b.
func (b *base) core() *base { return b }

// together reports whether the session needs other workers: while one such session has
// the turn here, the others wait.
func (b *base) together() bool { return b.workers > 1 }

// free frees everything that the session holds here, except the results that are leased
// to the client: those end by Worker.closeSession.
func (b *base) free() {
	b.backlog.clear()
	b.endSave()
	b.uploads.memory.close()
	b.space.Close()
	b.table.ReleaseOwner(b.id)
}

// do handles a message of the client. errProtocol and errTeam end the session, errAgain
// means that the message is not done, any other error ends the worker.
func (b *base) do(ctx context.Context, r runner, m *ipc.Message) error {
	err := b.perform(ctx, r, m)
	if !errors.Is(err, errAgain) {
		b.count(m.Kind)
	}
	return err
}

// perform is do without counting the message.
func (b *base) perform(ctx context.Context, r runner, m *ipc.Message) error {
	switch m.Kind {
	case wire.KindSegment:
		if err := wire.MapSegment(b.table, b.id, m); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
		return nil
	case wire.KindBody:
		return b.addProgram(r, m)
	case wire.KindRun:
		return b.batch(ctx, r, m)
	case wire.KindSave:
		return b.save(ctx, r, m)
	}
	return fmt.Errorf("%w: unexpected %s (kind %d)", errProtocol, wire.KindName(m.Kind), m.Kind)
}

// count counts a message of the client.
func (b *base) count(kind uint32) {
	if n := b.usage.numbers.Next(kind); b.monitor.on {
		b.usage.number = n
	}
}

// addProgram takes a program, or a part of one.
func (b *base) addProgram(r runner, m *ipc.Message) error {
	var body wire.Body
	if err := wire.Parse(m.Body, &body); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	encoded, err := b.programs.add(&body)
	if err != nil || encoded == nil {
		return err
	}
	hash, began := tensor.Hash(body.Hash), b.monitor.now()
	p := r.compile(hash, encoded)
	if p.parsed != nil {
		b.monitor.compiled(b.id, began, hash, len(p.parsed.Instrs))
	}
	b.programs.put(hash, p, len(encoded))
	b.stats.programs.Add(1)
	return nil
}

// batch does a Run in this order: leases that come back, uploads, the program, the values
// that are fetched, those that are freed. It answers if the client wants an answer, if
// the batch failed, or if enough of the client's memory is to be given back.
func (b *base) batch(ctx context.Context, r runner, m *ipc.Message) error {
	run, done := &b.run, &b.done
	if err := wire.ParseRun(m.Body, run, &b.history); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	b.history.Record(run)
	if run.Flags&wire.RunTurn != 0 && !b.backlog.stopped {
		if err := b.flow(ctx, false); err != nil {
			return err
		}
	}
	for _, h := range run.Returns {
		if b.together() && !b.dev.Arena().Has(h.Segment) {
			continue // another worker's
		}
		if err := b.dev.Arena().Unlease(h, b.id); err != nil {
			return fmt.Errorf("%w: given back: %w", errProtocol, err)
		}
	}
	b.stats.runs.Add(1)
	b.usage.runs++
	b.results.begin()
	*done = wire.Done{Session: b.id, Seq: run.Seq, Results: done.Results[:0], Returned: done.Returned[:0], Base: run.Base, More: done.More[:0]}
	b.stops.begin(run.Seq)
	err := b.guard(ctx, r, run, done)
	if err != nil {
		b.stats.errors.Add(1)
		if ends(err) {
			return err
		}
		if lost := b.deviceLost(); lost != nil {
			return lost // of the worker: what it says to all sessions is the answer
		}
		b.results.revoke()
		if b.together() {
			explain(done, err)
		} else {
			explainAll(done, err)
		}
	}
	for _, h := range run.Forget {
		b.programs.forget(tensor.Hash(h), &b.monitor)
	}
	asked := run.Flags&wire.RunSync != 0 || len(run.Fetch) > 0 && r.answers(done)
	if !asked && err == nil && !b.uploads.full() {
		return nil
	}
	if err := b.results.announce(ctx, b.replies); err != nil {
		return err
	}
	r.sign(done)
	b.uploads.take(done)
	return b.replies.send(ctx, wire.KindDone, done)
}

// guard executes a batch. A panic, by a bug of the device or by a fault in the client's
// memory, ends the session.
func (b *base) guard(ctx context.Context, r runner, run *wire.Run, done *wire.Done) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("panic in a session's batch", "session", b.id, "name", b.name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %w: %v", errProtocol, errInternal, p)
		}
	}()
	return r.execute(ctx, run, done)
}

// runProgram runs a compiled program.
func (b *base) runProgram(p device.Program, hash tensor.Hash, first uint64, inputs []uint64, scalars []float64) error {
	if b.monitor.log == nil {
		return b.space.Run(p, first, inputs, scalars, nil)
	}
	began := time.Now()
	err := b.runSteps(p, first, inputs, scalars)
	b.monitor.program(b.id, began, hash, len(p.Parsed().Instrs))
	return err
}

// runSteps runs a compiled program, and keeps its steps where the device tells them. The
// listener's goroutine uses the monitor meanwhile, but not its steps.
func (b *base) runSteps(p device.Program, first uint64, inputs []uint64, scalars []float64) error {
	b.monitor.steps = b.monitor.steps[:0]
	if d, ok := b.dev.(device.StepTracer); ok {
		d.TraceSteps(b.monitor.step)
		defer d.TraceSteps(nil)
	}
	return b.space.Run(p, first, inputs, scalars, nil)
}

// hand puts the handles of an answer's values into it.
func (b *base) hand(done *wire.Done) error {
	if len(b.results.wanted) == 0 {
		return nil
	}
	n, err := b.results.hand(done, b.space)
	b.stats.results.Add(uint64(n))
	return err
}

// flow tells the dispatcher to hold the session's messages back, or to send more.
func (b *base) flow(ctx context.Context, stop bool) error {
	b.backlog.stopped = stop
	m := wire.Flow{Session: b.id, Stop: stop}
	return b.out.send(ctx, wire.KindFlow, &m)
}

// lateFailure returns the failure of a program that a batch before run ran, if err is
// one, otherwise nil.
func lateFailure(err error, run *wire.Run) *device.Failure {
	if err == nil {
		return nil
	}
	var late *device.Failure
	if !errors.As(err, &late) || run.Hash != (wire.Hash{}) && late.Base == run.Base {
		return nil
	}
	return late
}

// answerLate answers for the earlier batch whose program failed late. The worker does not
// know which batch that was, so the answer has the number before run's. The client
// reports the failure as that of some batch before the one that it waits for.
func (b *base) answerLate(ctx context.Context, late *device.Failure, run *wire.Run) error {
	b.stats.errors.Add(1)
	m := wire.Done{Session: b.id, Seq: run.Seq - 1}
	explainAll(&m, late)
	return b.replies.send(ctx, wire.KindDone, &m)
}
