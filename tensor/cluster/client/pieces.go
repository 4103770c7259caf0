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

// assemble returns the awaited results: a piece that is all of a value where it lies,
// others copied together.
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
	e.forgetPieces()
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
