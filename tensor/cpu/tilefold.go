package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// tileFold is the reduction at the end of a tile program: each tile's rows are folded in
// scratch, and joined in double precision with the result of the same row's earlier
// tiles.
type tileFold struct {
	out  compile.Operand
	row  func(x []float32) float32
	join func(a, b float64) float64
	by   float64 // divides each result
}

// tilesFold lowers elementwise operations and a reduction of their last result over the
// last dims. The nest's first strides are those of the reduction: 0 along the dims that
// are folded, so that these are joined with no other dim.
func (lw *lowerer) tilesFold(s *compile.Step) func(r *run) error {
	shape := shapeOfTiles(s)
	kept := len(shape) - (len(s.Ints) - 1)
	if len(s.Ints) == 1 {
		kept = 0
	}
	strides, n := make([]int, len(shape)), 1
	for i := kept - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	f := &tileFold{out: s.Out, by: 1}
	f.row, f.join = rowFold(lw.table, s.Op)
	if s.Op == tensor.OpMean {
		f.by = float64(shape[kept:].Elems())
	}
	return lw.tileProgram(s, newNestOf(s, shape, strides), f).run
}

// shapeOfTiles returns the shape that s walks over.
func shapeOfTiles(s *compile.Step) tensor.Shape {
	for _, o := range s.In {
		if o.Scalar < 0 {
			return o.Shape
		}
	}
	return nil
}

// tile folds the rows of m elements that lie at x, of the nest's row i and those after
// it.
func (f *tileFold) tile(r *run, x pointer, at, step, rows, m int) {
	for k := range rows {
		v := float64(f.row(elems[float32](shift(x, 4*k*m), m)))
		if at+k*step == r.foldAt {
			r.foldAcc = f.join(r.foldAcc, v)
			continue
		}
		f.end(r)
		r.foldAt, r.foldAcc = at+k*step, v
	}
}

// end stores the result that is not stored yet, if there is one.
func (f *tileFold) end(r *run) {
	if r.foldAt >= 0 {
		slice[float32](r.bufs[f.out.Buf])[r.foldAt] = float32(r.foldAcc / f.by)
	}
	r.foldAt = -1
}
