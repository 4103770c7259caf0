package model

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// MLP is a classifier of linear layers with ReLU between them. Its parameters are
// fc1.weight, fc1.bias, fc2.weight, ...
type MLP struct {
	layers []*nn.Linear
}

// NewMLP returns a classifier whose layers have the given sizes, inputs first and classes
// last.
func NewMLP(s *tensor.Session, sizes ...int) (*MLP, error) {
	if len(sizes) < 2 {
		return nil, fmt.Errorf("%w: layers of sizes %v; expected two sizes or more", ErrConfig, sizes)
	}
	for _, n := range sizes {
		if n < 1 {
			return nil, fmt.Errorf("%w: layers of sizes %v; expected 1 or more", ErrConfig, sizes)
		}
	}
	m := &MLP{}
	for i := range len(sizes) - 1 {
		m.layers = append(m.layers, nn.NewLinear(s, sizes[i], sizes[i+1], true))
	}
	return m, nil
}

// Params implements nn.Module.
func (m *MLP) Params() []tensor.Named {
	var ps []tensor.Named
	for _, p := range m.Parts() {
		ps = append(ps, p.Params...)
	}
	return ps
}

// Parts implements nn.Parted: fc1, fc2, ..., each with the operations before its product.
func (m *MLP) Parts() []nn.Part {
	var parts []nn.Part
	for i, l := range m.layers {
		name := fmt.Sprintf("fc%d", i+1)
		parts = append(parts, nn.Part{Name: name, Params: nn.Prefix(name, l.Params()), Forward: func(x *tensor.Tensor) *tensor.Tensor {
			return m.forward(i, x)
		}})
	}
	return parts
}

// Forward returns the logits [n, classes] of x [n, ...], whose other dims are flattened.
func (m *MLP) Forward(x *tensor.Tensor) *tensor.Tensor {
	for i := range m.layers {
		x = m.forward(i, x)
	}
	return x
}

// forward runs layer i on the result of the layer before.
func (m *MLP) forward(i int, x *tensor.Tensor) *tensor.Tensor {
	if i == 0 {
		return m.layers[i].Forward(nn.Flatten()(x))
	}
	return m.layers[i].Forward(x.ReLU())
}

// Loss returns the cross-entropy of x's logits with the classes y [n].
func (m *MLP) Loss(x, y *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(m.Forward(x), y) }
