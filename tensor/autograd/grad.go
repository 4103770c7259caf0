package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Options change how gradients are computed; nil and the zero value are the defaults.
type Options struct {
	// GradOutput is the gradient with respect to the loss itself, of the same shape. If
	// it is nil the loss must have one element, and its gradient is 1.
	GradOutput *tensor.Tensor

	// CreateGraph gives the gradients a graph, so that they can be differentiated again.
	// This works for elementwise operations, movement, sums, matrix products and softmax;
	// the gradients of others give ErrNoGrad.
	CreateGraph bool

	// Zeros returns zeros as the gradient of an x that the loss does not depend on.
	// Without it that is ErrNoGrad.
	Zeros bool
}

// Grad returns the gradients of loss with respect to xs, each of the shape and dtype of
// its x. The xs are leaves (RequireGrad) or computed tensors between a leaf and the loss.
// Grad does not change Tensor.Grad. The gradients belong to the innermost Scope, as
// results computed there do.
//
// Grad returns tensor.ErrNoGrad, with the tensor's description, if loss or an x is
// outside the graph or loss does not depend on x; tensor.ErrShape if the loss has several
// elements; and tensor.ErrReleased if an intermediate that it needs was released. The
// error has the place of the call. Unlike the error of an operation, it does not stick to
// the session.
func Grad(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	return GradWith(nil, loss, xs...)
}

// GradWith is Grad with options.
func GradWith(o *Options, loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	w := newWalk(o)
	w.leaves = make([]leaf, 0, len(xs))
	defer w.end()
	for i, x := range xs {
		if err := x.Err(); err != nil {
			return nil, err
		}
		switch {
		case x.RequiresGrad():
			w.target(x)
		case x.Node() != nil:
			if w.nodes == nil {
				w.nodes = map[*tensor.Node]*tensor.Tensor{}
			}
			w.nodes[x.Node()] = nil
		default:
			err := fmt.Errorf("%w: xs[%d], %v, requires no gradient (RequireGrad; requires_grad_ in Python) and was computed from no tensor that does", tensor.ErrNoGrad, i, x)
			return nil, tensor.CallError(x.Session(), "grad", err)
		}
	}
	out := make([]*tensor.Tensor, len(xs))
	err := w.run(loss, func(s *tensor.Session, keep func(*tensor.Tensor)) error {
		for i, x := range xs {
			var g *tensor.Tensor
			if l := w.leaf(x); l != nil {
				g = l.grad
			} else {
				g = w.nodes[x.Node()]
			}
			switch {
			case g == nil && !w.o.Zeros:
				return fmt.Errorf("%w: the loss does not depend on xs[%d], %v", tensor.ErrNoGrad, i, x)
			case g == nil:
				g = tensor.Zeros(s, x.DType(), x.Shape()...)
			case g == w.o.GradOutput || given(out[:i], g):
				// Each x gets a handle of its own, which can be assigned and freed
				// separately.
				g = g.Detach()
			}
			*tensor.Place(g) = int32(i)
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

// given reports whether gs has g at the index tensor.Place of g.
func given(gs []*tensor.Tensor, g *tensor.Tensor) bool {
	i := int(*tensor.Place(g))
	return i < len(gs) && gs[i] == g
}

// Backward computes the gradients of loss with respect to every leaf that it depends on
// and adds them to the leaf's Grad, where they stay until SetGrad(nil). The errors are
// those of Grad; after an error no leaf has changed.
func Backward(loss *tensor.Tensor) error { return BackwardWith(nil, loss) }

// BackwardWith is Backward with options. It ignores Zeros.
func BackwardWith(o *Options, loss *tensor.Tensor) error {
	w := newWalk(o)
	w.all = true
	defer w.end()
	return w.run(loss, func(_ *tensor.Session, _ func(*tensor.Tensor)) error {
		for i := range w.leaves {
			l := &w.leaves[i]
			if old := l.x.Grad(); old != nil {
				if l.grad = old.Add(l.grad); l.grad.Err() != nil {
					return l.grad.Err()
				}
			}
		}
		for _, l := range w.leaves {
			l.x.SetGrad(l.grad)
		}
		return nil
	})
}
