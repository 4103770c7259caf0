package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

const (
	// foldPiece is how many elements of a row that folds into the only result a thread
	// folds at a time. It does not depend on the number of threads, so the bits don't
	// either.
	foldPiece = 1 << 16
	// foldRow is the longest row that a kernel folds at once. The results of its pieces
	// are joined, sums in float64.
	foldRow = 1 << 12
	// foldBlock is about how many elements are converted at a time, and convertedTile the
	// most columns of them: those of a block of rows stay in the first-level cache.
	foldBlock     = 1 << 13
	convertedTile = foldBlock / block
	// readBlock is about how many elements a kernel reads in place between two looks at
	// the stop flag.
	readBlock = 1 << 17
)

// reads is how elements of S get to the kernels of T.
type reads[S, T any] struct {
	// block returns rows of n elements, stride apart in x, and how far apart they are
	// there.
	block func(r *run, x []S, stride, rows, n int) ([]T, int)
	most  int // elements of a block, about
	tile  int // columns of a block, at most
}

// asIs reads elements in place.
func asIs[T any]() reads[T, T] {
	return reads[T, T]{func(_ *run, x []T, stride, _, _ int) ([]T, int) { return x, stride }, readBlock, columnTile}
}

// through reads elements that f converts.
func through[S, T any](f func(dst []T, x []S)) reads[S, T] {
	return reads[S, T]{func(r *run, x []S, stride, rows, n int) ([]T, int) {
		t := scratchRow[T](r, 2, rows*n)
		if stride == n {
			f(t, x[:rows*n])
			return t, n
		}
		for i := range rows {
			f(t[i*n:][:n], x[i*stride:][:n])
		}
		return t, n
	}, foldBlock, convertedTile}
}

// folder folds elements of S by a kernel of T.
type folder[S any, T, A number] struct {
	read reads[S, T]
	fold kernel.Fold[T]
	// from folds elements without read, in rows that are long enough for it: see direct.
	from  kernel.FoldFrom[S, T]
	pairs bool // rows under one another add up as columns does
	turns bool // short rows are transposed and folded as columns

	// join joins the results of two pieces of one row, end stores that of a row, and
	// store those of rows that the kernel folds at once, from result i on.
	join  func(a, b A) A
	end   func(r *run, i int, a A)
	store func(r *run, i int, acc []T)
}

// direct reports whether from folds rows of n elements.
func (f *folder[S, T, A]) direct(n int) bool { return f.from.Least > 0 && n >= f.from.Least }

// most returns about how many elements are folded at a time where rows have n elements.
func (f *folder[S, T, A]) most(n int) int {
	if f.direct(n) {
		return readBlock
	}
	return f.read.most
}

// foldRows folds rows of n elements, stride apart in x, into one each.
func (f *folder[S, T, A]) foldRows(r *run, acc []T, x []S, stride, n int) {
	if f.direct(n) {
		f.from.Rows(acc, x, stride, n)
		return
	}
	block, step := f.read.block(r, x, stride, len(acc), n)
	f.fold.Rows(acc, block, step, n)
}

// addRows folds rows under one another into c.
func (f *folder[S, T, A]) addRows(r *run, c *columns[T], x []S, stride, rows int) {
	n := len(c.out)
	if f.direct(n) {
		c.addBy(rows, func(dst []T, at, rows int, more bool) { f.from.Columns(dst, x[at*stride:], stride, rows, more) })
		return
	}
	block, step := f.read.block(r, x, stride, rows, n)
	c.add(block, step, rows)
}

// row folds a row of any length: its pieces as rows of a block, whose results are joined
// in their order.
func (f *folder[S, T, A]) row(r *run, x []S) A {
	acc := scratchRow[T](r, 1, foldPiece/foldRow)
	var a A
	for at := 0; at < len(x); {
		n := min(foldRow, len(x)-at)
		count := min(max(min(len(x)-at, f.most(n))/n, 1), len(acc))
		f.foldRows(r, acc[:count], x[at:at+count*n], n, n)
		for i, v := range acc[:count] {
			if at == 0 && i == 0 {
				a = A(v)
			} else {
				a = f.join(a, A(v))
			}
		}
		at += count * n
	}
	return a
}

// lower returns the lowering of a fold of one element or more into each result.
func (f folder[S, T, A]) lower(s *compile.Step, g folding) lowered {
	m := g.joined()
	switch {
	case m > 0:
		return f.narrow(s, g, m)
	case g.inColumns():
		return lowered{f: f.columns(s, g)}
	case f.turns && g.alongRow() && g.count <= shortRow && g.kept.innerStride(0) >= g.count:
		return lowered{f: f.short(s, g)}
	case g.alongRow() && g.count <= foldRow && g.results > 1:
		return lowered{f: f.rows(s, g)}
	}
	return foldRows(s, g, rows[S, A]{row: f.row, join: f.join, end: f.end})
}

// columns lowers a fold of rows under one another.
func (f folder[S, T, A]) columns(s *compile.Step, g folding) func(r *run) error {
	x, width := s.In[0], f.read.tile
	if f.direct(g.kept.inner()) {
		width = columnTile
	}
	return func(r *run) error {
		in := slice[S](r.bufs[x.Buf])
		g.tiles(r, width, func(i, at, n int) {
			c := f.newColumns(r, scratchRow[T](r, 1, n), g.count)
			g.eachRows(r, x.Off+at, max(f.most(n)/n, 1), func(off, rows, stride int) {
				f.addRows(r, &c, in[off:], stride, rows)
			})
			c.finish()
			f.store(r, i, c.out)
		})
		return nil
	}
}

// rows lowers a fold of rows that are not long.
func (f folder[S, T, A]) rows(s *compile.Step, g folding) func(r *run) error {
	x := s.In[0]
	n, most := g.count, max(f.most(g.count)/g.count, 1)
	return func(r *run) error {
		in := slice[S](r.bufs[x.Buf])
		g.kept.results(r, most, func(i, at, count int) {
			st := g.kept.innerStride(0)
			acc := scratchRow[T](r, 1, count)
			f.foldRows(r, acc, in[x.Off+at:], st, n)
			f.store(r, i, acc)
		})
		return nil
	}
}

// short lowers a fold of rows so short that folding each would take most of the time:
// some are transposed, and folded column by column.
func (f folder[S, T, A]) short(s *compile.Step, g folding) func(r *run) error {
	x, n := s.In[0], g.count
	return func(r *run) error {
		in := slice[S](r.bufs[x.Buf])
		g.kept.results(r, stripRows, func(i, at, count int) {
			block, step := f.read.block(r, in[x.Off+at:], g.kept.innerStride(0), count, n)
			turned, acc := scratchRow[T](r, 3, n*count), scratchRow[T](r, 1, count)
			turn(r, turned, count, block, step, n, count)
			f.fold.Columns(acc, turned, count, n, false)
			f.store(r, i, acc)
		})
		return nil
	}
}

// results calls f for pieces of up to most positions along the innermost dim in this
// thread's part of a nest of one operand: the number and the offset of the first, and
// their count.
func (n *nest) results(r *run, most int, f func(i, off, count int)) {
	odo, lo, hi := n.part(r)
	st := n.innerStride(0)
	if st < 0 {
		most = 1 // kernels go forward
	}
	i := odo.at[0]*tensor.Shape(n.dims[1:]).Elems() + lo
	for lo < hi {
		for at := lo; at < hi && !r.stopped(); at += most {
			f(i+at-lo, odo.off[0]+at*st, min(most, hi-at))
		}
		if r.stopped() || !odo.next() {
			return
		}
		i += hi - lo
	}
}

// fold lowers the folds that have kernels. It has nothing for others.
func (lw *lowerer) fold(s *compile.Step, g folding) (l lowered) {
	if g.count == 0 {
		return l
	}
	f := lw.folds
	switch s.In[0].DType {
	case tensor.F32:
		if s.Op == tensor.OpProd {
			return foldTotal[float32, float64, float32](s, g, through(lw.table.Double), f.F64.Mul, f.F32ToF64.Mul, 1)
		}
		return foldFloat(s, g, asIs[float32](), f.F32, kernel.FoldsOf[float32]{})
	case tensor.F16:
		return foldFloat(s, g, through(lw.table.WidenF16), f.F32, f.F16)
	case tensor.BF16:
		return foldFloat(s, g, through(lw.table.WidenBF16), f.F32, f.BF16)
	case tensor.F64:
		if s.Op == tensor.OpProd {
			return foldTotal[float64, float64, float64](s, g, asIs[float64](), f.F64.Mul, kernel.Fold[float64]{}, 1)
		}
		return foldFloat(s, g, asIs[float64](), f.F64, kernel.FoldsOf[float64]{})
	case tensor.I32:
		return foldInts(s, g, f.I32, through(lw.plain.I32ToI64), f.I64, f.I32ToI64)
	case tensor.I64:
		if s.Op == tensor.OpMean { // in float64, which does not wrap
			return foldTotal[int64, float64, float32](s, g, through(doubles), f.F64.Add, f.I64ToF64.Add, float64(g.count))
		}
		return foldInts(s, g, f.I64, asIs[int64](), f.I64, kernel.FoldsOf[int64]{})
	case tensor.U8, tensor.Bool:
		if any := s.Op == tensor.OpAny; any || s.Op == tensor.OpAll {
			if g.inRows() && g.count > shortRow {
				return l // a search, which ends early
			}
			one := *s
			one.Op = tensor.OpAmin
			if any {
				one.Op = tensor.OpAmax
			}
			return foldExtreme(&one, g, asIs[uint8](), f.U8, kernel.FoldsOf[uint8]{})
		}
		return foldInts(s, g, f.U8, through(lw.plain.U8ToI64), f.I64, f.U8ToI64)
	}
	return l
}

// doubles is dst[i] = x[i].
func doubles(dst []float64, x []int64) {
	for i, v := range x {
		dst[i] = float64(v)
	}
}

// foldFloat lowers a fold of elements of S that read makes floats, or from where it can.
func foldFloat[S any, T float](s *compile.Step, g folding, read reads[S, T], f kernel.FoldsOf[T], from kernel.FoldsFrom[S, T]) (l lowered) {
	switch s.Op {
	case tensor.OpSum:
		return foldTotal[S, T, T](s, g, read, f.Add, from.Add, 1)
	case tensor.OpMean:
		return foldTotal[S, T, T](s, g, read, f.Add, from.Add, float64(g.count))
	}
	return foldExtreme(s, g, read, f, from)
}

// foldInts lowers a fold of integers: a sum and a product as i64, extremes, and the mean
// of those whose sum does not wrap, which leaves i64 out.
func foldInts[S integer](s *compile.Step, g folding, of kernel.FoldsOf[S], read reads[S, int64], wide kernel.FoldsOf[int64], from kernel.FoldsFrom[S, int64]) lowered {
	f := folder[S, int64, int64]{read: read, fold: wide.Add, from: from.Add, join: func(a, b int64) int64 { return a + b }}
	f.end = func(r *run, i int, a int64) { slice[int64](r.bufs[s.Out.Buf])[i] = a }
	f.store = func(r *run, i int, acc []int64) { copy(slice[int64](r.bufs[s.Out.Buf])[i:], acc) }
	switch s.Op {
	case tensor.OpSum:
	case tensor.OpProd:
		f.fold, f.from, f.join = wide.Mul, from.Mul, func(a, b int64) int64 { return a * b }
		f.turns = true
	case tensor.OpMean:
		f.end = func(r *run, i int, a int64) {
			slice[float32](r.bufs[s.Out.Buf])[i] = float32(float64(a) / float64(g.count))
		}
		f.store = func(r *run, i int, acc []int64) {
			for j, a := range acc {
				f.end(r, i+j, a)
			}
		}
	default:
		return foldExtreme(s, g, asIs[S](), of, kernel.FoldsOf[S]{})
	}
	return f.lower(s, g)
}

// foldTotal lowers a sum or a product, divided by a number, as O.
func foldTotal[S any, T, O float](s *compile.Step, g folding, read reads[S, T], fold kernel.Fold[T], from kernel.FoldFrom[S, T], by float64) lowered {
	sum := s.Op != tensor.OpProd
	f := folder[S, T, float64]{read: read, fold: fold, from: from, pairs: sum, turns: !sum}
	f.join = func(a, b float64) float64 { return a * b }
	if sum {
		f.join = func(a, b float64) float64 { return a + b }
	}
	f.end = func(r *run, i int, a float64) { slice[O](r.bufs[s.Out.Buf])[i] = O(a / by) }
	f.store = func(r *run, i int, acc []T) {
		out := slice[O](r.bufs[s.Out.Buf])[i:][:len(acc)]
		if by == 1 {
			for j, v := range acc {
				out[j] = O(v)
			}
			return
		}
		for j, v := range acc {
			out[j] = O(float64(v) / by)
		}
	}
	return f.lower(s, g)
}

// foldExtreme lowers amax and amin.
func foldExtreme[S any, T number](s *compile.Step, g folding, read reads[S, T], of kernel.FoldsOf[T], from kernel.FoldsFrom[S, T]) (l lowered) {
	f := folder[S, T, T]{read: read, turns: true}
	switch s.Op {
	case tensor.OpAmax:
		f.fold, f.from, f.join = of.Max, from.Max, larger[T]
	case tensor.OpAmin:
		f.fold, f.from, f.join = of.Min, from.Min, smaller[T]
	default:
		return l
	}
	f.end = func(r *run, i int, a T) { slice[T](r.bufs[s.Out.Buf])[i] = a }
	f.store = func(r *run, i int, acc []T) { copy(slice[T](r.bufs[s.Out.Buf])[i:], acc) }
	return f.lower(s, g)
}
