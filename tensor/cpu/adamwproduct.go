package cpu

import (
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

const (
	// gradElems is the approximate size of the piece of a gradient that is computed
	// before it updates the parameter: it stays in the second-level cache beside the
	// operands of the update.
	gradElems = 64 << 10
	// gradRows is the fewest rows of a piece, as the other matrix is packed anew for
	// each.
	gradRows = 112
)

// adamwProduct lowers an AdamW update by a gradient that is a matrix product. Each part
// computes some rows of the gradient, in memory of its own, and updates the same rows of
// the parameter. Parts are rows because the parameter's next reader shares it by rows
// too: a core then finds in its cache the rows that it wrote a step before.
func (lw *lowerer) adamwProduct(s *compile.Step) func(r *run) error {
	p, m, v, a, b := s.In[0], s.In[1], s.In[2], s.In[3], s.In[4]
	outs := s.Outs()
	scalars := scalarsOf(s.In[5:])
	rows, inner, cols := a.Shape[0], a.Shape[1], b.Shape[1]
	high := max(gradElems/max(cols, 1), gradRows)
	return func(r *run) error {
		step := scalars.step(r)
		left, right := slice[float32](r.bufs[a.Buf])[a.Off:], slice[float32](r.bufs[b.Buf])[b.Off:]
		end, stop := r.share(rows, 1)
		for i := end; i < stop && !r.stopped(); i = end {
			end = min(i+high, stop)
			r.grad = grow(r, r.grad, (end-i)*cols)
			gemm32(r, end-i, cols, inner,
				kernel.Matrix[float32]{Data: left[i*a.Strides[0]:], RS: a.Strides[0], CS: a.Strides[1]},
				kernel.Matrix[float32]{Data: right, RS: b.Strides[0], CS: b.Strides[1]}, false, r.grad, cols)
			piece := func(o *compile.Operand) []float32 { return buf[float32](r, o)[i*cols : end*cols] }
			r.table.AdamW(piece(outs[0]), piece(outs[1]), piece(outs[2]), piece(&p), piece(&m), piece(&v), r.grad, step)
		}
		return nil
	}
}

// adamwProductWork returns its work, in the measure of workOf, without that of the
// update: low parts are slow products.
func adamwProductWork(s *compile.Step) int {
	return bounded(s.Out.Shape.Elems(), s.In[3].Shape[1]) / 25
}
