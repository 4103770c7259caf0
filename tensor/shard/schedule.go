package shard

import (
	"cmp"
	"math"
	"slices"

	"github.com/ringside-go/ringside/collective/plan"
)

// item is a node to make, a collective to start, or one to wait for.
type item struct {
	node  int // of an operation
	group *bucket
	wait  bool
}

// bucket is a collective of one or more tensors.
type bucket struct {
	nodes    []int
	bytes    int64 // that the rank that sends most sends
	room     int64 // the limit of bytes
	last     int   // position in the order where its last input exists
	deadline int   // position in the order before which its results must exist
	id       int
}

// order returns the nodes that are needed, in the order in which they were requested;
// early nodes are as early as their operands allow.
func (b *builder) order(outputs []Output) []int {
	live := make([]bool, len(b.nodes))
	mark := func(v Var) {
		if v >= b.first {
			live[v-b.first] = true
		}
	}
	for _, o := range outputs {
		mark(o.Var)
	}
	for k := len(b.nodes) - 1; k >= 0; k-- {
		n := &b.nodes[k]
		if n.move == nil && n.local[0].op.Info().Fallible {
			live[k] = true
		}
		if live[k] {
			for _, v := range n.operands() {
				mark(v)
			}
		}
	}
	at := make([]int, len(b.nodes))
	var out []int
	for k := range b.nodes {
		at[k] = k
		if b.nodes[k].early {
			at[k] = -1
			for _, v := range b.nodes[k].operands() {
				if v >= b.first {
					at[k] = max(at[k], at[v-b.first])
				}
			}
		}
		if live[k] {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(x, y int) int { return cmp.Compare(at[x], at[y]) })
	return out
}

// schedule joins collectives that do not wait for each other's results, where that is
// allowed, and returns the places where each starts and where it is waited for.
func (b *builder) schedule(order []int, o Options) (items []item, buckets []*bucket) {
	place := make([]int, len(b.nodes))
	for at, k := range order {
		place[k] = at
	}
	first := make([]int, len(b.nodes)) // position of its first reader
	for k := range first {
		first[k] = math.MaxInt
	}
	for at, k := range order {
		for _, v := range b.nodes[k].operands() {
			if v >= b.first {
				first[v-b.first] = min(first[v-b.first], at)
			}
		}
	}
	var open, firsts []*bucket
	for at, k := range order {
		t := b.nodes[k].move
		if t == nil {
			continue
		}
		var g *bucket
		alike := func(c *bucket) bool {
			u := b.nodes[c.nodes[0]].move
			return t.kind == plan.AllReduce && u.kind == t.kind && u.op == t.op && u.dt == t.dt && u.scale == t.scale && u.dim == t.dim
		}
		for _, c := range open {
			if alike(c) && at < c.deadline && c.bytes+t.bytes <= c.room {
				g = c
				break
			}
		}
		if g == nil {
			// An all-reduce sends at most twice its bytes.
			g = &bucket{deadline: math.MaxInt, room: 2 * o.BucketBytes}
			if !slices.ContainsFunc(firsts, alike) {
				firsts = append(firsts, g)
				g.room /= 4
			}
			open, buckets = append(open, g), append(buckets, g)
		}
		g.nodes, g.bytes, g.last = append(g.nodes, k), g.bytes+t.bytes, at
		g.deadline = min(g.deadline, first[k])
	}
	starts, waits := map[int][]*bucket{}, map[int][]*bucket{}
	for _, g := range buckets {
		end := min(g.deadline, len(order))
		begin := g.last + 1
		if g.bytes < o.OverlapBytes {
			begin = end
		}
		starts[begin], waits[end] = append(starts[begin], g), append(waits[end], g)
	}
	id := 0
	for at := 0; at <= len(order); at++ {
		// The inputs of a collective that starts here exist: they are earlier in the
		// order, and their own inputs have been waited for.
		for _, g := range starts[at] {
			g.id = id
			id++
			items = append(items, item{group: g})
		}
		for _, g := range waits[at] {
			items = append(items, item{group: g, wait: true})
		}
		if at < len(order) && b.nodes[order[at]].move == nil {
			items = append(items, item{node: order[at]})
		}
	}
	return items, buckets
}
