package nn

import "github.com/ringside-go/ringside/tensor"

// Part is one of the layers that a model is made of, one after another.
type Part struct {
	Name    string         // what the names of its parameters begin with, as model.layers.0
	Params  []tensor.Named // all that Forward uses; two parts may share one
	Lookup  bool           // Forward looks rows up: it takes no time to speak of, however large its parameter is
	Forward func(x *tensor.Tensor) *tensor.Tensor
}

// Parted is a model that can be run part by part: on each stage of a pipeline some of them.
type Parted interface {
	Layer

	// Parts lists the parts. Applied one after another they are Forward, to the same bits. Between two of them goes one tensor.
	Parts() []Part
}

// Work returns what Forward multiplies with for every row of its input: the numbers of the matrices among the part's parameters.
func (p *Part) Work() int {
	n := 0
	for _, x := range p.Params {
		if s := x.T.Shape(); len(s) > 1 && !p.Lookup {
			n += s.Elems()
		}
	}
	return n
}

// Signaler is a model that can give what its layers hand on signals (tensor.Tensor.Signal), for a config to say how that lies: cut in its
// sequence, for one. New models don't.
type Signaler interface {
	SetSignals(on bool)
}
