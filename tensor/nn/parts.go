package nn

import "github.com/ringside-go/ringside/tensor"

// Part is one of the layers that a model is made of, one after another.
type Part struct {
	Name    string         // what the names of its parameters begin with, as model.layers.0
	Params  []tensor.Named // all that Forward uses; two parts may share one
	Forward func(x *tensor.Tensor) *tensor.Tensor
}

// Parted is a model that can be run part by part: on each stage of a pipeline some of them.
type Parted interface {
	Layer

	// Parts lists the parts. Applied one after another they are Forward, to the same bits. Between two of them goes one tensor.
	Parts() []Part
}
