package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// normBlock is the number of rows of a norm's gradient that are added up one after
// another. The sums of the blocks are added up when all are done, so that the result
// doesn't depend on the threads.
const normBlock = 64

// normGrad lowers the gradients of a norm by its input, its weight and, of a layer norm,
// its bias: one pass over the rows, which computes the statistics of a row once.
func (lw *lowerer) normGrad(s *compile.Step) (f, after func(r *run) error, words int) {
	k := lw.table
	x, dy := s.In[0], s.In[1]
	cut := len(x.Shape) - int(s.Ints[0])
	n := x.Shape[cut:].Elems()
	layer, bias := s.Op == tensor.OpLayerNormGradX, s.Ints[1] != 0
	walk := newNest(x.Shape[:cut], s.Out.Strides[:cut], x.Strides[:cut], dy.Strides[:cut])
	walk.longestInner()
	rows := walk.count()
	blocks := (rows + normBlock - 1) / normBlock
	width := n // of a block's sums: those of the weight, then those of the bias
	if bias {
		width = 2 * n
	}
	grads := func(dx, x, dy kernel.Rows[float32], dw, db, w []float32, rows int, eps float32) {
		if layer {
			k.LayerNormGradRows(dx, x, dy, dw, db, w, rows, n, eps)
		} else {
			k.RMSNormGradRows(dx, x, dy, dw, w, rows, n, eps)
		}
	}
	f = func(r *run) error {
		in, grad, w, dx := buf[float32](r, &x), buf[float32](r, &dy), buf[float32](r, &s.In[2])[:n], buf[float32](r, &s.Out)
		eps, epsW := float32(r.scalars[s.In[3].Scalar]), float32(r.scalars[s.In[4].Scalar])
		sums := slice[float32](bytesOf(r.sums))
		lo, hi := r.share(blocks, 1)
		clear(sums[lo*width : hi*width])
		for b := lo; b < hi && !r.stopped(); b++ {
			dw, db := sums[b*width:][:n], []float32(nil)
			if bias {
				db = sums[b*width+n:][:n]
			}
			end := min(rows, (b+1)*normBlock)
			for i := b * normBlock; i < end; {
				count := min(end-i, walk.left(i))
				to, row, dyRow := rowsOf(&walk, 0, dx, walk.at(0, i)), rowsOf(&walk, 1, in, walk.at(1, i)), rowsOf(&walk, 2, grad, walk.at(2, i))
				own := dw
				if eps != epsW { // then dw isn't of the same statistics
					own = nil
					grads(kernel.Rows[float32]{Data: scratchRow[float32](r, 0, count*n), Stride: n}, row, dyRow, dw, nil, w, count, epsW)
				}
				grads(to, row, dyRow, own, db, w, count, eps)
				i += count
			}
		}
		return nil
	}
	after = func(r *run) error {
		sums := slice[float32](bytesOf(r.sums))
		for j := range s.Also {
			out := buf[float32](r, &s.Also[j])[:n]
			copy(out, sums[j*n:][:n])
			for b := 1; b < blocks && !r.stopped(); b++ {
				k.Add(out, out, sums[b*width+j*n:][:n])
			}
		}
		return nil
	}
	return f, after, (blocks*width + 1) / 2
}

// normGradW lowers the gradient of a norm by its weights: sums over blocks of rows, which
// do not depend on the threads, and their sum.
func normGradW[T float](s *compile.Step, k *kernel.Table[T]) lowered {
	x, dy := s.In[0], s.In[1]
	cut := len(x.Shape) - int(s.Ints[0])
	n := x.Shape[cut:].Elems()
	if x.Shape.Elems() == 0 {
		return lowered{f: func(r *run) error {
			clear(buf[T](r, &s.Out)[:n])
			return nil
		}}
	}
	walk := newNest(x.Shape[:cut], x.Strides[:cut], dy.Strides[:cut])
	walk.longestInner()
	rows, size, adds := walk.count(), normBlock, k.Adds()
	add := addNormGrads(s, k, n)
	if n <= shortRow {
		size, add = stripRows, addShortNormGrads(s, k, n)
	}
	blocks := (rows + size - 1) / size
	return lowered{
		sums: (blocks*n*sizeOf[T]() + 7) / 8,
		f: func(r *run) error {
			in, grad, sums := buf[T](r, &x), buf[T](r, &dy), slice[T](bytesOf(r.sums))
			for b, hi := r.share(blocks, 1); b < hi && !r.stopped(); b++ {
				dw, end := sums[b*n:][:n], min(rows, (b+1)*size)
				clear(dw)
				for i := b * size; i < end; {
					count := min(end-i, walk.left(i))
					add(r, dw, rowsOf(&walk, 0, in, walk.at(0, i)), rowsOf(&walk, 1, grad, walk.at(1, i)), count)
					i += count
				}
			}
			return nil
		},
		after: func(r *run) error {
			c := newColumns(r, adds, buf[T](r, &s.Out)[:n], blocks)
			c.add(slice[T](bytesOf(r.sums)), n, blocks)
			c.finish()
			return nil
		},
	}
}

// addNormGrads returns what adds the gradients by the weights of count rows of n elements
// of x and of the result's gradient to dw.
func addNormGrads[T float](s *compile.Step, k *kernel.Table[T], n int) func(r *run, dw []T, x, dy kernel.Rows[T], count int) {
	return func(r *run, dw []T, x, dy kernel.Rows[T], count int) {
		eps := T(r.scalars[s.In[2].Scalar])
		room := scratchRow[T](r, 0, 3*n)
		ones, db := room[:n], room[n:2*n]
		dx := kernel.Rows[T]{Data: room[2*n:]} // one row for all
		k.Fill(ones, 1)
		if s.Op == tensor.OpLayerNormGradW {
			k.LayerNormGradRows(dx, x, dy, dw, db, ones, count, n, eps)
		} else {
			k.RMSNormGradRows(dx, x, dy, dw, ones, count, n, eps)
		}
	}
}

// addShortNormGrads is addNormGrads of rows so short that a call for each, or a vector,
// would take most of the time. They are transposed: the statistics of all are computed
// column by column.
func addShortNormGrads[T float](s *compile.Step, k *kernel.Table[T], n int) func(r *run, dw []T, x, dy kernel.Rows[T], count int) {
	adds := k.Adds()
	return func(r *run, dw []T, x, dy kernel.Rows[T], count int) {
		in, grad := scratchRow[T](r, 0, n*count), scratchRow[T](r, 1, n*count)
		room := scratchRow[T](r, 2, n*count+count)
		squares, scale := room[:n*count], room[n*count:]
		turnRowsOf(r, in, x, count, n)
		turnRowsOf(r, grad, dy, count, n)
		column := func(x []T, j int) []T { return x[j*count:][:count] }
		if s.Op == tensor.OpLayerNormGradW {
			adds.Columns(scale, in, count, n, false)
			k.MulS(scale, scale, 1/T(n))
			for j := range n {
				k.Sub(column(in, j), column(in, j), scale)
			}
		}
		k.Square(squares, in)
		adds.Columns(scale, squares, count, n, false)
		k.MulS(scale, scale, 1/T(n))
		k.AddS(scale, scale, T(r.scalars[s.In[2].Scalar]))
		k.Sqrt(scale, scale)
		k.Recip(scale, scale)
		for j := range n {
			k.Mul(column(grad, j), column(grad, j), scale)
			dw[j] += k.Dot(column(in, j), column(grad, j))
		}
	}
}

// turnRowsOf stores the columns of count rows of n elements one after another.
func turnRowsOf[T float](r *run, dst []T, x kernel.Rows[T], count, n int) {
	if x.Stride >= n {
		turn(r, dst, count, x.Data, x.Stride, n, count)
		return
	}
	for i := range count {
		for j, v := range x.Data[i*x.Stride:][:n] {
			dst[j*count+i] = v
		}
	}
}

// count returns the number of positions of a nest.
func (n *nest) count() int { return tensor.Shape(n.dims).Elems() }

// at returns the offset of position i of operand k, in the order of the dims.
func (n *nest) at(k, i int) (off int) {
	for d := len(n.dims) - 1; d >= 0; d-- {
		off += i % n.dims[d] * n.strides[k][d]
		i /= n.dims[d]
	}
	return off
}

// left returns the number of positions from i to the end of its row.
func (n *nest) left(i int) int { return n.inner() - i%n.inner() }
