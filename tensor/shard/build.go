package shard

import (
	"slices"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// node is a value that the ranks make, either all by one operation or all by one
// collective. All ranks make the nodes in the same order; only shapes and attributes
// differ between ranks.
type node struct {
	origin int       // the instruction of the program that it serves, -1 for none
	local  []local   // of an operation, by rank
	move   *transfer // of a collective
	// early schedules the node as soon as its operands exist, not where its result is
	// needed, so that a collective runs beside other work.
	early bool
}

// local is an operation on one rank.
type local struct {
	op    tensor.Op
	dt    tensor.DType
	shape tensor.Shape
	ints  []int64
	args  []arg
}

// arg is a value or a scalar.
type arg struct {
	value  Var
	scalar bool
	s      Scalar
}

func of(v Var) arg         { return arg{value: v} }
func number(f float64) arg { return arg{scalar: true, s: Scalar{From: -1, Const: f}} }

// transfer is the part of one tensor in a collective.
type transfer struct {
	kind  protocol.Kind
	op    element.Reduction
	dt    tensor.DType
	scale float64
	dim   int
	in    Var
	moves []Move // by rank
	bytes int64  // sent by a rank
}

// builder collects nodes. A Var below first is an external input, other vars are the
// results of node v-first.
type builder struct {
	mesh  Mesh
	ranks int
	first Var
	nodes []node
	notes []note
	stats Stats
}

func newBuilder(m Mesh, externals int) *builder {
	return &builder{
		mesh: m, ranks: m.Size(), first: Var(externals),
		stats: Stats{Collectives: map[protocol.Kind]int{}, Moves: map[protocol.Kind]int{}},
	}
}

func (b *builder) push(n node) Var {
	b.nodes = append(b.nodes, n)
	return b.first + Var(len(b.nodes)-1)
}

// each adds an operation; f returns its form on each rank.
func (b *builder) each(origin int, f func(rank int) local) Var {
	n := node{origin: origin, local: make([]local, b.ranks)}
	for r := range n.local {
		n.local[r] = f(r)
	}
	return b.push(n)
}

// operands returns the vars that n reads on the rank that reads most. A rank may read
// fewer, because it needs only a constant.
func (n *node) operands() []Var {
	if n.move != nil {
		return []Var{n.move.in}
	}
	var most []Var
	for _, l := range n.local {
		var vs []Var
		for _, a := range l.args {
			if !a.scalar {
				vs = append(vs, a.value)
			}
		}
		if len(vs) > len(most) {
			most = vs
		}
	}
	return most
}

// permuted returns s with its dims in the given order.
func permuted(s tensor.Shape, order []int64) tensor.Shape {
	out := make(tensor.Shape, len(s))
	for i, d := range order {
		out[i] = s[d]
	}
	return out
}

// front returns the order of n dims that begins with dims, and the inverse order.
func front(n int, dims ...int) (order, back []int64) {
	for _, d := range dims {
		order = append(order, int64(d))
	}
	for d := range n {
		if !slices.Contains(dims, d) {
			order = append(order, int64(d))
		}
	}
	back = make([]int64, n)
	for i, d := range order {
		back[d] = int64(i)
	}
	return order, back
}

// sliceInts returns the attributes of a slice of n elements from start, by step 1.
func sliceInts(start []int, shape tensor.Shape) []int64 {
	var ints []int64
	for d, n := range shape {
		s := start[d]
		if n == 0 {
			s = 0
		}
		ints = append(ints, int64(s), 1, int64(n))
	}
	return ints
}

func shapeInts(s tensor.Shape) []int64 {
	ints := make([]int64, len(s))
	for d, n := range s {
		ints[d] = int64(n)
	}
	return ints
}
