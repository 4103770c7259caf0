package nn

import "github.com/ringside-go/ringside/tensor"

// Part is one of the consecutive parts of a model.
type Part struct {
	// Name is the prefix of the names of its parameters, such as model.layers.0.
	Name   string
	Params []tensor.Named // all that Forward uses; two parts may share one
	// Lookup says that Forward looks up rows, which takes little time however large the
	// parameter is.
	Lookup  bool
	Forward func(x *tensor.Tensor) *tensor.Tensor
}

// Parted is a model whose parts can run on different stages of a pipeline.
type Parted interface {
	Layer

	// Parts returns the parts. Applied one after another they compute Forward with the
	// same bits. A single tensor passes between two parts.
	Parts() []Part
}

// Work returns the number of multiplications of Forward for each row of its input: the
// number of elements of the part's matrices.
func (p *Part) Work() int {
	n := 0
	for _, x := range p.Params {
		if s := x.T.Shape(); len(s) > 1 && !p.Lookup {
			n += s.Elems()
		}
	}
	return n
}

// Signaler is a model that can put signals on the results of its layers
// (tensor.Tensor.Signal), so that a config can place them, for example cut in the
// sequence. New models don't.
type Signaler interface {
	// SetSignals says whether results of layers get signals from now on.
	SetSignals(on bool)
}
