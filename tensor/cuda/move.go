package cuda

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// full adds a kernel that fills out with a scalar.
func (k *kernel) full(out, x compile.Operand) {
	to := out
	if out.DType.IsHalf() { // which no parameter has
		to = k.temp(tensor.F32, tensor.Shape{})
	}
	k.tiles(elementwise(tensor.OpFull, to, x))
	if out.DType.IsHalf() {
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
