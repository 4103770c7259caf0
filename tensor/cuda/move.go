package cuda

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// copy adds kernels that copy from to to, which they may cast and broadcast. A generated
// kernel reads in the order of to. Where elements that lie side by side in from don't in
// to, that is a sector of memory for each element, so these go through tiles first.
func (k *kernel) copy(to, from compile.Operand) {
	x, ok := exchangeOf(to, from)
	if !ok {
		k.tiles(elementwise(tensor.OpCast, to, from))
		return
	}
	if to.DType == from.DType {
		x.add(k, to, from)
		return
	}
	t := k.temp(from.DType, to.Shape)
	k.copy(t, from)
	k.tiles(elementwise(tensor.OpCast, to, t))
}

// full adds a kernel that fills out with a scalar.
func (k *kernel) full(out, x compile.Operand) {
	to := out
	if out.DType.IsStorage() { // which no parameter has
		to = k.temp(out.DType.Wide(), tensor.Shape{})
	}
	k.tiles(elementwise(tensor.OpFull, to, x))
	if out.DType.IsStorage() {
		k.copy(out, to)
	}
}

// pad adds a fill of the result and a copy of the operand into it.
func (k *kernel) pad(s *compile.Step) {
	k.full(s.Out, s.In[1])
	to := s.Out
	to.Shape, to.Dense = s.In[0].Shape, false
	for i, st := range s.Out.Strides {
		to.Off += int(s.Ints[2*i]) * st
	}
	k.copy(to, s.In[0])
}

// concat adds copies of the operands into the result.
func (k *kernel) concat(s *compile.Step) {
	dim, at := int(s.Ints[0]), 0
	for _, x := range s.In {
		to := s.Out
		to.Shape, to.Dense = x.Shape, false
		to.Off += at * s.Out.Strides[dim]
		k.copy(to, x)
		at += x.Shape[dim]
	}
}
