package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
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

func (lw *lowerer) reduction(s *compile.Step) func(r *run) error {
	g := foldingOf(s.In[0], s.Ints[1:])
	x := s.In[0]
	if g.results == 0 {
		return func(*run) error { return nil }
	}
	if x.DType == tensor.F32 {
		if f := lw.foldF32(s, g); f != nil {
			return f
		}
	}
	switch s.Op {
	case tensor.OpArgmax, tensor.OpArgmin:
		if x.DType == tensor.F32 && g.count > 0 && g.folded.innerStride(0) == 1 && len(g.folded.dims) == 1 {
			return lw.placeInRows(s, g)
		}
		return numericBy[x.DType].place(s, g)
	case tensor.OpAmax, tensor.OpAmin:
		return numericBy[x.DType].extreme(s, g)
	case tensor.OpAny, tensor.OpAll:
		return anyAll(s, g)
	}
	switch x.DType {
	case tensor.F32:
		return sumFloat[float32](s, g)
	case tensor.F64:
		return sumFloat[float64](s, g)
	case tensor.I32:
		return sumInt[int32](s, g)
	case tensor.I64:
		return sumInt[int64](s, g)
	}
	return sumInt[uint8](s, g)
}

// numeric are the lowerings that every dtype of numbers has.
type numeric interface {
	extreme(s *compile.Step, g folding) func(r *run) error
	place(s *compile.Step, g folding) func(r *run) error
	cumsum(s *compile.Step) func(r *run) error
	indexAdd(s *compile.Step) func(r *run) error
	scatterAdd(s *compile.Step) func(r *run) error
	castTo(to tensor.DType) loop
}

type numericOf[T number] struct{}

// numericBy holds the instances. A bool is a byte 0 or 1.
var numericBy = map[tensor.DType]numeric{
	tensor.F32: numericOf[float32]{}, tensor.F64: numericOf[float64]{}, tensor.I32: numericOf[int32]{}, tensor.I64: numericOf[int64]{},
	tensor.U8: numericOf[uint8]{}, tensor.Bool: numericOf[uint8]{},
}

// foldF32 lowers the folds that run at the speed of memory: along contiguous rows, and
// down contiguous columns.
func (lw *lowerer) foldF32(s *compile.Step, g folding) func(r *run) error {
	x, k := s.In[0], lw.table
	scale := float32(1)
	if s.Op == tensor.OpMean {
		scale = float32(1 / float64(g.count))
	}
	if g.count == 0 {
		return nil
	}
	if g.folded.innerStride(0) == 1 && g.folded.inner() > 1 || g.count == 1 {
		row, join := rowFold(k, s.Op)
		if row == nil {
			return nil
		}
		return func(r *run) error {
			in, out := slice[float32](r.bufs[x.Buf]), slice[float32](r.bufs[s.Out.Buf])
			g.kept.rows(r, func(i, off, _, _, _ int) {
				first, acc := true, 0.0
				g.folded.each(r, x.Off+off, func(o, n, _ int) {
					v := float64(row(in[o : o+n]))
					if first {
						first, acc = false, v
					} else {
						acc = join(acc, v)
					}
				})
				out[i] = float32(acc) * scale
			})
			return nil
		}
	}
	if !g.inColumns() {
		return nil
	}
	more := k.Max
	switch s.Op {
	case tensor.OpAmax:
	case tensor.OpAmin:
		more = k.Min
	case tensor.OpSum, tensor.OpMean:
		return func(r *run) error {
			in, out := slice[float32](r.bufs[x.Buf]), slice[float32](r.bufs[s.Out.Buf])
			g.tiles(r, func(i, at, n int) {
				c := newColumns(r, k, out[i:i+n], g.count)
				g.eachRow(r, x.Off+at, func(off int) { c.row(in[off : off+n]) })
				c.finish()
				if scale != 1 {
					k.MulS(c.out, c.out, scale)
				}
			})
			return nil
		}
	default:
		return nil
	}
	return func(r *run) error {
		in, out := slice[float32](r.bufs[x.Buf]), slice[float32](r.bufs[s.Out.Buf])
		g.tiles(r, func(i, at, n int) {
			acc, first := out[i:i+n], true
			g.eachRow(r, x.Off+at, func(off int) {
				if first {
					first = false
					copy(acc, in[off:off+n])
				} else {
					more(acc, acc, in[off:off+n])
				}
			})
		})
		return nil
	}
}

// placeInRows lowers argmax and argmin of contiguous rows: the kernel finds the extreme
// of a piece, which is looked for only in a piece with a new one.
func (lw *lowerer) placeInRows(s *compile.Step, g folding) func(r *run) error {
	x, extreme, sign := s.In[0], lw.table.RowMax, float32(1)
	if s.Op == tensor.OpArgmin {
		extreme, sign = lw.table.RowMin, -1
	}
	return func(r *run) error {
		in, out := slice[float32](r.bufs[x.Buf]), slice[int64](r.bufs[s.Out.Buf])
		g.kept.rows(r, func(i, off, _, _, _ int) {
			row, at := in[x.Off+off:][:g.count], 0
			for lo := 0; lo < len(row) && row[at] == row[at] && !r.stopped(); lo += tile {
				piece := row[lo:min(lo+tile, len(row))]
				if v := extreme(piece); lo == 0 || v != v || v*sign > row[at]*sign {
					at = lo
					for piece[at-lo] != v && piece[at-lo] == piece[at-lo] {
						at++
					}
				}
			}
			out[i] = int64(at)
		})
		return nil
	}
}

// rowFold returns the kernel that folds a row, and what joins the results of two, wide
// enough that many rows don't add up their rounding; nil if there is none.
func rowFold(k *kernel.Table[float32], op tensor.Op) (row func([]float32) float32, join func(a, b float64) float64) {
	switch op {
	case tensor.OpSum, tensor.OpMean:
		return k.Sum, func(a, b float64) float64 { return a + b }
	case tensor.OpAmax:
		return k.RowMax, func(a, b float64) float64 { return max(a, b) }
	case tensor.OpAmin:
		return k.RowMin, func(a, b float64) float64 { return min(a, b) }
	}
	return nil, nil
}

// folds goes through the elements of every result in row-major order: add adds an element
// to the state, end stores the result. The state is a value, so that none is allocated.
// Where results lie in columns, addRow adds a row to their states, the same way.
func folds[T, A any](s *compile.Step, g folding, start A, add func(a A, x T) A, addRow func(a []A, x []T), end func(r *run, i int, a A)) func(r *run) error {
	x := s.In[0]
	if g.inColumns() {
		return func(r *run) error {
			in := slice[T](r.bufs[x.Buf])
			g.tiles(r, func(i, at, n int) {
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

// sumFloat lowers sum, mean and product, in float64.
func sumFloat[T float](s *compile.Step, g folding) func(r *run) error {
	end := func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a) }
	switch s.Op {
	case tensor.OpProd:
		return folds(s, g, 1, func(a float64, x T) float64 { return a * float64(x) }, mulRow[T, float64], end)
	case tensor.OpMean:
		end = func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a / float64(g.count)) }
	}
	return folds(s, g, 0, func(a float64, x T) float64 { return a + float64(x) }, addRow[T, float64], end)
}

// sumInt lowers sum and product as i64, mean as f32 of a sum in float64, which does not
// wrap.
func sumInt[T integer](s *compile.Step, g folding) func(r *run) error {
	end := func(r *run, i int, a int64) { slice[int64](r.bufs[s.Out.Buf])[i] = a }
	switch s.Op {
	case tensor.OpProd:
		return folds(s, g, 1, func(a int64, x T) int64 { return a * int64(x) }, mulRow[T, int64], end)
	case tensor.OpMean:
		return folds(s, g, 0, func(a float64, x T) float64 { return a + float64(x) }, addRow[T, float64], func(r *run, i int, a float64) {
			slice[float32](r.bufs[s.Out.Buf])[i] = float32(a / float64(g.count))
		})
	}
	return folds(s, g, 0, func(a int64, x T) int64 { return a + int64(x) }, addRow[T, int64], end)
}

// best is the most extreme element so far and its number; n counts.
type best[T any] struct {
	x     T
	at, n int64
}

// more reports whether an element replaces the best: a first one, a NaN (which then
// stays), or one beyond.
func more[T number](largest bool) func(b best[T], x T) best[T] {
	return func(b best[T], x T) best[T] {
		beyond := x < b.x
		if largest {
			beyond = x > b.x
		}
		if b.n == 0 || (beyond || x != x) && b.x == b.x {
			b.x, b.at = x, b.n
		}
		b.n++
		return b
	}
}

// moreRow is more for a row.
func moreRow[T number](largest bool) func(a []best[T], x []T) {
	return func(a []best[T], x []T) {
		a = a[:len(x)]
		for i, v := range x {
			b := &a[i]
			beyond := v < b.x
			if largest {
				beyond = v > b.x
			}
			if b.n == 0 || (beyond || v != v) && b.x == b.x {
				b.x, b.at = v, b.n
			}
			b.n++
		}
	}
}

func (numericOf[T]) extreme(s *compile.Step, g folding) func(r *run) error {
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpAmax), moreRow[T](s.Op == tensor.OpAmax), func(r *run, i int, b best[T]) { slice[T](r.bufs[s.Out.Buf])[i] = b.x })
}

// place lowers argmax and argmin: the place of the first extreme element; a NaN counts
// as one.
func (numericOf[T]) place(s *compile.Step, g folding) func(r *run) error {
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpArgmax), moreRow[T](s.Op == tensor.OpArgmax), func(r *run, i int, b best[T]) { slice[int64](r.bufs[s.Out.Buf])[i] = b.at })
}

func anyAll(s *compile.Step, g folding) func(r *run) error {
	end := func(r *run, i int, yes bool) { r.bufs[s.Out.Buf][i] = truth(yes) }
	if s.Op == tensor.OpAll {
		return folds(s, g, true, func(yes bool, x uint8) bool { return yes && x != 0 }, func(yes []bool, x []uint8) {
			for i, v := range x {
				yes[i] = yes[i] && v != 0
			}
		}, end)
	}
	return folds(s, g, false, func(yes bool, x uint8) bool { return yes || x != 0 }, func(yes []bool, x []uint8) {
		for i, v := range x {
			yes[i] = yes[i] || v != 0
		}
	}, end)
}

func (numericOf[T]) cumsum(s *compile.Step) func(r *run) error {
	if s.Out.DType == tensor.I64 {
		return cumsum[T, int64](s)
	}
	return cumsum[T, T](s)
}

// cumsum lowers the running sum along dim s.Ints[0], from its end if s.Ints[1]. Threads
// share the rows along the dim, or tiles of columns where it is not the last.
func cumsum[T, A number](s *compile.Step) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	first, step := 0, 1 // places along the dim
	if s.Ints[1] != 0 {
		first, step = n-1, -1
	}
	if inner == 1 {
		return func(r *run) error {
			x, y := buf[T](r, &s.In[0]), buf[A](r, &s.Out)
			lo, hi := r.share(outer, 1)
			for o := lo; o < hi; o++ {
				from, to, at := x[o*n:][:n], y[o*n:][:n], first
				var acc A
				for left := n; left > 0; left -= breath {
					if r.stopped() {
						return nil
					}
					for range min(left, breath) {
						acc += A(from[at])
						to[at] = acc
						at += step
					}
				}
			}
			return nil
		}
	}
	tiles := (inner + columnTile - 1) / columnTile
	return func(r *run) error {
		x, y := buf[T](r, &s.In[0]), buf[A](r, &s.Out)
		before := scratchRow[A](r, 0, min(columnTile, inner))
		for lo, hi := r.share(outer*tiles, 1); lo < hi; lo++ {
			col := lo % tiles * columnTile
			m := min(columnTile, inner-col)
			at := (lo/tiles*n+first)*inner + col
			sums := before[:m]
			clear(sums)
			for range n {
				if r.stopped() {
					return nil
				}
				from, to := x[at:][:m], y[at:][:m]
				for i, v := range from {
					to[i] = sums[i] + A(v)
				}
				sums = to
				at += step * inner
			}
		}
		return nil
	}
}

// split returns a shape as outer x dim x inner.
func split(shape tensor.Shape, dim int) (outer, n, inner int) {
	return shape[:dim].Elems(), shape[dim], shape[dim+1:].Elems()
}
