package client

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// results is the answer to the Run that is waited for, as the workers' parts of it come,
// and the memory of results.
type results struct {
	team     *team
	arena    *shm.Arena          // the client's
	table    *shm.Table          // the workers'
	returned handed[wire.Handle] // results that are no longer used

	awaited  uint64    // the Run that is waited for, 0 for none
	expected []int     // number of pieces of each result
	pieces   [][]piece // of each result, as they come
	gotErr   error     // the Run's error
}

// prepare begins the answer to Run seq, which fetched n values.
func (rs *results) prepare(seq uint64, n int) {
	rs.awaited, rs.gotErr = seq, nil
	rs.pieces, rs.expected = encoding.Resize(rs.pieces, n), rs.expected[:0]
	for range n {
		rs.expected = append(rs.expected, 1) // until a worker's answer has a part
	}
}

// complete reports whether all answers to the awaited Run have come. Several workers run
// it together or fail together, so the first worker's answer is that of all. Of the
// others those answer that have a part of a fetched value, or all of them if the Run was
// synced.
func (rs *results) complete(synced bool) bool {
	if rs.team.workers[0].acked < rs.awaited {
		return false
	}
	for i := range rs.team.workers {
		if synced && rs.team.workers[i].acked < rs.awaited {
			return false
		}
	}
	for i, n := range rs.expected {
		if rs.gotErr == nil && len(rs.pieces[i]) < n {
			return false
		}
	}
	return true
}

// take adds a worker's parts of the results of the awaited Run, which fetched these ids.
func (rs *results) take(m *wire.Done, fetch []uint64) error {
	if len(m.Results) != len(fetch) {
		return fmt.Errorf("%d results for %d", len(m.Results), len(fetch))
	}
	for i := range m.Results {
		r := &m.Results[i]
		if r.ID != fetch[i] {
			return fmt.Errorf("result %d is value %d, expected %d", i, r.ID, fetch[i])
		}
		if r.Elsewhere && (m.Rank > 0 || len(rs.team.stages) > 1) {
			continue
		}
		rs.expected[i] = piecesOf(r, rs.team.workers[m.Rank].mesh)
		p, err := rs.piece(r, int(m.Rank))
		if errors.Is(err, tensor.ErrNoSpace) {
			rs.gotErr = err
			rs.abandon(m.Results[i:])
			return nil
		}
		if err != nil {
			return fmt.Errorf("value %d: %w", r.ID, err)
		}
		rs.pieces[i] = append(rs.pieces[i], p)
	}
	return nil
}

// piece returns the part of a result that the worker of that rank has.
func (rs *results) piece(r *wire.Result, rank int) (piece, error) {
	p := piece{whole: slices.Clone(r.Dims)}
	p.DType = tensor.DType(r.DType)
	if !p.DType.Valid() {
		return p, fmt.Errorf("dtype %d", r.DType)
	}
	if err := p.whole.Check(); err != nil {
		return p, err
	}
	p.Shape = p.whole
	if r.Layout != 0 {
		w := &rs.team.workers[rank]
		l, ok := w.mesh.LayoutOf(r.Layout, len(p.whole))
		if !ok {
			return p, fmt.Errorf("%v%v in layout %#x on a mesh of %v", p.DType, p.whole, r.Layout, w.mesh)
		}
		p.start, p.Shape = w.mesh.Local(l, p.whole, w.place)
	}
	var err error
	p.Fetched, err = rs.fetched(r, rank, p.Fetched)
	return p, err
}

// fetched returns f with the memory of a result, of which the worker of that rank has the
// part f.Shape: the worker's memory, or the client's own if the result is an upload.
func (rs *results) fetched(r *wire.Result, rank int, f tensor.Fetched) (tensor.Fetched, error) {
	f.Release = func() {}
	want := f.Shape.Elems() * f.DType.Size()
	if r.Elsewhere {
		return f, errors.New("it is said to be elsewhere")
	}
	if r.Inline != nil {
		f.Bytes = append([]byte(nil), r.Inline...)
	} else if l := rs.team.workers[rank].data; l != nil {
		if r.Handle.Len != uint64(want) {
			return f, fmt.Errorf("%v%v at %v, expected %d bytes", f.DType, f.Shape, r.Handle, want)
		}
		b, err := l.pull(rs.arena, r.Handle)
		if err != nil {
			return f, fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		f.Bytes, f.Release = b.Bytes(), releaseOnce(b)
	} else {
		b, err := rs.table.Open(self, r.Handle)
		if errors.Is(err, shm.ErrUnknownSegment) {
			b, err = rs.arena.Block(r.Handle)
		}
		if err != nil {
			return f, err
		}
		f.Bytes = b.Bytes()[:r.Handle.Len]
		f.Release = releaseOnce(b)
		if r.Handle.Off%alignment != 0 {
			f.Release()
			return f, fmt.Errorf("%v is not %d-byte aligned", r.Handle, alignment)
		}
	}
	if len(f.Bytes) != want {
		f.Release()
		return f, fmt.Errorf("%v%v of %d bytes, expected %d", f.DType, f.Shape, len(f.Bytes), want)
	}
	return f, nil
}

// abandon gives back the results of a Run that no caller waits for.
func (rs *results) abandon(results []wire.Result) {
	for i := range results {
		r := &results[i]
		if r.Inline != nil || r.Elsewhere {
			continue
		}
		if rs.arena.Has(r.Handle.Segment) {
			continue // ours
		}
		rs.returned.add(r.Handle)
	}
}

// dropPieces releases the parts that have come.
func (rs *results) dropPieces() {
	for _, all := range rs.pieces {
		for _, p := range all {
			p.Release()
		}
	}
	rs.forgetPieces()
}

// forgetPieces empties pieces, whose arrays the next answer uses.
func (rs *results) forgetPieces() {
	for i := range rs.pieces {
		clear(rs.pieces[i])
		rs.pieces[i] = rs.pieces[i][:0]
	}
	rs.pieces = rs.pieces[:0]
}

// alignment is what every block has.
const alignment = 64

// releaseOnce returns a function that releases b at its first call. A second release
// could free a block that is in use again.
func releaseOnce(b *shm.Block) func() {
	var done atomic.Bool
	return func() {
		if !done.Swap(true) {
			b.Release()
		}
	}
}
