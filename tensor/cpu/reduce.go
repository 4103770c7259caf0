package cpu

import (
	"math/bits"
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
	sum := s.Op == tensor.OpSum || s.Op == tensor.OpMean
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
	if !sum || g.kept.innerStride(0) != 1 || len(g.kept.dims) != 1 {
		return nil
	}
	width := g.kept.inner()
	return func(r *run) error {
		lo, hi := r.share(width, 16)
		if lo == hi {
			return nil
		}
		in := slice[float32](r.bufs[x.Buf])
		for ; lo < hi; lo += breath {
			out := slice[float32](r.bufs[s.Out.Buf])[lo:min(hi, lo+breath)]
			c := columns{add: k.Add, out: out, room: scratchRow[float32](r, 0, len(out)*(1+bits.Len(uint(g.count/block))))}
			g.folded.each(r, x.Off+lo, func(off, n, stride int) {
				for j := range n {
					if r.stopped() {
						return
					}
					c.row(in[off+j*stride:][:len(out)])
				}
			})
			c.finish()
			if scale != 1 {
				k.MulS(out, out, scale)
			}
		}
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

// block is the number of rows that are added up one after another before pairwise
// summation begins.
const block = 16

// columns adds up rows. The sums of two blocks become one, two of those one again, and so
// on, so that the error grows with the logarithm of the number of rows. room has a row
// for the current block and one for each level of pairs.
type columns struct {
	add       func(dst, a, b []float32)
	out, room []float32
	rows      int
}

// level returns the sum of 2^i blocks; level -1 is that of the current block.
func (c *columns) level(i int) []float32 { return c.room[(i+1)*len(c.out):][:len(c.out)] }

func (c *columns) row(x []float32) {
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
func (c *columns) finish() {
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

// folds goes through the elements of every result in row-major order: add adds an element
// to the state, end stores the result. The state is a value, so that none is allocated.
func folds[T, A any](s *compile.Step, g folding, start A, add func(a A, x T) A, end func(r *run, i int, a A)) func(r *run) error {
	x := s.In[0]
	inner, step := g.folded.inner(), g.folded.innerStride(0)
	return func(r *run) error {
		in := slice[T](r.bufs[x.Buf])
		i := 0
		kept := odometer{n: &g.kept}
		for {
			for j := range g.kept.inner() {
				off := x.Off + kept.off[0] + j*g.kept.innerStride(0)
				a := start
				for folded := (odometer{n: &g.folded}); g.count > 0; {
					at := off + folded.off[0]
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
				if r.stopped() {
					return nil
				}
				end(r, i, a)
				i++
			}
			if !kept.next() {
				return nil
			}
		}
	}
}

// sumFloat lowers sum, mean and product, in float64.
func sumFloat[T float](s *compile.Step, g folding) func(r *run) error {
	end := func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a) }
	switch s.Op {
	case tensor.OpProd:
		return folds(s, g, 1, func(a float64, x T) float64 { return a * float64(x) }, end)
	case tensor.OpMean:
		end = func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a / float64(g.count)) }
	}
	return folds(s, g, 0, func(a float64, x T) float64 { return a + float64(x) }, end)
}

// sumInt lowers sum and product as i64, mean as f32 of a sum in float64, which does not
// wrap.
func sumInt[T integer](s *compile.Step, g folding) func(r *run) error {
	end := func(r *run, i int, a int64) { slice[int64](r.bufs[s.Out.Buf])[i] = a }
	switch s.Op {
	case tensor.OpProd:
		return folds(s, g, 1, func(a int64, x T) int64 { return a * int64(x) }, end)
	case tensor.OpMean:
		return folds(s, g, 0, func(a float64, x T) float64 { return a + float64(x) }, func(r *run, i int, a float64) {
			slice[float32](r.bufs[s.Out.Buf])[i] = float32(a / float64(g.count))
		})
	}
	return folds(s, g, 0, func(a int64, x T) int64 { return a + int64(x) }, end)
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

func (numericOf[T]) extreme(s *compile.Step, g folding) func(r *run) error {
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpAmax), func(r *run, i int, b best[T]) { slice[T](r.bufs[s.Out.Buf])[i] = b.x })
}

// place lowers argmax and argmin: the place of the first extreme element; a NaN counts
// as one.
func (numericOf[T]) place(s *compile.Step, g folding) func(r *run) error {
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpArgmax), func(r *run, i int, b best[T]) { slice[int64](r.bufs[s.Out.Buf])[i] = b.at })
}

func anyAll(s *compile.Step, g folding) func(r *run) error {
	end := func(r *run, i int, yes bool) { r.bufs[s.Out.Buf][i] = truth(yes) }
	if s.Op == tensor.OpAll {
		return folds(s, g, true, func(yes bool, x uint8) bool { return yes && x != 0 }, end)
	}
	return folds(s, g, false, func(yes bool, x uint8) bool { return yes || x != 0 }, end)
}

func (numericOf[T]) cumsum(s *compile.Step) func(r *run) error {
	if s.Out.DType == tensor.I64 {
		return cumsum[T, int64](s)
	}
	return cumsum[T, T](s)
}

// cumsum lowers the running sum along dim s.Ints[0], from its end if s.Ints[1].
func cumsum[T, A number](s *compile.Step) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	return func(r *run) error {
		x, y := buf[T](r, &s.In[0]), buf[A](r, &s.Out)
		for o := range outer {
			for i := range inner {
				var acc A
				for j := range n {
					if s.Ints[1] != 0 {
						j = n - 1 - j
					}
					if j%breath == 0 && r.stopped() {
						return nil
					}
					k := (o*n+j)*inner + i
					acc += A(x[k])
					y[k] = acc
				}
			}
		}
		return nil
	}
}

// split returns a shape as outer x dim x inner.
func split(shape tensor.Shape, dim int) (outer, n, inner int) {
	return shape[:dim].Elems(), shape[dim], shape[dim+1:].Elems()
}
