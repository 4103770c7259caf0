package optim

import (
	"cmp"
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// AdamWOptions configure AdamW and Adam. Zero fields mean the defaults, which are
// PyTorch's except for Decay.
type AdamWOptions struct {
	LR    float64 // learning rate, 1e-3
	Beta1 float64 // 0.9
	Beta2 float64 // 0.999
	Eps   float64 // 1e-8
	Decay float64 // weight decay, 0

	// Decays reports whether a parameter decays; nil means all do.
	Decays func(p tensor.Named) bool
}

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019). LR may be
// changed between steps.
type AdamW struct {
	base
	LR   float64
	o    AdamWOptions
	m, v []*tensor.Tensor
	l2   bool
}

// NewAdamW returns an optimizer of params.
func NewAdamW(params []tensor.Named, o AdamWOptions) *AdamW {
	o.LR, o.Eps = cmp.Or(o.LR, 1e-3), cmp.Or(o.Eps, 1e-8)
	o.Beta1, o.Beta2 = cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.999)
	a := &AdamW{base: base{params: params}, LR: o.LR, o: o}
	a.m, a.v = a.zeros(), a.zeros()
	return a
}

// NewAdam returns the original Adam (Kingma and Ba 2015), whose decay is added to the
// gradient.
func NewAdam(params []tensor.Named, o AdamWOptions) *AdamW {
	a := NewAdamW(params, o)
	a.l2 = true
	return a
}

// Step implements Optimizer.
func (a *AdamW) Step(grads []*tensor.Tensor) error {
	t := float64(a.steps + 1)
	c1, c2 := 1-math.Pow(a.o.Beta1, t), 1-math.Pow(a.o.Beta2, t)
	return a.each(grads, func(s *tensor.Session, i int, p, g *tensor.Tensor) error {
		decay := a.o.Decay
		if a.o.Decays != nil && !a.o.Decays(a.params[i]) {
			decay = 0
		}
		if a.l2 {
			if decay != 0 {
				g = g.Add(p.MulS(decay))
			}
			decay = 0
		}
		m := s.Apply(tensor.OpAdamM, nil, tensor.T(a.m[i]), tensor.T(g), tensor.S(a.o.Beta1))
		v := s.Apply(tensor.OpAdamV, nil, tensor.T(a.v[i]), tensor.T(g), tensor.S(a.o.Beta2))
		q := s.Apply(tensor.OpAdamW, nil, tensor.T(p), tensor.T(m), tensor.T(v),
			tensor.S(a.LR), tensor.S(decay), tensor.S(a.o.Eps), tensor.S(c1), tensor.S(c2))
		return assign(a.m[i], m, a.v[i], v, p, q)
	})
}

// assign binds each first tensor of pairs to the second.
func assign(pairs ...*tensor.Tensor) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := pairs[i].Assign(pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// State implements Optimizer: it returns exp_avg and exp_avg_sq of every parameter.
func (a *AdamW) State() []tensor.Named {
	return append(a.named("exp_avg", a.m), a.named("exp_avg_sq", a.v)...)
}
