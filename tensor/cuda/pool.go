package cuda

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

var pools = map[tensor.Op]string{
	tensor.OpMaxPool2D: "maxpool2d_", tensor.OpMaxPool2DGrad: "maxpool2d_grad_",
	tensor.OpAvgPool2D: "avgpool2d_", tensor.OpAvgPool2DGrad: "avgpool2d_grad_",
}

// pool adds a pool of planes or its gradient.
func (k *kernel) pool(s *compile.Step) {
	large, small := s.In[0].Shape, s.Out.Shape
	switch s.Op {
	case tensor.OpMaxPool2DGrad:
		small = s.In[1].Shape
	case tensor.OpAvgPool2DGrad:
		large, small = small, large
	}
	h, w, oh, ow := large[2], large[3], small[2], small[3]
	d := s.Out.DType
	if k.host = !real(d) || max(h*w, oh*ow) > math.MaxInt32/2; k.host {
		return
	}
	var args []any
	for _, o := range s.In {
		args = append(args, k.dense(o, d))
	}
	args = append(args, s.Out, uint32(h), uint32(w), uint32(oh), uint32(ow))
	for _, v := range s.Ints[:6] { // windows, their distance, the padding
		args = append(args, uint32(v))
	}
	n := s.Out.Shape[2] * s.Out.Shape[3]
	window := int(s.Ints[0] * s.Ints[1])
	k.call("pool", pools[s.Op]+d.String(), s.Out.Shape.Elems()*window, (n+255)/256, s.Out.Shape[0]*s.Out.Shape[1], 1, args...)
}
