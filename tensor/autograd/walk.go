package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// walk is one backward pass.
type walk struct {
	o      Options
	all    bool // every leaf is a target
	leaves map[*tensor.Tensor]*tensor.Tensor
	nodes  map[*tensor.Node]*tensor.Tensor
	found  []*tensor.Tensor // the leaves that got a gradient, in the order of the first
	steps  map[*tensor.Node]*step
}

// step is a node on the way.
type step struct {
	node   *tensor.Node
	edge   int  // next edge to look at, during the search
	needed bool // a target lies behind it
	grad   *tensor.Tensor
}

func newWalk(o *Options) *walk {
	w := &walk{
		leaves: map[*tensor.Tensor]*tensor.Tensor{},
		nodes:  map[*tensor.Node]*tensor.Tensor{},
		steps:  map[*tensor.Node]*step{},
	}
	if o != nil {
		w.o = *o
	}
	return w
}

// run walks and has done take the results, before the intermediates are released.
func (w *walk) run(loss *tensor.Tensor, done func(s *tensor.Session, keep func(*tensor.Tensor)) error) error {
	if err := loss.Err(); err != nil {
		return err
	}
	s := loss.Session()
	if loss.Node() == nil && !loss.RequiresGrad() {
		return fmt.Errorf("%w: the loss (%v) does not depend on a leaf that requires one", tensor.ErrNoGrad, loss)
	}
	if g := w.o.GradOutput; g == nil && loss.Elems() != 1 {
		return fmt.Errorf("%w: the loss is %v; expected one element, or a GradOutput", tensor.ErrShape, loss)
	} else if g != nil && !g.Shape().Equal(loss.Shape()) {
		return fmt.Errorf("%w: the GradOutput is %v, the loss %v", tensor.ErrShape, g, loss)
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
	s.NoGrad(func() {
		s.Scope(func(sc *tensor.Scope) {
			if err = w.backward(s, loss); err == nil {
				err = done(s, func(g *tensor.Tensor) { sc.Keep(g) })
			}
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
	w.steps[loss.Node()].grad = g
	c := call{s: s, twice: w.o.CreateGraph}
	for i := len(order) - 1; i >= 0; i-- {
		st := order[i]
		if st.grad == nil || !st.needed {
			continue
		}
		if _, ok := w.nodes[st.node]; ok {
			w.nodes[st.node] = st.grad
		}
		if st != order[len(order)-1] { // of the loss it is whatever was given
			st.node.NameGradient(st.grad)
		}
		if err := st.node.Backward(func() error { return w.through(&c, st) }); err != nil {
			return err
		}
		st.grad = nil
	}
	return nil
}

// through sends a node's gradient into its inputs.
func (w *walk) through(c *call, st *step) error {
	n := st.node
	if r, ok := n.By.(*again); ok {
		return w.throughAgain(r, st)
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
		x := e.Tensor()
		c.sum, c.added = w.has(e), false
		g := fit(f(c, i), x.Shape(), x.DType())
		if err := g.Err(); err != nil {
			return fmt.Errorf("autograd: gradient of %v with respect to its input %d (%v): %w", n.Op, i, x, err)
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

// set makes g the gradient that e's input has got.
func (w *walk) set(e *tensor.Edge, g *tensor.Tensor) {
	if e.Leaf != nil {
		w.give(e.Leaf, g)
	} else {
		w.steps[e.Node].grad = g
	}
}

// has is the gradient that e's input got until now.
func (w *walk) has(e *tensor.Edge) *tensor.Tensor {
	if e.Leaf != nil {
		return w.leaves[e.Leaf]
	}
	return w.steps[e.Node].grad
}

// into reports whether a target is or lies behind e.
func (w *walk) into(e *tensor.Edge) bool {
	if e.Leaf != nil {
		_, ok := w.leaves[e.Leaf]
		return ok || w.all
	}
	if e.Node == nil {
		return false
	}
	return w.steps[e.Node].needed
}

func (w *walk) give(x, g *tensor.Tensor) {
	if w.all && w.leaves[x] == nil {
		w.found = append(w.found, x)
	}
	w.leaves[x] = g
}

// order lists the nodes behind root, each after all that it was computed from, and finds out which are needed. It is
// a depth-first search with a stack of its own: graphs are as deep as the longest loop that made one.
func (w *walk) order(root *tensor.Node) []*step {
	var order []*step
	first := &step{node: root}
	w.steps[root] = first
	stack := []*step{first}
	for len(stack) > 0 {
		st := stack[len(stack)-1]
		if st.edge < len(st.node.In) {
			e := &st.node.In[st.edge]
			st.edge++
			if e.Node != nil && w.steps[e.Node] == nil {
				next := &step{node: e.Node}
				w.steps[e.Node] = next
				stack = append(stack, next)
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
		order = append(order, st)
	}
	return order
}
