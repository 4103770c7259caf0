package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Recompute is fn(x, more...), of which only the inputs and the result are kept for the backward pass: everything in
// between is released at once and computed again when the gradient comes by (Chen et al. 2016). A stack of n such parts
// needs the memory of the values between them and of one part's inside, for one more forward pass.
//
// fn must record the same operations when it is called again: it reads nothing that changes in between, and what it takes
// from the session's random numbers it gets a second time, so that dropout agrees. It may use leaves (parameters) that
// are not among its inputs; they must not be assigned before the backward pass. What else it uses of computed tensors
// belongs among its inputs, for otherwise their graph is walked once more for every part. The results are the bits that
// fn alone gives, and so are the gradients, but where one leaf is used inside and outside of a part: their sum is then
// taken in another order.
//
// Gradients of gradients don't go through it: that is ErrNoGrad. An error is in the result (Tensor.Err).
func Recompute(fn func(xs ...*tensor.Tensor) *tensor.Tensor, x *tensor.Tensor, more ...*tensor.Tensor) *tensor.Tensor {
	xs := append([]*tensor.Tensor{x}, more...)
	s := x.Session()
	a := &again{fn: fn, inputs: len(xs), stream: s.Streams()}
	var y *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) {
		y = fn(xs...)
		if y.Node() == nil || y.Err() != nil {
			sc.Keep(y)
			return
		}
		y = sc.Keep(tensor.Composite(y, a, append(xs, leaves(y, xs)...)...))
	})
	return y
}

// again is how to compute a part of a graph once more. It stands in the By of a node whose inputs are those of fn, inputs of
// them, and then the leaves that fn read besides.
type again struct {
	fn     func(xs ...*tensor.Tensor) *tensor.Tensor
	inputs int
	stream uint64 // of random numbers, where fn began
}

// leaves lists the leaves that y was computed from by ways that don't go through xs, in the order of a search from y.
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

// throughAgain computes the part anew and sends the gradient of its result into its inputs and leaves.
func (w *walk) throughAgain(a *again, st *step) error {
	if w.o.CreateGraph {
		return fmt.Errorf("%w: a Recompute can't be differentiated again", tensor.ErrNoGrad)
	}
	n := st.node
	var want []int // edges
	for i := range n.In {
		if e := &n.In[i]; w.into(e) {
			if e.Leaf != nil && e.Tensor() != e.Leaf {
				return fmt.Errorf("%w: a leaf (%v) that a Recompute reads was assigned before the backward pass", tensor.ErrNoGrad, e.Leaf)
			}
			want = append(want, i)
		}
	}
	grads, err := a.grads(n, st.grad, want)
	if err != nil {
		return err
	}
	for k, i := range want {
		e, g := &n.In[i], grads[k]
		if sum := w.has(e); sum != nil {
			g = sum.Add(g)
		}
		if err := g.Err(); err != nil {
			return err
		}
		w.set(e, g)
	}
	return nil
}

// grads are the gradients of the inputs want of n, when that of its result is dy.
func (a *again) grads(n *tensor.Node, dy *tensor.Tensor, want []int) (out []*tensor.Tensor, err error) {
	s := dy.Session()
	s.Scope(func(sc *tensor.Scope) {
		xs := make([]*tensor.Tensor, a.inputs)
		for i := range xs {
			xs[i] = n.In[i].Tensor().Barrier() // recorded without a graph, as all of a backward pass
		}
		targets := make([]*tensor.Tensor, len(want))
		for k, i := range want {
			if targets[k] = n.In[i].Leaf; i < a.inputs {
				targets[k] = xs[i].RequireGrad()
			}
		}
		var y *tensor.Tensor
		s.WithGrad(func() { s.AtStream(a.stream, func() { y = a.fn(xs...) }) })
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
