package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Bounds of one Run. A batch with more travels as several.
const (
	maxUploads = 1024
	maxFrees   = 8192
	maxFetch   = 1024
	maxReturns = 1024
	maxForget  = 256
)

// stopAfter bounds the wait for another dispatcher, to which a Stop is sent.
const stopAfter = 5 * time.Second

// Submit sends b and, if b fetches or syncs, waits for its end.
func (e *Engine) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.Load() {
		return nil, fmt.Errorf("client: %w", tensor.ErrClosed)
	}
	if e.err == nil {
		// handle the answers that have come; an error is in e.err
		_ = e.drain()
	}
	if e.err != nil {
		return nil, e.err
	}
	if ctx.Done() != e.watched.done {
		e.watched.watch(ctx, e.seq, e.interrupt)
	}
	e.stats.batches.Add(1)
	e.frees = append(e.frees, b.Frees...)
	began := e.events.now()
	if e.flight.folder != "" {
		e.flight.note(e.seq+1, b)
	}
	got, err := e.submit(ctx, b)
	if e.events != nil {
		e.events.submitted(began, e.seq, b, got)
	}
	if !b.Sync && len(b.Fetch) == 0 {
		return nil, err
	}
	if e.late != nil && e.err == nil {
		if err != nil { // the first error is the cause of the others
			e.fails(err)
		}
		err, e.late = e.late, nil
	}
	if err != nil {
		for _, f := range got {
			f.Release()
		}
		return nil, e.flight.overdue(e, err)
	}
	e.stats.fetched.Add(uint64(len(got)))
	return got, nil
}

// spares reports whether ctx has ended for waits alone: its channel is open, so programs
// that were recorded under it run.
func spares(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	default:
		return ctx.Err() != nil
	}
}

// watched is a context whose end stops the programs that run then.
type watched struct {
	done   <-chan struct{}
	after  uint64      // the last Run of an earlier context
	ignore func() bool // ends the watch
}

// watch watches ctx, instead of the context before it.
func (w *watched) watch(ctx context.Context, after uint64, interrupt func()) {
	if w.ignore != nil {
		w.ignore()
	}
	*w = watched{done: ctx.Done(), after: after}
	if w.done != nil {
		w.ignore = context.AfterFunc(ctx, interrupt)
	}
}

// interrupt has the workers stop the programs of all Runs that were sent. Their failures
// are not told: the context's end was, or will be. While a Run of an earlier context has
// not ended, which would be stopped with them, none is.
func (e *Engine) interrupt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.closing.Load() || e.acked == e.seq || e.acked < e.watched.after {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, stopAfter)
	defer cancel()
	for e.err == nil && e.acked < e.seq {
		if e.found.known {
			err := e.stop(ctx, e.seq)
			if err == nil {
				e.failed, e.ended = max(e.failed, e.seq), e.seq
			}
			if !errors.Is(err, ipc.ErrPeerGone) {
				return // else the dispatcher does not read
			}
		}
		if e.receive(ctx) != nil { // waits for a dispatcher that knows the session
			return
		}
	}
}

// Expect wakes the worker, if it sleeps, while the session encodes the program.
func (e *Engine) Expect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n, ok := e.own.(nudger); ok && e.err == nil && !e.closing.Load() {
		n.Nudge()
	}
}

// nudger is a conn of ipc/local.
type nudger interface{ Nudge() }

// submit sends b as one Run if it fits, else as several: uploads, the program, fetches,
// frees.
func (e *Engine) submit(ctx context.Context, b *tensor.Batch) (got []tensor.Fetched, err error) {
	sent := false
	defer func() {
		if sent || b.Program == nil {
			return
		}
		for i, x := range b.Program.Externals { // which the program would have freed
			if x.Donated {
				e.frees = append(e.frees, b.Inputs[i])
			}
		}
	}()
	uploads := b.Uploads
	for len(uploads) > maxUploads {
		if err := e.upload(ctx, b.Base, uploads[:maxUploads]); err != nil {
			return nil, err
		}
		uploads = uploads[maxUploads:]
	}
	e.begin(b.Base)
	if err := e.addProgram(ctx, b); err != nil {
		return nil, err
	}
	e.run.Fetch = append(e.run.Fetch, b.Fetch[:min(len(b.Fetch), maxFetch)]...)
	fetch := b.Fetch[len(e.run.Fetch):]
	if e.size(uploads) > ipc.MaxMessage {
		main := e.run
		e.run = wire.Run{}
		if err := e.upload(ctx, b.Base, uploads); err != nil {
			return nil, err
		}
		main.Frees = nil
		e.run, uploads = main, nil
	} else if len(fetch) == 0 {
		e.addFrees()
	}
	if err := e.addUploads(uploads); err != nil {
		return nil, err
	}
	before := e.seq
	got, err = e.exchange(ctx, b.Sync && len(fetch) == 0 && len(e.frees) == len(e.run.Frees))
	if sent = e.seq > before; err != nil || len(fetch) == 0 && len(e.frees) == 0 {
		return got, err
	}
	return e.rest(ctx, b, fetch, got)
}

// rest fetches and frees what did not fit into the first Run.
func (e *Engine) rest(ctx context.Context, b *tensor.Batch, fetch []uint64, got []tensor.Fetched) ([]tensor.Fetched, error) {
	for len(fetch) > 0 || len(e.frees) > 0 {
		e.begin(b.Base)
		e.run.Fetch = append(e.run.Fetch, fetch[:min(len(fetch), maxFetch)]...)
		if fetch = fetch[len(e.run.Fetch):]; len(fetch) == 0 {
			e.addFrees()
		}
		more, err := e.exchange(ctx, b.Sync && len(fetch) == 0 && len(e.frees) == len(e.run.Frees))
		if got = append(got, more...); err != nil {
			return got, err
		}
	}
	return got, nil
}

// upload sends a Run of uploads alone.
func (e *Engine) upload(ctx context.Context, base uint64, uploads []tensor.Upload) error {
	e.begin(base)
	if err := e.addUploads(uploads); err != nil {
		return err
	}
	_, err := e.exchange(ctx, false)
	return err
}

// addProgram puts b's program into e.run, and sends its body ahead if the worker does not
// have it.
func (e *Engine) addProgram(ctx context.Context, b *tensor.Batch) error {
	if b.Program == nil {
		return nil
	}
	hash, encoded := wire.Hash(b.Hash), b.Encoded
	if e.programs.use(hash) {
		e.stats.known.Add(1)
	} else {
		if len(e.workers) > 1 { // a single worker ignores the config
			if err := e.config.CheckProgram(b.Program); err != nil {
				return fmt.Errorf("client: %w", err)
			}
		}
		if err := wire.Bodies(0, hash, encoded, ipc.MaxMessage, func(m *wire.Body) error {
			return e.send(ctx, wire.KindBody, m)
		}); err != nil {
			return err
		}
		e.stats.bodies.Add(1)
		e.stats.bodyBytes.Add(uint64(len(encoded)))
		e.forget = slices.DeleteFunc(e.forget, func(h wire.Hash) bool { return h == hash })
		before := len(e.forget)
		e.forget = e.programs.add(hash, len(encoded), e.forget)
		e.stats.forgotten.Add(uint64(len(e.forget) - before))
		e.stats.programs.Store(uint64(e.programs.order.Len()))
		e.stats.programsB.Store(uint64(e.programs.bytes))
	}
	e.run.Hash = hash
	e.run.Scalars = append(e.run.Scalars, b.Scalars...)
	e.run.Inputs = append(e.run.Inputs, b.Inputs...)
	return nil
}

// exchange sends e.run, once the worker is not too far behind. If it fetches or sync is
// set, it waits for the answer. A context that ends for waits alone, see spares, ends the
// first wait, too: the Run is sent beyond the bound, or kept where there is no room.
func (e *Engine) exchange(ctx context.Context, sync bool) ([]tensor.Fetched, error) {
	run := &e.run
	wait := sync || len(run.Fetch) > 0
	bytes := 0
	for i := range run.Uploads {
		bytes += int(run.Uploads[i].Handle.Len)
	}
	for e.asked > e.acked && (e.seq-e.acked >= maxAhead || e.aheadB > maxAheadBytes) {
		if err := e.receive(ctx); err != nil && e.err == nil && spares(ctx) {
			break
		} else if err != nil {
			e.dropUploads()
			return nil, err
		}
	}
	run.Seq = e.seq + 1
	if sync || wait && len(e.workers) == 1 || run.Seq-e.asked >= askEvery || e.aheadB+bytes > maxAheadBytes/4 {
		run.Flags |= wire.RunSync
	}
	if err := e.sendRun(ctx); err != nil {
		e.dropUploads()
		return nil, err
	}
	e.seq = run.Seq
	if wait || run.Flags&wire.RunSync != 0 {
		e.asked = e.seq
	}
	if bytes > 0 {
		e.ahead = append(e.ahead, sent{e.seq, bytes})
		e.aheadB += bytes
		if e.events != nil {
			e.events.add(wire.EventUpload, time.Now(), uint64(len(run.Uploads)), uint64(bytes))
		}
		e.stats.uploads.Add(uint64(len(run.Uploads)))
		e.stats.uploadBytes.Add(uint64(bytes))
	}
	if wait {
		return e.await(ctx)
	}
	return nil, nil
}

// sendRun sends e.run with returned results and forgotten programs, and new segments
// before it.
func (e *Engine) sendRun(ctx context.Context) error {
	run := &e.run
	run.Returns = e.returned.first(run.Returns[:0], maxReturns)
	if e.apart {
		if err := e.push(ctx); err != nil && e.err == nil && spares(ctx) {
			e.pushing = true
		} else if err != nil {
			return err
		}
	}
	for _, s := range e.segments.first(nil, math.MaxInt) {
		if e.near() {
			if err := e.announce(ctx, s); err != nil {
				return err
			}
		}
		e.segments.drop(1)
	}
	run.Forget = e.forget[:min(len(e.forget), maxForget)]
	e.message = wire.AppendRun(e.message[:0], run, &e.history)
	if err := e.sendMessage(ctx, wire.KindRun); err != nil {
		return err
	}
	e.history.Record(run)
	e.forget = e.forget[:copy(e.forget, e.forget[len(run.Forget):])]
	e.frees = e.frees[:copy(e.frees, e.frees[len(run.Frees):])]
	e.returned.drop(len(run.Returns))
	return nil
}

// announce gives the worker a segment of ours.
func (e *Engine) announce(ctx context.Context, s *shm.Segment) error {
	m := wire.Segment{ID: s.ID(), Bytes: uint64(s.Size()), Memory: wire.MemoryHost}
	if err := e.send(ctx, wire.KindSegment, &m, s.File()); err != nil {
		return err
	}
	e.stats.segments.Add(1)
	return nil
}

// send sends one message.
func (e *Engine) send(ctx context.Context, kind uint32, m wire.Message, files ...*os.File) error {
	e.message = wire.Append(e.message[:0], m)
	return e.sendMessage(ctx, kind, files...)
}

// message is one to be sent.
type message struct {
	kind  uint32
	body  []byte
	files []*os.File
}

// sendMessage sends e.message. If a wait for room is ended by a context that ends for
// waits alone, the message is kept: the next wait goes on with it. A Save is not, as its
// caller closes the files.
func (e *Engine) sendMessage(ctx context.Context, kind uint32, files ...*os.File) error {
	err := catchUp(ctx, e)
	if err == nil {
		err = deliver(ctx, e, &message{kind, e.message, files})
	}
	if err != nil && e.err == nil && spares(ctx) && kind != wire.KindSave {
		e.unsent = append(e.unsent, message{kind, slices.Clone(e.message), files})
		return nil
	}
	return err
}

// catchUp sends what earlier calls have left.
func catchUp(ctx context.Context, e *Engine) error {
	if e.pushing {
		if err := e.transfer(ctx, isPushed); err != nil {
			return err
		}
		e.pushing = false
	}
	for len(e.unsent) > 0 {
		if err := deliver(ctx, e, &e.unsent[0]); err != nil {
			return err
		}
		if e.unsent = e.unsent[1:]; len(e.unsent) == 0 {
			e.unsent = nil
		}
	}
	return nil
}

// deliver sends a message, once there is room for it.
func deliver(ctx context.Context, e *Engine, m *message) error {
	n, began := len(m.body), e.events.now()
	buf, err := e.to.TryReserve(m.kind, n)
	if errors.Is(err, ipc.ErrFull) {
		buf, err = e.room(ctx, m.kind, n)
	}
	if err != nil && ctx.Err() != nil && e.to.Err() == nil {
		return ipc.ContextError(ctx)
	}
	if err == nil {
		copy(buf, m.body)
		e.stats.messages.Add(1)
		e.stats.bytes.Add(uint64(n))
		err = e.to.Commit(m.files...)
		e.events.sent(began, m.kind, n)
	}
	if err != nil {
		return e.broken(err)
	}
	return nil
}

// broken ends the session because a connection takes no more messages. The dispatcher's
// last messages may have the reason.
func (e *Engine) broken(err error) error {
	_ = e.drain()
	return e.fail(err)
}
