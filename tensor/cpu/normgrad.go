package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/compile"
)

// normBlock is how many rows of a norm's gradient are added up one after another. The sums of the blocks are added up
// when all are done, so that the result doesn't depend on who did which.
const normBlock = 64

// normGrad lowers the gradients of a norm by its input, its weight and, of a layer norm, its bias: one pass over the
// rows, which computes the statistics of a row once.
func (d *Device) normGrad(s *compile.Step) (f, after func(r *run) error) {
	k := d.table
	x, dy := s.In[0], s.In[1]
	cut := len(x.Shape) - int(s.Ints[0])
	n := x.Shape[cut:].Elems()
	rows := x.Shape.Elems() / n
	blocks := (rows + normBlock - 1) / normBlock
	layer := s.Op == tensor.OpLayerNormGradX
	bias := s.Ints[1] != 0
	width := n
	if bias {
		width = 2 * n
	}
	// Rows are numbered in order; where they aren't evenly spaced, their places are listed.
	xs, dys := rowPlaces(x, cut), rowPlaces(dy, cut)
	sums := make([]float32, blocks*width)
	stats := func(row []float32, e float32) (mean, rstd float32) {
		if layer {
			mean = k.Sum(row) / float32(n)
			return mean, float32(1 / math.Sqrt(float64(k.SumSqDev(row, mean))/float64(n)+float64(e)))
		}
		return 0, float32(1 / math.Sqrt(float64(k.Dot(row, row))/float64(n)+float64(e)))
	}
	grads := func(dx, dw, db, x, w, dy []float32, mean, rstd float32) {
		if layer {
			k.LayerNormGrad(dx, dw, db, x, w, dy, mean, rstd)
		} else {
			k.RMSNormGrad(dx, dw, x, w, dy, rstd)
		}
	}
	f = func(r *run) error {
		in, grad, w, dx := buf[float32](r, &x), buf[float32](r, &dy), buf[float32](r, &s.In[2])[:n], buf[float32](r, &s.Out)
		eps, epsW := float32(r.scalars[s.In[3].Scalar]), float32(r.scalars[s.In[4].Scalar])
		lo, hi := r.share(blocks, 1)
		clear(sums[lo*width : hi*width])
		for b := lo; b < hi; b++ {
			dw, db := sums[b*width:][:n], []float32(nil)
			if bias {
				db = sums[b*width+n:][:n]
			}
			for i := b * normBlock; i < min(rows, (b+1)*normBlock); i++ {
				row, dyRow, to := in[xs.at(i):][:n], grad[dys.at(i):][:n], dx[i*n:][:n]
				mean, rstd := stats(row, eps)
				own := dw
				if eps != epsW { // then not of the same statistics
					m, q := stats(row, epsW)
					own = nil
					grads(scratchRow[float32](r, 0, n), dw, nil, row, w, dyRow, m, q)
				}
				grads(to, own, db, row, w, dyRow, mean, rstd)
			}
		}
		return nil
	}
	after = func(r *run) error {
		for j, o := range s.Also {
			out := buf[float32](r, &o)[:n]
			copy(out, sums[j*n:][:n])
			for b := 1; b < blocks; b++ {
				k.Add(out, out, sums[b*width+j*n:][:n])
			}
		}
		return nil
	}
	return f, after
}

// rowStarts are where rows begin: evenly spaced in runs of equal length.
type rowStarts struct {
	first     []int // of each run
	run, step int
}

func rowPlaces(o compile.Operand, cut int) rowStarts {
	n := newNest(o.Shape[:cut], o.Strides[:cut])
	p := rowStarts{run: n.inner(), step: n.innerStride(0)}
	n.each(0, func(off, _, _ int) { p.first = append(p.first, off) })
	return p
}

func (p *rowStarts) at(i int) int {
	if len(p.first) == 1 {
		return p.first[0] + i*p.step
	}
	return p.first[i/p.run] + i%p.run*p.step
}
