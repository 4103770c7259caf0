package nn

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
)

// Recompute returns l with only its input and its result kept for the backward pass; see
// autograd.Recompute. Parameters and their names are l's.
func Recompute(l Layer) Layer { return recomputed{l} }

type recomputed struct{ Layer }

func (r recomputed) Forward(x *tensor.Tensor) *tensor.Tensor { return Recomputed(r.Layer.Forward, x) }

// SetTraining implements Trainer.
func (r recomputed) SetTraining(on bool) { SetTraining(on, r.Layer) }

// Recomputed returns f(x) computed by autograd.Recompute.
func Recomputed(f func(x *tensor.Tensor) *tensor.Tensor, x *tensor.Tensor) *tensor.Tensor {
	return autograd.Recompute(func(xs ...*tensor.Tensor) *tensor.Tensor { return f(xs[0]) }, x)
}

// Recomputer is a module that can recompute its parts one after another, and so train
// with less memory. New modules don't.
type Recomputer interface {
	// SetRecompute says whether parts are recomputed from now on.
	SetRecompute(on bool)
}
