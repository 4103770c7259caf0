package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Recompute returns fn(x, more...) and keeps only its inputs and its result for the
// backward pass. It releases the intermediates at once, and the backward pass computes
// them again (Chen et al. 2016). A stack of n such parts needs the memory of the values
// between the parts and of the intermediates of one part, at the cost of one more forward
// pass.
//
// fn must record the same operations when it is called again. It must not read state that
// changes in between. It gets the same random numbers of the session again, so dropout
// agrees. It may use leaves (parameters) that are not among its inputs, but they must not
// be assigned before the backward pass. Other computed tensors that fn uses should be
// among its inputs, because their graph is walked once more for each part otherwise.
//
// The results have the bits that fn alone gives. So have the gradients, except those of a
// leaf that is used both inside and outside a part, whose sum is taken in another order.
//
// Gradients of gradients are ErrNoGrad. An error is in the result (Tensor.Err).
func Recompute(fn func(xs ...*tensor.Tensor) *tensor.Tensor, x *tensor.Tensor, more ...*tensor.Tensor) *tensor.Tensor {
	xs := append([]*tensor.Tensor{x}, more...)
	s := x.Session()
	r := &recomputed{fn: fn, inputs: len(xs), stream: s.Streams()}
	var y *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) {
		y = fn(xs...)
		if y.Node() == nil || y.Err() != nil {
			sc.Keep(y)
			return
		}
		y = sc.Keep(tensor.Composite(y, r, append(xs, leaves(y, xs)...)...))
	})
	return y
}

// recomputed is the By of a node that Recompute made. The first inputs of the node are
// those of fn, the others the leaves that fn reads besides.
type recomputed struct {
	fn     func(xs ...*tensor.Tensor) *tensor.Tensor
	inputs int
	stream uint64 // position in the random numbers where fn began
}

// leaves returns the leaves that y was computed from on paths that avoid xs, in the order
// of a search from y.
func leaves(y *tensor.Tensor, xs []*tensor.Tensor) []*tensor.Tensor {
	seen, known := map[*tensor.Node]bool{}, map[*tensor.Tensor]bool{}
	for _, x := range xs {
		known[x] = true
		if x.Node() != nil {
			seen[x.Node()] = true
		}
	}
	var out []*tensor.Tensor
	stack := []*tensor.Node{y.Node()}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		for i := range n.In {
			e := &n.In[i]
			if e.Leaf != nil && !known[e.Leaf] {
				known[e.Leaf] = true
				out = append(out, e.Leaf)
			}
			if e.Node != nil {
				stack = append(stack, e.Node)
			}
		}
	}
	return out
}

// grads computes the part again and differentiates it.
func (r *recomputed) grads(n *tensor.Node, dy *tensor.Tensor, want []int) (out []*tensor.Tensor, err error) {
	s := dy.Session()
	s.Scope(func(sc *tensor.Scope) {
		xs := make([]*tensor.Tensor, r.inputs)
		for i := range xs {
			// Recorded without a graph, as the whole backward pass is.
			xs[i] = n.In[i].Tensor().Barrier()
		}
		targets := make([]*tensor.Tensor, len(want))
		for k, i := range want {
			if targets[k] = n.In[i].Leaf; i < r.inputs {
				targets[k] = xs[i].RequireGrad()
			}
		}
		var y *tensor.Tensor
		s.WithGrad(func() { s.AtStream(r.stream, func() { y = r.fn(xs...) }) })
		if err = y.Err(); err != nil {
			return
		}
		if first := n.Out(); !y.Shape().Equal(first.Shape()) || y.DType() != first.DType() {
			err = fmt.Errorf("%w: a Recompute made %v, and %v when it was computed again", tensor.ErrShape, first, y)
			return
		}
		if out, err = GradWith(&Options{GradOutput: dy, Zeros: true}, y, targets...); err != nil {
			return
		}
		for _, g := range out {
			sc.Keep(g)
		}
	})
	return out, err
}
