package nn

import "github.com/ringside-go/ringside/tensor"

// LayerNorm brings the last dims to mean 0 and variance 1, then scales and shifts (Ba, Kiros and Hinton 2016).
type LayerNorm struct {
	Weight, Bias *tensor.Tensor // of the dims that are normalised; either may be nil, Bias only after Weight
	Dims         int            // how many last dims, where Weight is nil
	Eps          float64
}

// NewLayerNorm normalises the last dims, of the sizes given, with eps 1e-5.
func NewLayerNorm(s *tensor.Session, shape ...int) *LayerNorm {
	return &LayerNorm{Weight: Constant(s, 1, shape...), Bias: Constant(s, 0, shape...), Dims: len(shape), Eps: 1e-5}
}

// Params implements Module: weight and bias.
func (l *LayerNorm) Params() []tensor.Named { return weightBias(l.Weight, l.Bias) }

// Forward implements Layer.
func (l *LayerNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	return x.LayerNorm(l.Weight, l.Bias, l.Eps, l.Dims)
}

// RMSNorm divides the last dim by its root mean square and scales it (Zhang and Sennrich 2019).
type RMSNorm struct {
	Weight *tensor.Tensor // [dim], or nil
	Eps    float64
}

// NewRMSNorm normalises a last dim of size dim.
func NewRMSNorm(s *tensor.Session, dim int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: Constant(s, 1, dim), Eps: eps}
}

// Params implements Module: weight.
func (l *RMSNorm) Params() []tensor.Named { return weightBias(l.Weight, nil) }

// Forward implements Layer.
func (l *RMSNorm) Forward(x *tensor.Tensor) *tensor.Tensor { return x.RMSNorm(l.Weight, l.Eps) }

// Dropout zeroes a part P of the elements in training and divides the others by 1-P; otherwise it does nothing.
type Dropout struct {
	P    float64
	eval bool
}

// NewDropout makes a layer that drops the part p, at least 0 and below 1.
func NewDropout(p float64) *Dropout { return &Dropout{P: p} }

// Params implements Module: there are none.
func (l *Dropout) Params() []tensor.Named { return nil }

// SetTraining implements Trainer.
func (l *Dropout) SetTraining(on bool) { l.eval = !on }

// Forward implements Layer. Every pass has a mask of its own; see tensor.Rand for what it depends on.
func (l *Dropout) Forward(x *tensor.Tensor) *tensor.Tensor {
	if l.eval || l.P == 0 {
		return x
	}
	return x.Dropout(l.P)
}
