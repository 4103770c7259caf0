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
	at := newPositions(walk)
	rows := at.count()
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
		for b := lo; b < hi; b++ {
			dw, db := sums[b*width:][:n], []float32(nil)
			if bias {
				db = sums[b*width+n:][:n]
			}
			end := min(rows, (b+1)*normBlock)
			for i := b * normBlock; i < end; {
				count := min(end-i, at.left(i))
				to, row, dyRow := rowsOf(&walk, 0, dx, at.at(0, i)), rowsOf(&walk, 1, in, at.at(1, i)), rowsOf(&walk, 2, grad, at.at(2, i))
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
			for b := 1; b < blocks; b++ {
				k.Add(out, out, sums[b*width+j*n:][:n])
			}
		}
		return nil
	}
	return f, after, (blocks*width + 1) / 2
}

// positions are the rows of a nest in its order, in runs of equal length.
type positions struct {
	n     nest
	outer [][]int // of each operand: where its runs begin
}

func newPositions(n nest) positions {
	p := positions{n: n}
	last := len(n.dims) - 1
	for _, st := range n.strides {
		p.outer = append(p.outer, offsets(0, n.dims[:last], st[:last]))
	}
	return p
}

// count returns the number of positions.
func (p *positions) count() int { return p.n.inner() * len(p.outer[0]) }

// at returns the offset of position i of operand k.
func (p *positions) at(k, i int) int {
	n := p.n.inner()
	return p.outer[k][i/n] + i%n*p.n.innerStride(k)
}

// left returns the number of positions from i to the end of its run.
func (p *positions) left(i int) int { return p.n.inner() - i%p.n.inner() }
