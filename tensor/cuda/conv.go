package cuda

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// conv adds a convolution of planes or one of its gradients.
func (k *kernel) conv(s *compile.Step) {
	x, w, y := s.In[0], s.In[1], s.Out
	switch s.Op {
	case tensor.OpConv2DGradX:
		x, y = s.Out, s.In[0]
	case tensor.OpConv2DGradW:
		w, y = s.Out, s.In[1]
	}
	images, channels, h, v := x.Shape[0], w.Shape[1], x.Shape[2], x.Shape[3]
	groups := int(s.Ints[6])
	filters, oh, ow, kh, kw := w.Shape[0]/groups, y.Shape[2], y.Shape[3], w.Shape[2], w.Shape[3]
	extents := max(h*v, oh*ow, kh*kw, h+2*int(s.Ints[2]), v+2*int(s.Ints[3]))
	d := s.Out.DType
	if k.host = !real(d) || extents > math.MaxInt32/2; k.host {
		return
	}
	args := []any{k.dense(s.In[0], d), k.dense(s.In[1], d), s.Out}
	if s.Op == tensor.OpConv2DGradW {
		args = append(args, uint32(images))
	}
	for _, n := range []int{channels, filters, h, v, oh, ow, kh, kw} {
		args = append(args, uint32(n))
	}
	for _, n := range s.Ints[:6] { // strides, padding, dilation
		args = append(args, uint32(n))
	}
	switch n := s.Out.Shape.Elems(); s.Op {
	case tensor.OpConv2D:
		k.call("conv", "conv2d_"+d.String(), n*channels*kh*kw, (oh*ow+255)/256, filters*groups, images, args...)
	case tensor.OpConv2DGradX:
		k.call("conv", "conv2d_grad_x_"+d.String(), n*filters*kh*kw, (h*v+255)/256, channels*groups, images, args...)
	case tensor.OpConv2DGradW:
		k.call("conv", "conv2d_grad_w_"+d.String(), n*images*oh*ow, kh*kw, channels, filters*groups, args...)
	}
}
