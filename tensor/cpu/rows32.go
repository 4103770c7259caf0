package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// longestInner exchanges dims so that the longest is innermost, where the order doesn't
// matter: kernels take the rows along it at once.
func (n *nest) longestInner() {
	last := len(n.dims) - 1
	best := last
	for i, d := range n.dims {
		if d > n.dims[best] {
			best = i
		}
	}
	n.dims[best], n.dims[last] = n.dims[last], n.dims[best]
	for _, st := range n.strides {
		st[best], st[last] = st[last], st[best]
	}
}

// runs calls f for every run of positions along the innermost dim in this thread's part
// of a nest of up to four operands, with their number and each operand's first offset. No
// dim may be 0.
func (n *nest) runs(r *run, f func(count, a, b, c, d int)) {
	lo, hi := 0, n.inner()
	odo := odometer{n: n}
	if len(n.dims) == 1 {
		if lo, hi = r.share(hi, 1); lo == hi {
			return
		}
	} else {
		var any bool
		if odo, any = n.share(r); !any {
			return
		}
	}
	var first [4]int
	for k := range n.strides {
		first[k] = lo * n.innerStride(k)
	}
	for {
		f(hi-lo, odo.off[0]+first[0], odo.off[1]+first[1], odo.off[2]+first[2], odo.off[3]+first[3])
		if !odo.next() {
			return
		}
	}
}

// rows32 lowers an operation on f32 rows that has a kernel for blocks of them; it returns
// nil for others.
func (lw *lowerer) rows32(s *compile.Step) func(r *run) error {
	k := lw.table
	last := len(s.Out.Shape) - 1
	switch s.Op {
	case tensor.OpSoftmax, tensor.OpSoftmaxGrad:
		if int(s.Ints[0]) != last || last == 0 {
			return nil
		}
		return lw.softmax32(s)
	case tensor.OpRope:
		return lw.rope32(s)
	case tensor.OpLayerNorm:
		return lw.norm32(s, 3, func(dst, x, _ kernel.Rows, w, b []float32, rows, n int, eps float32) {
			k.LayerNormRows(dst, x, w, b, rows, n, eps)
		})
	case tensor.OpRMSNorm:
		return lw.norm32(s, 2, func(dst, x, _ kernel.Rows, w, _ []float32, rows, n int, eps float32) {
			k.RMSNormRows(dst, x, w, rows, n, eps)
		})
	case tensor.OpLayerNormGradX:
		return lw.norm32(s, 3, func(dst, x, dy kernel.Rows, _, w []float32, rows, n int, eps float32) {
			k.LayerNormGradRows(dst, x, dy, nil, nil, w, rows, n, eps)
		})
	case tensor.OpRMSNormGradX:
		return lw.norm32(s, 3, func(dst, x, dy kernel.Rows, _, w []float32, rows, n int, eps float32) {
			k.RMSNormGradRows(dst, x, dy, nil, w, rows, n, eps)
		})
	}
	return nil
}

// norm32 lowers a norm, of (x, w, b), or its gradient, of (x, dy, w). Some of most
// operands may be missing.
func (lw *lowerer) norm32(s *compile.Step, most int, f func(dst, x, second kernel.Rows, w, b []float32, rows, n int, eps float32)) func(r *run) error {
	x := s.In[0]
	tensors := len(s.In) - 1
	if tensors > most || x.Shape.Elems() == 0 {
		return nil
	}
	cut := len(x.Shape) - int(s.Ints[0])
	n := x.Shape[cut:].Elems()
	grad := s.Op == tensor.OpLayerNormGradX || s.Op == tensor.OpRMSNormGradX
	second := x
	if grad {
		second = s.In[1]
	}
	walk := newNest(x.Shape[:cut], s.Out.Strides[:cut], x.Strides[:cut], second.Strides[:cut])
	walk.longestInner()
	return func(r *run) error {
		eps := float32(r.scalars[s.In[tensors].Scalar])
		out, in, dy := buf[float32](r, &s.Out), buf[float32](r, &x), buf[float32](r, &second)
		var w, b []float32
		if tensors > 1 && !grad {
			w = buf[float32](r, &s.In[1])[:n]
		}
		if tensors > 2 {
			b = buf[float32](r, &s.In[2])[:n]
		}
		walk.runs(r, func(count, o, i, j, _ int) {
			f(kernel.Rows{Data: out[o:], Stride: walk.innerStride(0)}, kernel.Rows{Data: in[i:], Stride: walk.innerStride(1)},
				kernel.Rows{Data: dy[j:], Stride: walk.innerStride(2)}, w, b, count, n, eps)
		})
		return nil
	}
}

func (lw *lowerer) softmax32(s *compile.Step) func(r *run) error {
	last := len(s.Out.Shape) - 1
	n := s.Out.Shape[last]
	second := s.In[len(s.In)-1]
	walk := newNest(s.Out.Shape[:last], s.Out.Strides[:last], s.In[0].Strides[:last], second.Strides[:last])
	walk.longestInner()
	return func(r *run) error {
		out, x, y := buf[float32](r, &s.Out), buf[float32](r, &s.In[0]), buf[float32](r, &second)
		walk.runs(r, func(count, o, i, j, _ int) {
			dst, a := kernel.Rows{Data: out[o:], Stride: walk.innerStride(0)}, kernel.Rows{Data: x[i:], Stride: walk.innerStride(1)}
			if s.Op == tensor.OpSoftmax {
				r.table.SoftmaxRows(dst, a, count, n, n, 0, 1)
			} else {
				r.table.SoftmaxGradRows(dst, a, kernel.Rows{Data: y[j:], Stride: walk.innerStride(2)}, count, n, n, 0, 1)
			}
		})
		return nil
	}
}

func (lw *lowerer) rope32(s *compile.Step) func(r *run) error {
	last := len(s.Out.Shape) - 1
	h := s.Out.Shape[last] / 2
	turn := make([]int, last) // the tables go with the dim before the last
	turn[last-1] = h
	walk := newNest(s.Out.Shape[:last], s.Out.Strides[:last], s.In[0].Strides[:last], turn)
	walk.longestInner()
	sign := float32(1)
	if s.Ints[0] != 0 {
		sign = -1
	}
	return func(r *run) error {
		x, y := buf[float32](r, &s.In[0]), buf[float32](r, &s.Out)
		cos, sin := buf[float32](r, &s.In[1]), buf[float32](r, &s.In[2])
		step := walk.innerStride(2)
		walk.runs(r, func(count, o, i, t, _ int) {
			r.table.RoPERows(kernel.Rows{Data: y[o:], Stride: walk.innerStride(0)}, kernel.Rows{Data: x[i:], Stride: walk.innerStride(1)},
				kernel.Rows{Data: cos[t:], Stride: step}, kernel.Rows{Data: sin[t:], Stride: step}, count, h, sign)
		})
		return nil
	}
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
