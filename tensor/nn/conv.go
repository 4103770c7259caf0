package nn

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// Conv2D is the cross-correlation of images [n, c, h, w] with kernels of any size.
type Conv2D struct {
	Weight  *tensor.Tensor // [out, in/groups, kh, kw]
	Bias    *tensor.Tensor // [out], or nil
	Options tensor.ConvOptions
}

// NewConv2D returns a layer with kernel x kernel weights. Weights and bias are uniform
// within 1/sqrt(in/groups*kernel²).
func NewConv2D(s *tensor.Session, in, out, kernel int, bias bool, o tensor.ConvOptions) *Conv2D {
	fan := max(in/max(o.Groups, 1), 1)
	bound := 1 / math.Sqrt(float64(fan*max(kernel*kernel, 1)))
	l := &Conv2D{Weight: Uniform(s, bound, out, fan, kernel, kernel), Options: o}
	if bias {
		l.Bias = Uniform(s, bound, out)
	}
	return l
}

// Params implements Module: weight and bias.
func (l *Conv2D) Params() []tensor.Named { return weightBias(l.Weight, l.Bias) }

// Forward implements Layer.
func (l *Conv2D) Forward(x *tensor.Tensor) *tensor.Tensor {
	return x.Conv2D(l.Weight, l.Bias, l.Options)
}

// MaxPool2D returns a layer that takes the largest of every kernel x kernel window;
// stride 0 is the kernel's size.
func MaxPool2D(kernel, stride, pad int) Func {
	return func(x *tensor.Tensor) *tensor.Tensor { return x.MaxPool2D(kernel, stride, pad) }
}

// AvgPool2D returns a layer that takes the mean of every window.
func AvgPool2D(kernel, stride, pad int) Func {
	return func(x *tensor.Tensor) *tensor.Tensor { return x.AvgPool2D(kernel, stride, pad) }
}
