package cpu

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// folding is the geometry of a reduction: kept walks the results, folded the elements
// that fold into each, both over x.
type folding struct {
	kept, folded nest
	count        int // elements folded into one
	results      int
}

// foldingOf returns the geometry of folding dims of x; none stands for all.
func foldingOf(x compile.Operand, dims []int64) folding {
	var ks, fs tensor.Shape
	var kst, fst []int
	for i, n := range x.Shape {
		if len(dims) == 0 || slices.Contains(dims, int64(i)) {
			fs, fst = append(fs, n), append(fst, x.Strides[i])
		} else {
			ks, kst = append(ks, n), append(kst, x.Strides[i])
		}
	}
	return folding{kept: newNest(ks, kst), folded: newNest(fs, fst), count: fs.Elems(), results: ks.Elems()}
}

// each calls f with the offset of every row of a nest, its length and stride. Long rows
// come in pieces.
func (n *nest) each(r *run, off int, f func(off, n, stride int)) {
	odo := odometer{n: n}
	for {
		at, st := off+odo.off[0], n.innerStride(0)
		for left := n.inner(); left > 0 && !r.stopped(); left -= longRow {
			f(at, min(left, longRow), st)
			at += longRow * st
		}
		if r.stopped() || !odo.next() {
			return
		}
	}
}

func (lw *lowerer) reduction(s *compile.Step) lowered {
	g := foldingOf(s.In[0], s.Ints[1:])
	x := s.In[0]
	if g.results == 0 {
		return lowered{f: nothing}
	}
	if l := lw.fold(s, g); l.f != nil {
		return l
	}
	switch s.Op {
	case tensor.OpArgmax, tensor.OpArgmin:
		if g.alongRow() || g.count > 1 && g.kept.innerStride(0) == 1 {
			return lowered{f: lw.placeByFolds(s, g)}
		}
		return lowered{f: numericBy[x.DType].place(s, g)}
	case tensor.OpAny, tensor.OpAll:
		return anyAll(s, g)
	}
	return lowered{f: ofNone(s)}
}

// ofNone lowers the sum, product or mean of no elements.
func ofNone(s *compile.Step) func(r *run) error {
	v := map[tensor.Op]float64{tensor.OpProd: 1, tensor.OpMean: math.NaN()}[s.Op]
	n, size := s.Out.Shape.Elems(), s.Out.DType.Size()
	return func(r *run) error {
		lo, hi := r.share(n, tile)
		spreadLong(r, r.bufs[s.Out.Buf][lo*size:], s.Out.DType, v, hi-lo)
		return nil
	}
}

// numeric are the lowerings that every dtype of numbers has.
type numeric interface {
	place(s *compile.Step, g folding) func(r *run) error
	cumsum(s *compile.Step) func(r *run) error
	scatterAdd(s *compile.Step) func(r *run) error
}

type numericOf[T number] struct{}

// numericBy holds the instances. A bool is a byte 0 or 1.
var numericBy = map[tensor.DType]numeric{
	tensor.F32: numericOf[float32]{}, tensor.F64: numericOf[float64]{}, tensor.I32: numericOf[int32]{}, tensor.I64: numericOf[int64]{},
	tensor.U8: numericOf[uint8]{}, tensor.Bool: numericOf[uint8]{},
}

// alongRow reports whether the elements that fold into each result are one contiguous
// row.
func (g *folding) alongRow() bool {
	return g.count > 0 && g.folded.innerStride(0) == 1 && len(g.folded.dims) == 1
}

// inRows reports whether the elements that fold into each result lie in contiguous rows.
func (g *folding) inRows() bool {
	return g.count > 0 && g.folded.innerStride(0) == 1 && !g.inColumns()
}

// folds goes through the elements of every result in row-major order: add adds an element
// to the state, end stores the result. The state is a value, so that none is allocated.
// Where results lie in columns, addRow adds a row to their states, the same way.
func folds[T, A any](s *compile.Step, g folding, start A, add func(a A, x T) A, addRow func(a []A, x []T), end func(r *run, i int, a A)) func(r *run) error {
	x := s.In[0]
	if g.inColumns() {
		return func(r *run) error {
			in := slice[T](r.bufs[x.Buf])
			g.tiles(r, columnTile, func(i, at, n int) {
				states := scratchRow[A](r, 0, n)
				for j := range states {
					states[j] = start
				}
				g.eachRow(r, x.Off+at, func(off int) { addRow(states, in[off:off+n]) })
				for j, a := range states {
					end(r, i+j, a)
				}
			})
			return nil
		}
	}
	inner, step := g.folded.inner(), g.folded.innerStride(0)
	return func(r *run) error {
		in := slice[T](r.bufs[x.Buf])
		g.kept.rows(r, func(i, off, _, _, _ int) {
			a := start
			for folded := (odometer{n: &g.folded}); g.count > 0; {
				at := x.Off + off + folded.off[0]
				for left := inner; left > 0 && !r.stopped(); left -= breath {
					for range min(left, breath) {
						a = add(a, in[at])
						at += step
					}
				}
				if r.stopped() || !folded.next() {
					break
				}
			}
			end(r, i, a)
		})
		return nil
	}
}

// split returns a shape as outer x dim x inner.
func split(shape tensor.Shape, dim int) (outer, n, inner int) {
	return shape[:dim].Elems(), shape[dim], shape[dim+1:].Elems()
}
