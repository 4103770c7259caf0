package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// await waits for the answer to e.run, which was just sent.
func (e *Engine) await(ctx context.Context) ([]tensor.Fetched, error) {
	e.stats.roundTrips.Add(1)
	began := e.events.now()
	defer func() { e.events.add(wire.EventWait, began, e.run.Seq, 0) }()
	e.prepare(e.run.Seq, len(e.run.Fetch))
	defer func() { e.awaited = 0 }()
	for !e.complete(e.run.Flags&wire.RunSync != 0) {
		if err := e.receive(ctx); err != nil {
			e.dropPieces()
			return nil, err
		}
	}
	// Results of other Runs are moved as well, because data connections keep their order.
	if err := e.transfer(ctx, func(l *dataConn) bool { return len(l.conn.Recv.Blocks) == 0 }); err != nil {
		e.dropPieces()
		return nil, err
	}
	if e.gotErr != nil {
		e.dropPieces()
		return nil, e.gotErr
	}
	return e.assemble()
}

// receive waits for one message and handles it. Before that it sends what an earlier call
// has left.
func (e *Engine) receive(ctx context.Context) error {
	if err := catchUp(ctx, e); err != nil {
		return err
	}
	if err := e.waiter.Wait(ctx, e.look); err != nil {
		err = ipc.ContextError(ctx)
		if text := standstill(e); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	}
	return e.next()
}

// standstill says which process of an open session on this host stands still, and what to
// do. It is empty where all go on. Any goroutine may call it.
func standstill(e *Engine) string {
	if text := local.Standstill(e.current(false).Peer()); text != "" {
		return fmt.Sprintf("the dispatcher at %s: %s", e.addr, text)
	}
	for i := range e.workers {
		w := &e.workers[i]
		if w.data != nil {
			continue // of a host that may be another one
		}
		p := ipc.Peer{PID: int(w.pid)}
		if i == 0 && e.own != nil {
			p = e.own.Peer()
		}
		if text := local.Standstill(p); text != "" {
			return fmt.Sprintf("worker %q: %s", w.name, text)
		}
	}
	return ""
}

// drain handles the messages that are there.
func (e *Engine) drain() error {
	for e.err == nil && e.look() {
		if err := e.next(); err != nil {
			return err
		}
	}
	return e.err
}

// handle does what a message that came over a conn says, and gives it back.
func (e *Engine) handle(m *ipc.Message, from ipc.Conn) error {
	defer from.Release()
	kind := m.Kind
	if from == e.own && (kind == wire.KindSessionOpened || kind == wire.KindLink || kind == wire.KindResume || kind == wire.KindFail && !e.single) {
		kind = 0 // only the dispatcher sends messages about the session itself
	}
	var err error
	switch kind {
	case wire.KindSessionOpened:
		var opened wire.SessionOpened
		if err = wire.Parse(m.Body, &opened); err == nil {
			if err = e.join(&opened); err == nil {
				e.found.token = append(e.found.token, opened.Token...)
				err = e.offered(m)
			}
		}
	case wire.KindSegment:
		err = wire.MapSegment(e.table, self, m)
	case wire.KindDone:
		if err = wire.Parse(m.Body, &e.done); err == nil {
			err = e.answered(&e.done)
		}
	case wire.KindSaved:
		err = e.saved(m.Body)
	case wire.KindLink:
		err = e.hearLink(m.Body)
	case wire.KindResume:
		if err = e.resumed(m.Body); err == nil && e.ended > e.acked {
			_ = e.stop(e.ctx, e.ended) // there is room, as the connection is new
		}
	case wire.KindFail:
		var f wire.Fail
		if err = wire.Parse(m.Body, &f); err == nil {
			err = lost(&f)
		}
	default:
		err = fmt.Errorf("unexpected %s (kind %d)", wire.KindName(m.Kind), m.Kind)
	}
	ipc.CloseFiles(m.Files)
	if err == nil {
		return nil
	}
	if !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
		_ = e.conn.Close() // so that the other end notices
	}
	return e.fail(err)
}

// answered handles the end of a Run, and of all before it. It handles the results before
// the returned uploads, because a result may be one of these.
func (e *Engine) answered(m *wire.Done) error {
	if int(m.Rank) >= len(e.workers) {
		return fmt.Errorf("an answer of worker %d of %d", m.Rank, len(e.workers))
	}
	w := &e.workers[m.Rank]
	if m.Seq > e.seq || m.Seq < w.acked {
		return fmt.Errorf("answer to run %d; %d were sent, %d are done", m.Seq, e.seq, w.acked)
	}
	failed := failure(m)
	if m.Seq == e.awaited {
		if e.gotErr == nil && failed != nil {
			e.gotErr = failed
		}
		if failed == nil {
			if err := e.take(m, e.run.Fetch); err != nil {
				return err
			}
		}
	} else {
		// Several workers all say so.
		if failed != nil && m.Seq > e.ended && (len(e.workers) == 1 || m.Seq > e.failed) {
			e.fails(failed)
		}
		e.abandon(m.Results)
	}
	if failed != nil {
		e.failed = max(e.failed, m.Seq)
	}
	for _, h := range m.Returned {
		if err := e.arena.Unlease(h, self); err != nil {
			return fmt.Errorf("upload given back: %w", err)
		}
	}
	w.acked, w.calls, w.moved, w.plans, w.took, w.hidden = m.Seq, m.Calls, m.Moved, m.Plans, m.Took, m.Hidden
	e.acked = e.workers[0].acked
	if len(e.workers) > 1 {
		e.stats.collect(e.workers)
	}
	n := 0
	for n < len(e.ahead) && e.ahead[n].seq <= e.acked {
		e.aheadB -= e.ahead[n].bytes
		n++
	}
	e.ahead = e.ahead[:copy(e.ahead, e.ahead[n:])]
	return nil
}
