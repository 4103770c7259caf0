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
