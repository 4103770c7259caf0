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
	read  reads[S, T]
	fold  kernel.Fold[T]
	pairs bool // rows under one another add up as columns does

	// join joins the results of two pieces of one row, end stores that of a row, and
	// store those of rows that the kernel folds at once, from result i on.
	join  func(a, b A) A
	end   func(r *run, i int, a A)
	store func(r *run, i int, acc []T)
}

// row folds a row of any length: its pieces as rows of a block, whose results are joined
// in their order.
func (f *folder[S, T, A]) row(r *run, x []S) A {
	acc := scratchRow[T](r, 1, foldPiece/foldRow)
	var a A
	for at := 0; at < len(x); {
		n := min(foldRow, len(x)-at)
		count := min(max(min(len(x)-at, f.read.most)/n, 1), len(acc))
		block, step := f.read.block(r, x[at:at+count*n], n, count, n)
		f.fold.Rows(acc[:count], block, step, n)
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
	case g.alongRow() && g.count <= foldRow && g.results > 1:
		return lowered{f: f.rows(s, g)}
	}
	return foldRows(s, g, rows[S, A]{row: f.row, join: f.join, end: f.end})
}

// columns lowers a fold of rows under one another.
func (f folder[S, T, A]) columns(s *compile.Step, g folding) func(r *run) error {
	x := s.In[0]
	return func(r *run) error {
		in := slice[S](r.bufs[x.Buf])
		g.tiles(r, f.read.tile, func(i, at, n int) {
			c := f.newColumns(r, scratchRow[T](r, 1, n), g.count)
			g.eachRows(r, x.Off+at, max(f.read.most/n, 1), func(off, rows, stride int) {
				block, step := f.read.block(r, in[off:], stride, rows, n)
				c.add(block, step, rows)
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
	n, most := g.count, max(f.read.most/g.count, 1)
	return func(r *run) error {
		in := slice[S](r.bufs[x.Buf])
		g.kept.results(r, most, func(i, at, count int) {
			st := g.kept.innerStride(0)
			acc := scratchRow[T](r, 1, count)
			block, step := f.read.block(r, in[x.Off+at:], st, count, n)
			f.fold.Rows(acc, block, step, n)
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
		return foldFloat(s, g, asIs[float32](), f.F32, lw)
	case tensor.F16:
		return foldFloat(s, g, through(lw.table.WidenF16), f.F32, lw)
	case tensor.BF16:
		return foldFloat(s, g, through(lw.table.WidenBF16), f.F32, lw)
	case tensor.F64:
		return foldFloat(s, g, asIs[float64](), f.F64, lw)
	case tensor.I32:
		return foldInts(s, g, f.I32, through(lw.plain.I32ToI64), f.I64.Add)
	case tensor.I64:
		return foldInts(s, g, f.I64, asIs[int64](), f.I64.Add)
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
			return foldExtreme(&one, g, asIs[uint8](), f.U8)
		}
		return foldInts(s, g, f.U8, through(lw.plain.U8ToI64), f.I64.Add)
	}
	return l
}

// foldFloat lowers a fold of elements of S that read makes floats.
func foldFloat[S any, T float](s *compile.Step, g folding, read reads[S, T], f kernel.FoldsOf[T], lw *lowerer) (l lowered) {
	switch s.Op {
	case tensor.OpSum:
		return foldTotal[S, T, T](s, g, read, f.Add, 1)
	case tensor.OpMean:
		return foldTotal[S, T, T](s, g, read, f.Add, float64(g.count))
	case tensor.OpProd:
		switch s.In[0].DType {
		case tensor.F32:
			return foldTotal[float32, float64, float32](s, g, through(lw.table.Double), lw.folds.F64.Mul, 1)
		case tensor.F64:
			return foldTotal[float64, float64, float64](s, g, asIs[float64](), lw.folds.F64.Mul, 1)
		}
	}
	return foldExtreme(s, g, read, f)
}

// foldInts lowers a fold of integers: a sum as i64, extremes, and the mean of those whose
// sum does not wrap, which leaves i64 out.
func foldInts[S integer](s *compile.Step, g folding, of kernel.FoldsOf[S], read reads[S, int64], sum kernel.Fold[int64]) lowered {
	f := folder[S, int64, int64]{read: read, fold: sum, join: func(a, b int64) int64 { return a + b }}
	switch {
	case s.Op == tensor.OpSum:
		f.end = func(r *run, i int, a int64) { slice[int64](r.bufs[s.Out.Buf])[i] = a }
		f.store = func(r *run, i int, acc []int64) { copy(slice[int64](r.bufs[s.Out.Buf])[i:], acc) }
	case s.Op == tensor.OpMean && s.In[0].DType != tensor.I64:
		f.end = func(r *run, i int, a int64) {
			slice[float32](r.bufs[s.Out.Buf])[i] = float32(float64(a) / float64(g.count))
		}
		f.store = func(r *run, i int, acc []int64) {
			for j, a := range acc {
				f.end(r, i+j, a)
			}
		}
	default:
		return foldExtreme(s, g, asIs[S](), of)
	}
	return f.lower(s, g)
}

// foldTotal lowers a sum or a product, divided by a number, as O.
func foldTotal[S any, T, O float](s *compile.Step, g folding, read reads[S, T], fold kernel.Fold[T], by float64) lowered {
	sum := s.Op != tensor.OpProd
	f := folder[S, T, float64]{read: read, fold: fold, pairs: sum}
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
func foldExtreme[S any, T number](s *compile.Step, g folding, read reads[S, T], of kernel.FoldsOf[T]) (l lowered) {
	f := folder[S, T, T]{read: read}
	switch s.Op {
	case tensor.OpAmax:
		f.fold, f.join = of.Max, larger[T]
	case tensor.OpAmin:
		f.fold, f.join = of.Min, smaller[T]
	default:
		return l
	}
	f.end = func(r *run, i int, a T) { slice[T](r.bufs[s.Out.Buf])[i] = a }
	f.store = func(r *run, i int, acc []T) { copy(slice[T](r.bufs[s.Out.Buf])[i:], acc) }
	return f.lower(s, g)
}
