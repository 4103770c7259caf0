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

// tiles calls f for every tile of columns in this thread's part of the results: the
// number and the offset of its first, and their number.
func (g *folding) tiles(r *run, f func(i, off, n int)) {
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
		for at := lo; at < hi; at += columnTile {
			if r.stopped() {
				return
			}
			f(i+at, odo.off[0]+at, min(columnTile, hi-at))
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

// addRow adds a row to the sums a.
func addRow[T, A number](a []A, x []T) {
	a = a[:len(x)]
	for i, v := range x {
		a[i] += A(v)
	}
}

// mulRow multiplies the products a by a row.
func mulRow[T, A number](a []A, x []T) {
	a = a[:len(x)]
	for i, v := range x {
		a[i] *= A(v)
	}
}

// block is the number of rows that are added up one after another before pairwise
// summation begins.
const block = 16

// columns adds up rows. The sums of two blocks become one, two of those one again, and so
// on, so that the error grows with the logarithm of the number of rows. room has a row
// for the current block and one for each level of pairs.
type columns[T float] struct {
	add       kernel.Binary[T]
	out, room []T
	rows      int
}

// newColumns returns the sums of so many rows in out. They take the run's first scratch
// row.
func newColumns[T float](r *run, k *kernel.Table[T], out []T, rows int) columns[T] {
	return columns[T]{add: k.Add, out: out, room: scratchRow[T](r, 0, len(out)*(1+bits.Len(uint(rows/block))))}
}

// level returns the sum of 2^i blocks; level -1 is that of the current block.
func (c *columns[T]) level(i int) []T { return c.room[(i+1)*len(c.out):][:len(c.out)] }

func (c *columns[T]) row(x []T) {
	part := c.level(-1)
	if c.rows%block == 0 {
		copy(part, x)
	} else {
		c.add(part, part, x)
	}
	if c.rows++; c.rows%block != 0 {
		return
	}
	n := c.rows/block - 1 // blocks before this one: its bits tell which levels are in use
	i := 0
	for ; n&(1<<i) != 0; i++ {
		c.add(part, c.level(i), part)
	}
	copy(c.level(i), part)
}

// finish adds up the levels, smallest sums first.
func (c *columns[T]) finish() {
	clear(c.out)
	if c.rows%block != 0 {
		copy(c.out, c.level(-1))
	}
	for i, n := 0, c.rows/block; n>>i != 0; i++ {
		if n&(1<<i) != 0 {
			c.add(c.out, c.out, c.level(i))
		}
	}
}

// divide divides the finished sums by a number. Multiplying by 1/by would round twice:
// the mean of equal numbers could be another one.
func (c *columns[T]) divide(k *kernel.Table[T], by T) {
	divisors := c.level(-1)
	for i := range divisors {
		divisors[i] = by
	}
	k.Div(c.out, c.out, divisors)
}

// softmaxColumns lowers softmax and related operations along a dim that is not the last,
// by tiles of columns.
func softmaxColumns[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	width := min(max(softmaxTile/n, 64)&^15, columnTile)
	tiles := (inner + width - 1) / width
	return func(r *run) error {
		dst, a, b := buf[T](r, &s.Out), buf[T](r, &s.In[0]), buf[T](r, &s.In[len(s.In)-1])
		for lo, hi := r.share(outer*tiles, 1); lo < hi && !r.stopped(); lo++ {
			first := lo % tiles * width
			m := min(width, inner-first)
			rows := stripe[T]{first: lo/tiles*n*inner + first, step: inner, width: m}
			room := scratchRow[T](r, 1, 3*m)
			top, t, sum := room[:m], room[m:2*m], newColumns(r, k, room[2*m:], n)
			switch s.Op {
			case tensor.OpSoftmax, tensor.OpLogSoftmax:
				copy(top, rows.of(a, 0))
				for j := 1; j < n && !r.stopped(); j++ {
					k.Max(top, top, rows.of(a, j))
				}
				for j := 0; j < n && !r.stopped(); j++ {
					e := t
					if s.Op == tensor.OpSoftmax {
						e = rows.of(dst, j)
					}
					k.Sub(e, rows.of(a, j), top)
					k.Exp(e, e)
					sum.row(e)
				}
				sum.finish()
				if s.Op == tensor.OpSoftmax {
					k.Recip(sum.out, sum.out)
				} else {
					k.Log(sum.out, sum.out)
				}
				for j := 0; j < n && !r.stopped(); j++ {
					d := rows.of(dst, j)
					if s.Op == tensor.OpSoftmax {
						k.Mul(d, d, sum.out)
					} else { // one after the other, as in LogSoftmax of a row
						k.Sub(d, rows.of(a, j), top)
						k.Sub(d, d, sum.out)
					}
				}
			case tensor.OpSoftmaxGrad:
				for j := 0; j < n && !r.stopped(); j++ {
					k.Mul(t, rows.of(a, j), rows.of(b, j))
					sum.row(t)
				}
				sum.finish()
				for j := 0; j < n && !r.stopped(); j++ {
					k.Sub(t, rows.of(b, j), sum.out)
					k.Mul(rows.of(dst, j), rows.of(a, j), t)
				}
			default:
				for j := 0; j < n && !r.stopped(); j++ {
					sum.row(rows.of(b, j))
				}
				sum.finish()
				for j := 0; j < n && !r.stopped(); j++ {
					k.Exp(t, rows.of(a, j))
					k.Mul(t, t, sum.out)
					k.Sub(rows.of(dst, j), rows.of(b, j), t)
				}
			}
		}
		return nil
	}
}

// stripe is where the rows of a tile of columns lie.
type stripe[T float] struct{ first, step, width int }

func (s *stripe[T]) of(x []T, j int) []T { return x[s.first+j*s.step:][:s.width] }
