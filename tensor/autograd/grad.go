package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Options change how gradients are computed; nil and the zero value are the defaults.
type Options struct {
	// GradOutput is the gradient of the loss itself, of its shape. Without it the loss must have one element, and 1 is
	// meant.
	GradOutput *tensor.Tensor

	// CreateGraph gives the gradients a graph, for gradients of gradients. Elementwise operations, movement, sums,
	// products of matrices and softmax can be differentiated twice; the others are ErrNoGrad the second time.
	CreateGraph bool

	// Zeros makes the gradient of what the loss does not depend on zeros. Without it that is ErrNoGrad.
	Zeros bool
}

// Grad returns the gradients of loss with respect to xs, which are leaves (RequireGrad) or computed tensors on the way
// to the loss: one of the shape and dtype of each. It leaves Tensor.Grad alone. The gradients belong to the innermost
// Scope, as if they had been computed there.
//
// It returns tensor.ErrNoGrad, naming which, for a loss or an x that is outside of the graph and for an x that loss does
// not depend on; tensor.ErrShape for a loss of several elements; tensor.ErrReleased when an intermediate that is needed
// was released. It is for the caller to look at: unlike an operation's error it does not stick to the session.
func Grad(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	return GradWith(nil, loss, xs...)
}

// GradWith is Grad with options.
func GradWith(o *Options, loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	w := newWalk(o)
	for i, x := range xs {
		if err := x.Err(); err != nil {
			return nil, err
		}
		switch {
		case x.RequiresGrad():
			w.leaves[x] = nil
		case x.Node() != nil:
			w.nodes[x.Node()] = nil
		default:
			return nil, fmt.Errorf("%w: x %d (%v) is neither a leaf that requires one nor computed from such a leaf", tensor.ErrNoGrad, i, x)
		}
	}
	out := make([]*tensor.Tensor, len(xs))
	err := w.run(loss, func(s *tensor.Session, keep func(*tensor.Tensor)) error {
		given := make(map[*tensor.Tensor]bool, len(xs))
		for i, x := range xs {
			g := w.leaves[x]
			if !x.RequiresGrad() {
				g = w.nodes[x.Node()]
			}
			switch {
			case g == nil && !w.o.Zeros:
				return fmt.Errorf("%w: the loss does not depend on x %d (%v)", tensor.ErrNoGrad, i, x)
			case g == nil:
				g = tensor.Zeros(s, x.DType(), x.Shape()...)
			case given[g] || g == w.o.GradOutput:
				g = g.Detach() // a handle for each, which can be assigned and freed by itself
			}
			given[g] = true
			keep(g)
			out[i] = g
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Backward computes the gradients of loss with respect to every leaf that it depends on and adds them to the leaf's
// Grad, where they stay until SetGrad(nil). The errors are those of Grad; after one no leaf has changed.
func Backward(loss *tensor.Tensor) error { return BackwardWith(nil, loss) }

// BackwardWith is Backward with options. Zeros has no meaning here.
func BackwardWith(o *Options, loss *tensor.Tensor) error {
	w := newWalk(o)
	w.all = true
	return w.run(loss, func(_ *tensor.Session, _ func(*tensor.Tensor)) error {
		for _, x := range w.found {
			g := w.leaves[x]
			if old := x.Grad(); old != nil {
				if g = old.Add(g); g.Err() != nil {
					return g.Err()
				}
				w.leaves[x] = g
			}
		}
		for _, x := range w.found {
			x.SetGrad(w.leaves[x])
		}
		return nil
	})
}
