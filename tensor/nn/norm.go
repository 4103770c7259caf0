package nn

import "github.com/ringside-go/ringside/tensor"

// LayerNorm normalises the last dims to mean 0 and variance 1, then scales and shifts
// (Ba, Kiros and Hinton 2016).
type LayerNorm struct {
	// Weight and Bias have the shape of the normalised dims. Bias, or both, may be nil.
	Weight, Bias *tensor.Tensor
	Dims         int // number of last dims if Weight is nil
	Eps          float64
}

// NewLayerNorm returns a layer that normalises the last dims, of the given sizes, with
// eps 1e-5.
func NewLayerNorm(s *tensor.Session, shape ...int) *LayerNorm {
	return &LayerNorm{Weight: Constant(s, 1, shape...), Bias: Constant(s, 0, shape...), Dims: len(shape), Eps: 1e-5}
}

// Params implements Module: weight and bias.
func (l *LayerNorm) Params() []tensor.Named { return weightBias(l.Weight, l.Bias) }

// Forward implements Layer.
func (l *LayerNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	return x.LayerNorm(l.Weight, l.Bias, l.Eps, l.Dims)
}

// RMSNorm divides the last dim by its root mean square and scales it (Zhang and Sennrich
// 2019).
type RMSNorm struct {
	Weight *tensor.Tensor // [dim], or nil
	Eps    float64
}

// NewRMSNorm returns a layer that normalises a last dim of size dim.
func NewRMSNorm(s *tensor.Session, dim int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: Constant(s, 1, dim), Eps: eps}
}

// Params implements Module: weight.
func (l *RMSNorm) Params() []tensor.Named { return weightBias(l.Weight, nil) }

// Forward implements Layer.
func (l *RMSNorm) Forward(x *tensor.Tensor) *tensor.Tensor { return x.RMSNorm(l.Weight, l.Eps) }

// Dropout zeroes each element with probability P in training and divides the others by
// 1-P; otherwise it does nothing. A new one is in training mode: SetTraining(false, net)
// before a network evaluates or predicts.
type Dropout struct {
	P    float64
	eval bool
}

// NewDropout returns a layer with probability p, at least 0 and below 1.
func NewDropout(p float64) *Dropout { return &Dropout{P: p} }

// Params implements Module: there are none.
func (l *Dropout) Params() []tensor.Named { return nil }

// SetTraining implements Trainer.
func (l *Dropout) SetTraining(on bool) { l.eval = !on }

// Forward implements Layer. Each pass has its own mask; see tensor.Rand.
func (l *Dropout) Forward(x *tensor.Tensor) *tensor.Tensor {
	if l.eval || l.P == 0 {
		return x
	}
	return x.Dropout(l.P)
}
