package tensor

// Edge is an input of a Node: the value, and the way on for its gradient.
type Edge struct {
	v    *value
	Node *Node   // the node that computed the value, if it needs a gradient
	Leaf *Tensor // the leaf, if the value was one that requires a gradient
	F    float64 // the scalar, if the input is no tensor
}

// IsTensor reports whether the input is a tensor and not a scalar.
func (e *Edge) IsTensor() bool { return e.v != nil }

// Tensor returns the value of the input, even if its handle was assigned another value
// since. The result holds no reference: using it after the value was released is
// ErrReleased. It has the graph of the value, so that gradients of gradients work, except
// that the old value of an assigned leaf is a constant.
func (e *Edge) Tensor() *Tensor {
	if e.Leaf != nil && e.Leaf.v == e.v {
		return e.Leaf
	}
	return e.v.as(e.Node)
}

// DType returns the type of the input, which is a tensor.
func (e *Edge) DType() DType { return e.v.dtype }

// Shape returns the shape of the input, which is a tensor.
func (e *Edge) Shape() Shape { return e.v.shape }

// as returns a handle of v as the result of n, which is nil for a constant. This is v's
// first handle, unless that was assigned another value or became a leaf.
func (v *value) as(n *Node) *Tensor {
	if h := &v.handle; h.v == v && h.node == n && !h.requires {
		return h
	}
	return &Tensor{v: v, node: n}
}

// Node is an operation in the graph that gradients are computed on. Only results that
// depend on a tensor that requires a gradient have nodes. A result holds its node, so a
// graph lives as long as a result of it, and no list of nodes can grow. Nodes are
// immutable but for At.
type Node struct {
	Op     Op
	signal uint16 // number in the session of the signal that it was recorded under
	// At is the place of the node in a list of the package that computes gradients. No
	// other may write it: a walk over the graph, which expects that other walks do, finds
	// a node there without a map of all nodes.
	At   int32
	Ints []int64
	In   []Edge // tensors, then scalars
	// By is the argument of Composite, in its node, where Op is OpInvalid.
	By  any
	out *value
}

// Composite returns y with another graph: a node whose inputs are in and whose own
// operations are dropped. The package that computes gradients knows how to use by. The
// handle holds the reference that Detach gives.
func Composite(y *Tensor, by any, in ...*Tensor) *Tensor {
	if y.v.failed() != nil {
		return y.poison()
	}
	t := y.Detach()
	args := make([]Arg, len(in))
	for i, x := range in {
		args[i] = T(x)
	}
	t.node = (&nodeRoom{}).fill(OpInvalid, nil, args, y.v)
	t.node.By = by
	return t
}

// Out returns the operation's result, which holds no reference; see Edge.Tensor.
func (n *Node) Out() *Tensor { return n.out.as(n) }

// nodeRoom is a node with room for the inputs and attributes of most operations.
type nodeRoom struct {
	Node
	in   [2]Edge
	ints [4]int64
}

// computed is a value and its node, in one allocation.
type computed struct {
	value
	nodeRoom
}

// fill sets the node, whose operation has the result out, and returns it.
func (r *nodeRoom) fill(op Op, ints []int64, args []Arg, out *value) *Node {
	n := &r.Node
	n.Op, n.out, n.signal = op, out, out.s.rec.signals.now
	n.Ints = append(r.ints[:0:len(r.ints)], ints...)
	if n.In = r.in[:0:len(r.in)]; len(args) > len(r.in) {
		n.In = make([]Edge, 0, len(args))
	}
	for _, a := range args {
		e := Edge{}
		switch {
		case a.t == nil:
			e.F = a.f
		case a.t.requires:
			e.v, e.Leaf = a.t.v, a.t
		default:
			e.v, e.Node = a.t.v, a.t.node
		}
		n.In = append(n.In, e)
	}
	return n
}

// Node returns the operation that computed t, or nil for a leaf and for results under
// NoGrad.
func (t *Tensor) Node() *Node { return t.node }

// NoGrad runs f without building graphs, so its results have no gradient. Calls nest.
func (s *Session) NoGrad(f func()) {
	s.noGrad++
	defer func() { s.noGrad-- }()
	f()
}

// WithGrad runs f with graphs even within NoGrad.
func (s *Session) WithGrad(f func()) {
	n := s.noGrad
	s.noGrad = 0
	defer func() { s.noGrad = n }()
	f()
}
