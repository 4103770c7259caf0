package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// loop computes n elements of dst from contiguous operands, of the dtypes that it was
// made for. dst may be an operand. s are the operation's own scalars.
type loop func(dst pointer, in *[4]pointer, s []float64, n int)

// elementwise lowers a single operation as a tile program of one, unless it needs no
// tiles.
func (lw *lowerer) elementwise(s *compile.Step) func(r *run) error {
	if f := lw.withScalar(s); f != nil {
		return f
	}
	if f := lw.whole(s); f != nil {
		return f
	}
	one := *s
	one.In = slices.Clone(s.In)
	inst := compile.Inst{Op: s.Op, DType: s.Out.DType, Ints: s.Ints}
	for i := range one.In {
		if o := &one.In[i]; o.Scalar < 0 {
			o.Strides = o.Broadcast(s.Out.Shape)
		}
		inst.In = append(inst.In, i)
	}
	one.Body = []compile.Inst{inst}
	return lw.tiles(&one)
}

// gatherAs copies n elements that lie stride apart.
func gatherAs[T any](dst, src pointer, stride, n int) {
	d := elems[T](dst, n)
	if stride == 0 {
		fill(d, *(*T)(src))
		return
	}
	step := stride * sizeOf[T]()
	for i := range d {
		d[i] = *(*T)(shift(src, i*step))
	}
}

// spread fills n elements with a scalar, converted to t.
func spread(dst pointer, t tensor.DType, x float64, n int) {
	switch t {
	case tensor.F32:
		fill(elems[float32](dst, n), float32(x))
	case tensor.F64:
		fill(elems[float64](dst, n), x)
	case tensor.I32:
		fill(elems[int32](dst, n), kernel.CutI32(x))
	case tensor.I64:
		fill(elems[int64](dst, n), kernel.CutI64(x))
	case tensor.U8:
		fill(elems[uint8](dst, n), toU8(x))
	case tensor.Bool:
		fill(elems[uint8](dst, n), truth(x != 0))
	case tensor.F16:
		fill(elems[element.Float16](dst, n), element.ToFloat16(float32(x)))
	case tensor.BF16:
		fill(elems[element.BFloat16](dst, n), element.ToBFloat16(float32(x)))
	}
}

// fill sets all elements of d to x: a few one by one, others as copies of these, which
// takes the vectors of any machine.
func fill[T any](d []T, x T) {
	const few, most = 64, 2048
	n := min(len(d), few)
	for i := range d[:n] {
		d[i] = x
	}
	for n < len(d) {
		n += copy(d[n:], d[:min(n, most)])
	}
}

// withScalar lowers an f32 operation between a contiguous tensor and a scalar, which
// needs no tiles.
func (lw *lowerer) withScalar(s *compile.Step) func(r *run) error {
	if s.Out.DType != tensor.F32 || len(s.In) != 2 || !s.Op.Info().Weak {
		return nil
	}
	x, c, left := s.In[0], s.In[1], false // left: the scalar is
	if x.Scalar >= 0 {
		x, c, left = c, x, true
	}
	n := s.Out.Shape.Elems()
	if c.Scalar < 0 || x.DType != tensor.F32 || !x.Dense || x.Shape.Elems() != n {
		return nil
	}
	f := lw.scalarLoop(s.Op, left)
	if f == nil {
		return nil
	}
	return func(r *run) error {
		for lo, hi := r.share(n, tile); lo < hi && !r.stopped(); lo += breath {
			m := min(breath, hi-lo)
			f(elems[float32](at(r.bufs[s.Out.Buf], 4*lo), m), elems[float32](at(r.bufs[x.Buf], 4*(x.Off+lo)), m), float32(r.scalars[c.Scalar]))
		}
		return nil
	}
}

// whole lowers an operation whose operands are tensors that lie as its result does, which
// needs no tiles.
func (lw *lowerer) whole(s *compile.Step) func(r *run) error {
	n := s.Out.Shape.Elems()
	for _, o := range s.In {
		if o.Scalar >= 0 || !o.Dense || o.Shape.Elems() != n {
			return nil
		}
	}
	f := lw.loopFor(s, s.In[len(s.In)-1].DType)
	width := s.Out.DType.Size()
	return func(r *run) error {
		lo, hi := r.share(n, tile)
		if lo == hi {
			return nil
		}
		for i := range s.In {
			o := &s.In[i]
			r.in[i] = at(r.bufs[o.Buf], (o.Off+lo)*o.DType.Size())
		}
		f(at(r.bufs[s.Out.Buf], lo*width), &r.in, nil, hi-lo)
		return nil
	}
}

// scalarLoop returns the kernel of op between a tensor and a scalar, the left operand if
// left; nil if there is none.
func (lw *lowerer) scalarLoop(op tensor.Op, left bool) func(dst, x []float32, s float32) {
	k := lw.table
	switch op {
	case tensor.OpAdd:
		return k.AddS
	case tensor.OpMul:
		return k.MulS
	case tensor.OpMax:
		if !left { // of two zeros the second is the result
			return k.MaxS
		}
	case tensor.OpMin:
		if !left {
			return k.MinS
		}
	case tensor.OpSub:
		if left {
			return k.RSubS
		}
		return func(dst, x []float32, s float32) { k.AddS(dst, x, -s) }
	case tensor.OpDiv:
		if left {
			return k.RDivS
		}
	case tensor.OpPow:
		if !left {
			return k.PowS
		}
	}
	return nil
}
