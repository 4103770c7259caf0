package nn

import (
	"strconv"

	"github.com/ringside-go/ringside/tensor"
)

// Module is something with parameters.
type Module interface {
	// Params lists the parameters, its own and those of the modules it is made of, always in the same order.
	Params() []tensor.Named
}

// Layer is a module that turns one tensor into another.
type Layer interface {
	Module
	Forward(x *tensor.Tensor) *tensor.Tensor
}

// Prefix puts name and a dot before the names of ps: what a module does with the parameters of its parts.
func Prefix(name string, ps []tensor.Named) []tensor.Named {
	out := make([]tensor.Named, len(ps))
	for i, p := range ps {
		out[i] = tensor.Named{Name: name + "." + p.Name, T: p.T}
	}
	return out
}

// Tensors returns the tensors of ps alone, in their order.
func Tensors(ps []tensor.Named) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ps))
	for i, p := range ps {
		out[i] = p.T
	}
	return out
}

// Grads returns the gradients that Backward left at ps, nil where it left none.
func Grads(ps []tensor.Named) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ps))
	for i, p := range ps {
		out[i] = p.T.Grad()
	}
	return out
}

// ZeroGrad clears the gradients at ps.
func ZeroGrad(ps []tensor.Named) {
	for _, p := range ps {
		p.T.SetGrad(nil)
	}
}

// Count returns the number of elements of ps.
func Count(ps []tensor.Named) int {
	n := 0
	for _, p := range ps {
		n += p.T.Elems()
	}
	return n
}

// Trainer is a module that behaves otherwise in training, or that contains such.
type Trainer interface {
	SetTraining(on bool)
}

// SetTraining tells those of ms that care whether they are being trained. New modules are in training.
func SetTraining[M Module](on bool, ms ...M) {
	for _, m := range ms {
		if t, ok := any(m).(Trainer); ok {
			t.SetTraining(on)
		}
	}
}

// Sequential applies layers one after the other. Their parameters are named by position: 0.weight, 0.bias, 2.weight.
type Sequential []Layer

// Params implements Module.
func (l Sequential) Params() []tensor.Named {
	var ps []tensor.Named
	for i, m := range l {
		ps = append(ps, Prefix(strconv.Itoa(i), m.Params())...)
	}
	return ps
}

// Forward implements Layer.
func (l Sequential) Forward(x *tensor.Tensor) *tensor.Tensor {
	for _, m := range l {
		x = m.Forward(x)
	}
	return x
}

// SetTraining implements Trainer.
func (l Sequential) SetTraining(on bool) { SetTraining(on, l...) }

// Func is a layer without parameters.
type Func func(x *tensor.Tensor) *tensor.Tensor

// Params implements Module: there are none.
func (Func) Params() []tensor.Named { return nil }

// Forward implements Layer.
func (f Func) Forward(x *tensor.Tensor) *tensor.Tensor { return f(x) }

// ReLU returns max(x, 0) as a layer.
func ReLU() Func { return (*tensor.Tensor).ReLU }

// GELU returns x times the normal distribution function of x as a layer.
func GELU() Func { return (*tensor.Tensor).GELU }

// SiLU returns x sigmoid(x) as a layer.
func SiLU() Func { return (*tensor.Tensor).SiLU }

// Tanh returns the hyperbolic tangent as a layer.
func Tanh() Func { return (*tensor.Tensor).Tanh }

// Sigmoid returns 1/(1+e^-x) as a layer.
func Sigmoid() Func { return (*tensor.Tensor).Sigmoid }

// Flatten keeps the first dim and makes one of the others.
func Flatten() Func {
	return func(x *tensor.Tensor) *tensor.Tensor {
		if x.Err() != nil || x.Rank() == 2 {
			return x
		}
		return x.Reshape(x.Dim(0), -1)
	}
}
