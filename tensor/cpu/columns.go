package cpu

import (
	"math/bits"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

const (
	// columnTile is the most columns that are folded at a time: few enough that their
	// states stay in the first-level cache.
	columnTile = 2048
	// softmaxTile is about how many elements of a softmax over columns are gone through
	// at a time, which then stay in the second-level cache.
	softmaxTile = 1 << 16
	// minColumns is the least columns beside each other that are worth a call for each
	// row.
	minColumns = 8
)

// inColumns reports whether the elements that fold into each result lie under one another
// in rows of results: the innermost kept dim is contiguous, and long enough.
func (g *folding) inColumns() bool {
	return g.count > 1 && g.kept.innerStride(0) == 1 && (len(g.kept.dims) == 1 || g.kept.inner() >= minColumns)
}

// tiles calls f for every tile of up to most columns in this thread's part of the
// results: the number and the offset of its first, and their number.
func (g *folding) tiles(r *run, most int, f func(i, off, n int)) {
	odo, lo, hi := odometer{n: &g.kept}, 0, g.kept.inner()
	if len(g.kept.dims) == 1 {
		lo, hi = r.share(hi, 16)
	} else {
		var any bool
		if odo, any = g.kept.share(r); !any {
			return
		}
	}
	for i := odo.at[0] * tensor.Shape(g.kept.dims[1:]).Elems(); ; i += g.kept.inner() {
		for at := lo; at < hi; at += most {
			if r.stopped() {
				return
			}
			f(i+at, odo.off[0]+at, min(most, hi-at))
		}
		if !odo.next() {
			return
		}
	}
}

// eachRow calls f with the offset of every folded element, in row-major order.
func (g *folding) eachRow(r *run, off int, f func(off int)) {
	g.folded.each(r, off, func(off, n, stride int) {
		for j := range n {
			if r.stopped() {
				return
			}
			f(off + j*stride)
		}
	})
}

// eachRows calls f for runs of up to most folded elements, in row-major order: the offset
// of the first, their number and their distance, which is negative only for one alone.
func (g *folding) eachRows(r *run, off, most int, f func(off, n, stride int)) {
	if g.folded.innerStride(0) < 0 {
		most = 1 // kernels go forward
	}
	g.folded.each(r, off, func(off, n, stride int) {
		for j := 0; j < n && !r.stopped(); j += most {
			f(off+j*stride, min(most, n-j), stride)
		}
	})
}

// block is the number of rows that are added up one after another before pairwise
// summation begins.
const block = 16

// columns folds rows. With pairs, which sums have, the results of two blocks become one,
// two of those one again, and so on, so that the error grows with the logarithm of the
// number of rows. room has a row for the current block and one for each level of pairs.
// Without, room is nil.
type columns[T number] struct {
	fold      kernel.Fold[T]
	out, room []T
	rows      int
}

// newColumns returns the fold by pairs of so many rows into out. It takes the run's first
// scratch row.
func newColumns[T number](r *run, fold kernel.Fold[T], out []T, rows int) columns[T] {
	return columns[T]{fold: fold, out: out, room: scratchRow[T](r, 0, len(out)*(1+bits.Len(uint(rows/block))))}
}

// level returns the sum of 2^i blocks; level -1 is that of the current block.
func (c *columns[T]) level(i int) []T { return c.room[(i+1)*len(c.out):][:len(c.out)] }

// row folds one row more.
func (c *columns[T]) row(x []T) { c.add(x, len(x), 1) }

// add folds rows that are stride apart.
func (c *columns[T]) add(x []T, stride, rows int) {
	c.addBy(rows, func(dst []T, at, rows int, more bool) { c.fold.Columns(dst, x[at*stride:], stride, rows, more) })
}

// addBy folds rows rows by calls of f, each of which folds some of them into dst, from
// row at on. If more is set, f folds them into the values in dst, otherwise it overwrites
// dst.
func (c *columns[T]) addBy(rows int, f func(dst []T, at, rows int, more bool)) {
	if c.room == nil {
		f(c.out, 0, rows, c.rows > 0)
		c.rows += rows
		return
	}
	part := c.level(-1)
	for i := 0; i < rows; {
		at := c.rows % block
		n := min(block-at, rows-i)
		f(part, i, n, at > 0)
		c.rows, i = c.rows+n, i+n
		if c.rows%block == 0 {
			c.carry()
		}
	}
}

// carry joins the finished block with the levels before it.
func (c *columns[T]) carry() {
	part := c.level(-1)
	n := c.rows/block - 1 // blocks before this one: its bits tell which levels are in use
	i := 0
	for ; n&(1<<i) != 0; i++ {
		c.fold.Columns(part, c.level(i), 0, 1, true)
	}
	copy(c.level(i), part)
}

// finish joins the levels, smallest sums first.
func (c *columns[T]) finish() {
	if c.room == nil {
		return
	}
	any := c.rows%block != 0
	if any {
		copy(c.out, c.level(-1))
	}
	for i, n := 0, c.rows/block; n>>i != 0; i++ {
		if n&(1<<i) != 0 {
			c.fold.Columns(c.out, c.level(i), 0, 1, any)
			any = true
		}
	}
}

// softmaxColumns lowers softmax and related operations along a dim that is not the last,
// by tiles of columns.
func softmaxColumns[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	width := min(max(softmaxTile/n, 64)&^15, columnTile)
	tiles, adds := (inner+width-1)/width, k.Adds()
	return func(r *run) error {
		dst, a, b := buf[T](r, &s.Out), buf[T](r, &s.In[0]), buf[T](r, &s.In[len(s.In)-1])
		for lo, hi := r.share(outer*tiles, 1); lo < hi && !r.stopped(); lo++ {
			first := lo % tiles * width
			at := lo/tiles*n*inner + first
			softmaxTileOf(r, k, adds, s.Op, n, min(width, inner-first),
				kernel.Rows[T]{Data: dst[at:], Stride: inner}, kernel.Rows[T]{Data: a[at:], Stride: inner}, kernel.Rows[T]{Data: b[at:], Stride: inner})
		}
		return nil
	}
}

// softmaxTileOf computes softmax or a related operation down m columns of n elements. dst
// may be a.
func softmaxTileOf[T float](r *run, k *kernel.Table[T], adds kernel.Fold[T], op tensor.Op, n, m int, dst, a, b kernel.Rows[T]) {
	of := func(x kernel.Rows[T], j int) []T { return x.Data[j*x.Stride:][:m] }
	room := scratchRow[T](r, 1, 3*m)
	top, t, sum := room[:m], room[m:2*m], newColumns(r, adds, room[2*m:], n)
	switch op {
	case tensor.OpSoftmax, tensor.OpLogSoftmax:
		copy(top, of(a, 0))
		for j := 1; j < n && !r.stopped(); j++ {
			k.Max(top, top, of(a, j))
		}
		for j := 0; j < n && !r.stopped(); j++ {
			e := t
			if op == tensor.OpSoftmax {
				e = of(dst, j)
			}
			k.Sub(e, of(a, j), top)
			k.Exp(e, e)
			sum.row(e)
		}
		sum.finish()
		if op == tensor.OpSoftmax {
			k.Recip(sum.out, sum.out)
		} else {
			k.Log(sum.out, sum.out)
		}
		for j := 0; j < n && !r.stopped(); j++ {
			d := of(dst, j)
			if op == tensor.OpSoftmax {
				k.Mul(d, d, sum.out)
			} else { // one after the other, as in LogSoftmax of a row
				k.Sub(d, of(a, j), top)
				k.Sub(d, d, sum.out)
			}
		}
	case tensor.OpSoftmaxGrad:
		for j := 0; j < n && !r.stopped(); j++ {
			k.Mul(t, of(a, j), of(b, j))
			sum.row(t)
		}
		sum.finish()
		for j := 0; j < n && !r.stopped(); j++ {
			k.Sub(t, of(b, j), sum.out)
			k.Mul(of(dst, j), of(a, j), t)
		}
	default:
		for j := 0; j < n && !r.stopped(); j++ {
			sum.row(of(b, j))
		}
		sum.finish()
		for j := 0; j < n && !r.stopped(); j++ {
			k.Exp(t, of(a, j))
			k.Mul(t, t, sum.out)
			k.Sub(of(dst, j), of(b, j), t)
		}
	}
}
