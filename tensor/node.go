package tensor

// Edge is an input of a Node: the value that was used, and how a gradient goes on from there.
type Edge struct {
	v    *value
	Node *Node   // what made the value, if its gradient matters
	Leaf *Tensor // the leaf that it was, if it asks for a gradient
	F    float64 // the scalar, where the input is none
}

// IsTensor reports whether the input is a tensor and not a scalar.
func (e *Edge) IsTensor() bool { return e.v != nil }

// Tensor is the value that was used, also if its name was assigned something else since. It owns nothing: when the
// value was released, using it is ErrReleased. It has the graph that the value had, so that gradients of gradients
// find their way; only of a leaf that was assigned since is the old value a constant.
func (e *Edge) Tensor() *Tensor {
	if e.Leaf != nil && e.Leaf.v == e.v {
		return e.Leaf
	}
	return &Tensor{v: e.v, node: e.Node}
}

// Node is an operation in the graph that gradients are computed on. Nodes exist only for results that depend on a
// tensor that requires a gradient; they hang on those results, so a graph lives as long as something made by it and
// belongs to no list that could grow. Nodes are immutable.
type Node struct {
	Op   Op
	Ints []int64
	In   []Edge // tensors, then scalars
	// By is, in the node of Composite, what it was given: Op is OpInvalid then.
	By  any
	out *value

	signal uint16 // of the session, that it was recorded under
}

// Composite is y under another graph: a node that has in as its inputs, where y was computed from them by several
// operations whose own graph is dropped. Who computes gradients knows what by means. The handle has the claim on the value
// that Detach gives.
func Composite(y *Tensor, by any, in ...*Tensor) *Tensor {
	if y.v.err != nil {
		return y
	}
	t := y.Detach()
	args := make([]Arg, len(in))
	for i, x := range in {
		args[i] = T(x)
	}
	m := &made{}
	m.value.s = y.v.s
	t.node = newNode(OpInvalid, nil, args, m)
	t.node.By, t.node.out = by, y.v
	return t
}

// Out is the operation's result, with the ownership of Edge.Tensor.
func (n *Node) Out() *Tensor { return &Tensor{v: n.out, node: n} }

func newNode(op Op, ints []int64, args []Arg, m *made) *Node {
	n := &Node{Op: op, Ints: append([]int64(nil), ints...), In: make([]Edge, len(args)), out: &m.value, signal: m.value.s.rec.signals.now}
	for i, a := range args {
		e := &n.In[i]
		if a.t == nil {
			e.F = a.f
			continue
		}
		e.v = a.t.v
		if a.t.requires {
			e.Leaf = a.t
		} else {
			e.Node = a.t.node
		}
	}
	return n
}

// Node is the operation that made t, nil for a leaf and for what was made under NoGrad.
func (t *Tensor) Node() *Node { return t.node }

// NoGrad runs f without building graphs: what f makes has no gradient. Calls nest.
func (s *Session) NoGrad(f func()) {
	s.noGrad++
	defer func() { s.noGrad-- }()
	f()
}

// WithGrad undoes NoGrad for the length of f.
func (s *Session) WithGrad(f func()) {
	n := s.noGrad
	s.noGrad = 0
	defer func() { s.noGrad = n }()
	f()
}
