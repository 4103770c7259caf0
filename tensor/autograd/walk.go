package autograd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// walk is one backward pass. leaves and nodes hold the gradients of the targets.
type walk struct {
	o      Options
	all    bool   // every leaf is a target
	leaves []leaf // if all, those that have a gradient, in the order they got it
	nodes  map[*tensor.Node]*tensor.Tensor
	steps  []step // of the nodes behind the loss, in the order they are found
}

// leaf is a target. tensor.Place of x is its index in the walk's leaves.
type leaf struct {
	x, grad *tensor.Tensor
	before  int32 // tensor.Place of x in the walk during which this one runs
}

// step is a node of the walk.
type step struct {
	node   *tensor.Node
	edge   int  // next edge to look at, during the search
	needed bool // a target lies behind it
	grad   *tensor.Tensor
}

func newWalk(o *Options) *walk {
	return &walk{
		o: *cmp.Or(o, &Options{}),
	}
}

// run walks the graph from loss and calls done with the results, before it releases the
// intermediates. Its errors have the place of the call.
func (w *walk) run(loss *tensor.Tensor, done func(s *tensor.Session, keep func(*tensor.Tensor)) error) error {
	if err := loss.Err(); err != nil {
		return err
	}
	return tensor.CallError(loss.Session(), "grad", w.from(loss, done))
}

func (w *walk) from(loss *tensor.Tensor, done func(s *tensor.Session, keep func(*tensor.Tensor)) error) error {
	s := loss.Session()
	if loss.Node() == nil && !loss.RequiresGrad() {
		return fmt.Errorf("%w: the loss (%v) does not depend on a leaf that requires a gradient", tensor.ErrNoGrad, loss)
	}
	if g := w.o.GradOutput; g == nil && loss.Elems() != 1 {
		return fmt.Errorf("%w: the loss is %v; expected one element, or its gradient (GradOutput; grad_output in Python)", tensor.ErrShape, loss)
	} else if g != nil && !g.Shape().Equal(loss.Shape()) {
		return fmt.Errorf("%w: the gradient of the loss (GradOutput) is %v, the loss %v", tensor.ErrShape, g, loss)
	}
	var err error
	if w.o.CreateGraph { // its edges need the intermediates
		s.WithGrad(func() {
			if err = w.backward(s, loss); err == nil {
				err = done(s, func(*tensor.Tensor) {})
			}
		})
		return err
	}
	tensor.OnePlace(s, func() {
		s.NoGrad(func() {
			s.Scope(func(sc *tensor.Scope) {
				if err = w.backward(s, loss); err == nil {
					err = done(s, func(g *tensor.Tensor) { sc.Keep(g) })
				}
			})
		})
	})
	return err
}

func (w *walk) backward(s *tensor.Session, loss *tensor.Tensor) error {
	g := w.o.GradOutput
	if g == nil {
		g = tensor.Ones(s, loss.DType(), loss.Shape()...)
	} else if g.DType() != loss.DType() {
		g = g.Cast(loss.DType())
	}
	if err := g.Err(); err != nil {
		return err
	}
	if loss.RequiresGrad() {
		w.give(loss, g)
		return nil
	}
	order := w.order(loss.Node())
	w.steps[0].grad = g
	c := call{s: s, twice: w.o.CreateGraph}
	for i := len(order) - 1; i >= 0; i-- {
		st := &w.steps[order[i]]
		if st.grad == nil || !st.needed {
			continue
		}
		if _, ok := w.nodes[st.node]; ok {
			w.nodes[st.node] = st.grad
		}
		if order[i] != 0 { // the loss's own gradient was given
			st.node.NameGradient(st.grad)
		}
		if err := st.node.Backward(func() error { return w.through(&c, st) }); err != nil {
			return err
		}
		st.grad = nil
	}
	return nil
}

// through adds the gradient of a node to the gradients of its inputs.
func (w *walk) through(c *call, st *step) error {
	n := st.node
	if by, ok := n.By.(composite); ok {
		return w.throughComposite(by, st)
	}
	c.n, c.dy = n, st.grad
	for i := range n.In {
		e := &n.In[i]
		if !w.into(e) {
			continue
		}
		f := entry(n.Op)
		if f == nil {
			return fmt.Errorf("%w: %v can't be differentiated (again)", tensor.ErrNoGrad, n.Op)
		}
		c.sum, c.added = w.has(e), false
		g := fit(f(c, i), e.Shape(), e.DType())
		if err := g.Err(); err != nil {
			return fmt.Errorf("autograd: gradient of %v with respect to its input %d (%v): %w", n.Op, i, e.Tensor(), err)
		}
		if c.sum != nil && !c.added {
			if g = c.sum.Add(g); g.Err() != nil {
				return g.Err()
			}
		}
		w.set(e, g)
	}
	return nil
}

// composite is the By of a node without an entry in the table.
type composite interface {
	// grads returns the gradients of the inputs want of n, where dy is that of its
	// result.
	grads(n *tensor.Node, dy *tensor.Tensor, want []int) ([]*tensor.Tensor, error)
}

// throughComposite is through for a composite node.
func (w *walk) throughComposite(c composite, st *step) error {
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
	grads, err := c.grads(n, st.grad, want)
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

// set stores g as the gradient of e's input.
func (w *walk) set(e *tensor.Edge, g *tensor.Tensor) {
	if e.Leaf != nil {
		w.give(e.Leaf, g)
	} else {
		w.at(e.Node).grad = g
	}
}

// at returns the step of n, which is one of the nodes behind the loss.
func (w *walk) at(n *tensor.Node) *step {
	if !w.seen(n) { // a walk that ran during this one has set n.At
		n.At = int32(slices.IndexFunc(w.steps, func(st step) bool { return st.node == n }))
	}
	return &w.steps[n.At]
}

// seen reports whether n has a step at its place.
func (w *walk) seen(n *tensor.Node) bool {
	return int(n.At) < len(w.steps) && w.steps[n.At].node == n
}

// has returns the gradient that e's input has so far.
func (w *walk) has(e *tensor.Edge) *tensor.Tensor {
	if e.Leaf != nil {
		if l := w.leaf(e.Leaf); l != nil {
			return l.grad
		}
		return nil
	}
	return w.at(e.Node).grad
}

// into reports whether e leads to a target.
func (w *walk) into(e *tensor.Edge) bool {
	if e.Leaf != nil {
		return w.all || w.leaf(e.Leaf) != nil
	}
	if e.Node == nil {
		return false
	}
	return w.at(e.Node).needed
}

func (w *walk) give(x, g *tensor.Tensor) {
	w.target(x).grad = g
}

// target returns the leaf of x, which it adds if it is none yet.
func (w *walk) target(x *tensor.Tensor) *leaf {
	l := w.leaf(x)
	if l == nil {
		place := tensor.Place(x)
		w.leaves = append(w.leaves, leaf{x: x, before: *place})
		*place = int32(len(w.leaves) - 1)
		l = &w.leaves[*place]
	}
	return l
}

// leaf returns the leaf of x, or nil if x is no target.
func (w *walk) leaf(x *tensor.Tensor) *leaf {
	if i := int(*tensor.Place(x)); i < len(w.leaves) && w.leaves[i].x == x {
		return &w.leaves[i]
	}
	return nil
}

// end restores the places of leaves for the walk during which this one ran.
func (w *walk) end() {
	for _, l := range w.leaves {
		*tensor.Place(l.x) = l.before
	}
}

// firstSteps is for how many nodes a walk has memory at first.
const firstSteps = 32

// order returns the places in steps of the nodes behind root, each after all its inputs,
// and marks those that lead to a target. Root is the first step. It is a depth-first
// search with its own stack, because a graph can be as deep as the loop that made it.
func (w *walk) order(root *tensor.Node) []int32 {
	w.steps = make([]step, 0, firstSteps)
	order, stack := make([]int32, 0, firstSteps), make([]int32, 0, firstSteps)
	find := func(n *tensor.Node) {
		n.At = int32(len(w.steps))
		w.steps = append(w.steps, step{node: n})
		stack = append(stack, n.At)
	}
	find(root)
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		st := &w.steps[at]
		if st.edge < len(st.node.In) {
			e := &st.node.In[st.edge]
			st.edge++
			if e.Node != nil && !w.seen(e.Node) {
				find(e.Node)
			}
			continue
		}
		stack = stack[:len(stack)-1]
		_, st.needed = w.nodes[st.node]
		for i := range st.node.In {
			if st.needed = st.needed || w.into(&st.node.In[i]); st.needed {
				break
			}
		}
		order = append(order, at)
	}
	return order
}
