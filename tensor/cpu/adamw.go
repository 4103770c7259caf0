package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// adamw lowers the AdamW updates of all parameters: one pass over the memory of each.
// Threads share all of them as if they were one.
func (lw *lowerer) adamw(s *compile.Step) func(r *run) error {
	type update struct {
		p, m, v, g, p1, m1, v1 compile.Operand
		scalars                adamwScalars
		// its first element among the elements of all, a multiple of tile
		from int
	}
	var all []update
	outs := s.Outs()
	total := 0
	for i := 0; i*compile.AdamWIn < len(s.In); i++ {
		in := s.In[i*compile.AdamWIn:][:compile.AdamWIn]
		u := update{p: in[0], m: in[1], v: in[2], g: in[3], p1: *outs[3*i], m1: *outs[3*i+1], v1: *outs[3*i+2], scalars: scalarsOf(in[4:]), from: total}
		all = append(all, u)
		total += (u.p.Shape.Elems() + tile - 1) / tile * tile
	}
	return func(r *run) error {
		from, to := r.share(total, tile)
		for i := range all {
			u := &all[i]
			lo, hi := max(from-u.from, 0), min(to-u.from, u.p.Shape.Elems())
			for ; lo < hi && !r.stopped(); lo += breath {
				piece := func(o *compile.Operand) []float32 { return buf[float32](r, o)[lo:min(hi, lo+breath)] }
				r.table.AdamW(piece(&u.p1), piece(&u.m1), piece(&u.v1), piece(&u.p), piece(&u.m), piece(&u.v), piece(&u.g), u.scalars.step(r))
			}
		}
		return nil
	}
}

// adamwScalars are the scalars of an update: beta1, beta2, lr, wd, eps, c1, c2.
type adamwScalars [compile.AdamWIn - 4]int

func scalarsOf(in []compile.Operand) (n adamwScalars) {
	for k := range n {
		n[k] = in[k].Scalar
	}
	return n
}

// step returns the coefficients that the kernel takes.
func (n *adamwScalars) step(r *run) kernel.AdamWStep[float32] {
	var x [len(n)]float64
	for k, at := range n {
		x[k] = r.scalars[at]
	}
	b1, b2, lr, wd, eps, c1, c2 := x[0], x[1], x[2], x[3], x[4], x[5], x[6]
	return kernel.AdamWStep[float32]{
		Beta1: float32(b1), Rest1: float32(1 - b1), Beta2: float32(b2), Rest2: float32(1 - b2),
		Root: float32(1 / math.Sqrt(c2)), Eps: float32(eps), Decay: float32(1 - lr*wd), Rate: float32(lr / c1),
	}
}
