package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/compile"
	"github.com/ringside-go/ringside/tensor/cpu/kernel"
)

// adamw recognises the three steps of an AdamW update (both moments, then the parameter) and makes them one pass over
// memory with the kernel's formula, which is theirs. It wants results and what they replace in memory of their own, so
// that none of the three can lie where another is still read.
func (d *Device) adamw(p *compile.Plan, i int) func(r *run) error {
	if i+3 > len(p.Steps) {
		return nil
	}
	m, v, w := &p.Steps[i], &p.Steps[i+1], &p.Steps[i+2]
	if m.Op != tensor.OpAdamM || v.Op != tensor.OpAdamV || w.Op != tensor.OpAdamW || w.Out.DType != tensor.F32 {
		return nil
	}
	g := m.In[1]
	if v.In[1].Buf != g.Buf || v.In[1].Off != g.Off || !g.Dense || !v.In[1].Dense || w.In[1].Buf != m.Out.Buf || w.In[2].Buf != v.Out.Buf {
		return nil
	}
	for _, s := range []*compile.Step{m, v, w} {
		if !s.In[0].Dense || p.Buffers[s.In[0].Buf].Place != compile.External || p.Buffers[s.Out.Buf].Place != compile.Output {
			return nil
		}
	}
	n := w.Out.Shape.Elems()
	scalar := func(r *run, s *compile.Step, k int) float64 { return r.scalars[s.In[k].Scalar] }
	return func(r *run) error {
		b1, b2 := scalar(r, m, 2), scalar(r, v, 2)
		lr, wd, eps, c1, c2 := scalar(r, w, 3), scalar(r, w, 4), scalar(r, w, 5), scalar(r, w, 6), scalar(r, w, 7)
		lo, hi := r.share(n, tile)
		piece := func(o *compile.Operand) []float32 { return buf[float32](r, o)[lo:hi] }
		r.table.AdamW(piece(&w.Out), piece(&m.Out), piece(&v.Out), piece(&w.In[0]), piece(&m.In[0]), piece(&v.In[0]), piece(&g),
			kernel.AdamWStep{
				Beta1: float32(b1), Rest1: float32(1 - b1), Beta2: float32(b2), Rest2: float32(1 - b2),
				Root: float32(1 / math.Sqrt(c2)), Eps: float32(eps), Decay: float32(1 - lr*wd), Rate: float32(lr / c1),
			})
		return nil
	}
}
