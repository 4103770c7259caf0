package client

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// piece is what one worker has of a result: all of it, or the part that begins at start.
type piece struct {
	tensor.Fetched
	whole tensor.Shape
	start []int // nil for all of it
}

// join notes that a worker serves the session.
func (e *Engine) join(m *wire.SessionOpened) error {
	if int(m.Rank) >= len(e.workers) {
		return fmt.Errorf("session opened by worker %d of %d", m.Rank, len(e.workers))
	}
	w := &e.workers[m.Rank]
	if w.opened {
		return fmt.Errorf("session opened twice, by %q and %q", w.name, m.Worker)
	}
	w.opened, w.name, w.pid = true, m.Worker, m.PID
	if m.Apart != (w.link != nil && w.link.conn != nil) {
		return fmt.Errorf("session opened by worker %q, apart: %v, without a word before", m.Worker, m.Apart)
	}
	e.opened++
	return nil
}

// complete says whether all answers to the awaited Run have come that are going to.
// Several workers do a Run together or fail together, so that the first one's answer is
// that of all; of the others those answer who have a part of what is fetched, and all of
// them if they were asked to.
func (e *Engine) complete() bool {
	if e.acked < e.awaited {
		return false
	}
	for i := range e.workers {
		if e.run.Flags&wire.RunSync != 0 && e.workers[i].acked < e.awaited {
			return false
		}
	}
	for i, n := range e.expected {
		if e.gotErr == nil && len(e.pieces[i]) < n {
			return false
		}
	}
	return true
}

// piecesOf is on how many workers a result lies that lies on a mesh.
func piecesOf(r *wire.Result, m shard.Mesh) int {
	n := 1
	for k, d := range m {
		if r.Layout>>(4*k)&15 != 0 {
			n *= d.Size
		}
	}
	return n
}

// count sums up what the workers said of their collectives.
func (e *Engine) count() {
	var calls, moved, plans, took, hidden uint64
	for i := range e.workers {
		w := &e.workers[i]
		calls, moved, plans = max(calls, w.calls), max(moved, w.moved), max(plans, w.plans)
		took, hidden = took+w.took, hidden+w.hidden
	}
	e.stats.calls.Store(calls)
	e.stats.moved.Store(moved)
	e.stats.plans.Store(plans)
	e.stats.took.Store(took)
	e.stats.hidden.Store(hidden)
}

// piece is what the worker of that rank has of a result.
func (e *Engine) piece(r *wire.Result, rank int) (piece, error) {
	p := piece{whole: make(tensor.Shape, len(r.Dims))}
	p.DType = tensor.DType(r.DType)
	for i, d := range r.Dims {
		p.whole[i] = int(d)
	}
	if !p.DType.Valid() {
		return p, fmt.Errorf("dtype %d", r.DType)
	}
	if err := p.whole.Check(p.DType); err != nil {
		return p, err
	}
	p.Shape = p.whole
	if r.Layout != 0 {
		w := &e.workers[rank]
		l, ok := w.mesh.LayoutOf(r.Layout, len(p.whole))
		if !ok {
			return p, fmt.Errorf("%v%v in layout %#x on a mesh of %v", p.DType, p.whole, r.Layout, w.mesh)
		}
		p.start, p.Shape = w.mesh.Local(l, p.whole, w.place)
	}
	var err error
	p.Fetched, err = e.fetched(r, rank, p.Fetched)
	return p, err
}

// assemble makes the awaited results of the pieces that have come: as they lie, or put
// together in memory of their own.
func (e *Engine) assemble() ([]tensor.Fetched, error) {
	got := make([]tensor.Fetched, 0, len(e.pieces))
	for i, all := range e.pieces {
		f, err := together(all)
		if err != nil {
			for _, f := range got {
				f.Release()
			}
			e.pieces = e.pieces[i:]
			e.dropPieces()
			_ = e.conn.Close()
			return nil, e.fail(fmt.Errorf("value %d: %w", e.run.Fetch[i], err))
		}
		got = append(got, f)
	}
	e.pieces = nil
	return got, nil
}

func together(all []piece) (tensor.Fetched, error) {
	if len(all) == 0 {
		return tensor.Fetched{}, errors.New("no worker has it")
	}
	first := &all[0]
	if first.start == nil {
		if len(all) > 1 {
			return tensor.Fetched{}, fmt.Errorf("%d workers have all of it", len(all))
		}
		return first.Fetched, nil
	}
	size, elems := first.DType.Size(), 0
	for i := range all {
		p := &all[i]
		if p.DType != first.DType || !p.whole.Equal(first.whole) || p.start == nil {
			return tensor.Fetched{}, fmt.Errorf("workers have parts of %v%v and of %v%v", first.DType, first.whole, p.DType, p.whole)
		}
		elems += p.Shape.Elems()
	}
	if elems != first.whole.Elems() {
		return tensor.Fetched{}, fmt.Errorf("workers have %d of %d elements", elems, first.whole.Elems())
	}
	whole := make([]byte, elems*size)
	for i := range all {
		p := &all[i]
		shard.CopyIn(whole, p.Bytes, size, p.whole, p.start, p.Shape)
		p.Release()
	}
	return tensor.Fetched{DType: first.DType, Shape: first.whole, Bytes: whole, Release: func() {}}, nil
}

// dropPieces gives back what nobody is going to read.
func (e *Engine) dropPieces() {
	for _, all := range e.pieces {
		for _, p := range all {
			p.Release()
		}
	}
	e.pieces = nil
}
