package shard

import (
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/tensor"
)

// node is a value that ranks make: all by the same operation, or all by the same collective. Ranks go through the nodes in
// step, and only shapes and attributes differ, so that what is true of the order of one is true of all.
type node struct {
	origin int       // the instruction of the program that it is for, -1 for none
	local  []local   // by rank, of an operation
	move   *transfer // of a collective
	// early has the node made as soon as its operands exist, instead of where it is asked for, so that a collective is under
	// way while other work is done.
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

// arg is a value, or a scalar.
type arg struct {
	value  Value
	scalar bool
	s      Scalar
}

func of(v Value) arg       { return arg{value: v} }
func number(f float64) arg { return arg{scalar: true, s: Scalar{From: -1, Const: f}} }

// transfer is one tensor's part in a collective.
type transfer struct {
	kind  plan.Kind
	op    element.Reduction
	dt    tensor.DType
	scale float64
	dim   int
	in    Value
	moves []Move // by rank
	bytes int64  // sent by a rank
}

// builder collects nodes. Value v is an external input below first, else node v-first.
type builder struct {
	mesh  Mesh
	ranks int
	first Value
	nodes []node
	notes []note
	stats Stats
}

func newBuilder(m Mesh, externals int) *builder {
	return &builder{mesh: m, ranks: m.Size(), first: Value(externals), stats: Stats{Collectives: map[plan.Kind]int{}, Moves: map[plan.Kind]int{}}}
}

func (b *builder) push(n node) Value {
	b.nodes = append(b.nodes, n)
	return b.first + Value(len(b.nodes)-1)
}

// each adds an operation that f gives for every rank.
func (b *builder) each(origin int, f func(rank int) local) Value {
	n := node{origin: origin, local: make([]local, b.ranks)}
	for r := range n.local {
		n.local[r] = f(r)
	}
	return b.push(n)
}

// operands returns the values that n reads, on whichever rank reads most. Ranks differ where one of them needs only a constant.
func (n *node) operands() []Value {
	if n.move != nil {
		return []Value{n.move.in}
	}
	var most []Value
	for _, l := range n.local {
		var vs []Value
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

// front returns the order of n dims with those given first, and the order that undoes it.
func front(n int, dims ...int) (order, back []int64) {
	for _, d := range dims {
		order = append(order, int64(d))
	}
	for d := range n {
		taken := false
		for _, f := range dims {
			taken = taken || f == d
		}
		if !taken {
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

// sent returns the bytes that rank sends in t: in a ring, or straight to each other rank in an all-to-all.
func (t *transfer) sent(m Mesh, rank int) int64 {
	mv := t.moves[rank]
	size, p := int64(t.dt.Size()), int64(m[t.dim].Size)
	switch t.kind {
	case plan.AllReduce:
		return 2 * size * int64(mv.InShape.Elems()) * (p - 1) / p
	case plan.ReduceScatter:
		return size * int64(mv.InShape.Elems()) * (p - 1) / p
	case plan.AllGather:
		return size * int64(mv.OutShape.Elems()) * (p - 1) / p
	}
	return size * int64(mv.InShape.Elems()-mv.Send[m.Coord(rank, t.dim)])
}
