package nn

import (
	"strconv"

	"github.com/ringside-go/ringside/tensor"
)

// Module is a part of a model with parameters.
type Module interface {
	// Params returns the parameters of the module and of its parts, always in the same
	// order.
	Params() []tensor.Named
}

// Layer is a module that maps one tensor to another.
type Layer interface {
	Module
	// Forward records the layer on x and returns its result.
	Forward(x *tensor.Tensor) *tensor.Tensor
}

// Prefix returns ps with name and a dot before their names, for the parameters of a part.
func Prefix(name string, ps []tensor.Named) []tensor.Named {
	out := make([]tensor.Named, len(ps))
	for i, p := range ps {
		out[i] = tensor.Named{Name: name + "." + p.Name, T: p.T}
	}
	return out
}

// Tensors returns the tensors of ps in order.
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

// Trainer is a module that behaves differently in training, or contains such a module.
type Trainer interface {
	// SetTraining sets the training mode of the module and its parts.
	SetTraining(on bool)
}

// SetTraining sets the training mode of those of ms that are Trainers. New modules are in
// training mode.
func SetTraining[M Module](on bool, ms ...M) {
	for _, m := range ms {
		if t, ok := any(m).(Trainer); ok {
			t.SetTraining(on)
		}
	}
}

// Sequential applies layers one after the other. Their parameters are named by position:
// 0.weight, 0.bias, 2.weight.
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

// ReLU returns a layer that computes max(x, 0).
func ReLU() Func { return (*tensor.Tensor).ReLU }

// GELU returns a layer that computes x times the normal distribution function of x.
func GELU() Func { return (*tensor.Tensor).GELU }

// SiLU returns a layer that computes x sigmoid(x).
func SiLU() Func { return (*tensor.Tensor).SiLU }

// Tanh returns a layer that computes the hyperbolic tangent.
func Tanh() Func { return (*tensor.Tensor).Tanh }

// Sigmoid returns a layer that computes 1/(1+e^-x).
func Sigmoid() Func { return (*tensor.Tensor).Sigmoid }

// Flatten returns a layer that keeps the first dim and merges the others into one.
func Flatten() Func {
	return func(x *tensor.Tensor) *tensor.Tensor {
		if x.Err() != nil || x.Rank() == 2 {
			return x
		}
		return x.Reshape(x.Dim(0), -1)
	}
}
