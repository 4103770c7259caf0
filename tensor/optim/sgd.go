package optim

import (
	"cmp"

	"github.com/ringside-go/ringside/tensor"
)

// SGDOptions configure SGD. Zero fields other than LR switch a feature off.
type SGDOptions struct {
	LR       float64 // learning rate; 0 is 1e-2
	Momentum float64
	// Dampening reduces the gradient's share in the momentum, from the second step on.
	Dampening float64
	Nesterov  bool    // look ahead along the momentum
	Decay     float64 // weight decay, added to the gradient
}

// SGD is stochastic gradient descent as PyTorch implements it. LR may be changed between
// steps.
type SGD struct {
	base
	LR  float64
	o   SGDOptions
	buf []*tensor.Tensor
}

// NewSGD returns an optimizer of params.
func NewSGD(params []tensor.Named, o SGDOptions) *SGD {
	d := &SGD{base: base{params: params}, LR: cmp.Or(o.LR, 1e-2), o: o}
	if o.Momentum != 0 {
		d.buf = d.zeros()
	}
	return d
}

// Step implements Optimizer.
func (d *SGD) Step(grads []*tensor.Tensor) error {
	damp := d.o.Dampening
	if d.steps == 0 {
		damp = 0 // the momentum starts with the whole gradient
	}
	return d.each(grads, func(s *tensor.Session, i int, p, g *tensor.Tensor) error {
		if d.buf == nil {
			return p.Assign(d.descend(s, p, g, d.o.Decay))
		}
		b := s.Apply(tensor.OpSGDM, nil, tensor.T(d.buf[i]), tensor.T(g), tensor.T(p),
			tensor.S(d.o.Momentum), tensor.S(damp), tensor.S(d.o.Decay))
		if d.o.Nesterov {
			return assign(d.buf[i], b, p, d.descend(s, p, g.Add(b.MulS(d.o.Momentum)), d.o.Decay))
		}
		return assign(d.buf[i], b, p, d.descend(s, p, b, 0))
	})
}

// descend returns p - LR*(g + decay*p).
func (d *SGD) descend(s *tensor.Session, p, g *tensor.Tensor, decay float64) *tensor.Tensor {
	return s.Apply(tensor.OpSGD, nil, tensor.T(p), tensor.T(g), tensor.S(d.LR), tensor.S(decay))
}

// State implements Optimizer: it returns momentum_buffer of every parameter, if there is
// momentum.
func (d *SGD) State() []tensor.Named { return d.named("momentum_buffer", d.buf) }
