package shard

import (
	"cmp"
	"math"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
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

// buckets joins all-reduces that do not wait for each other's results, up to the sizes
// that o allows. Other collectives are buckets of one.
func (b *builder) buckets(order []int, o Options) (all []*bucket) {
	first := b.firstReaders(order)
	var firsts []*bucket // of each kind
	for at, k := range order {
		t := b.nodes[k].move
		if t == nil {
			continue
		}
		alike := func(c *bucket) bool {
			u := b.nodes[c.nodes[0]].move
			return t.kind == protocol.AllReduce && u.kind == t.kind &&
				u.op == t.op && u.dt == t.dt && u.scale == t.scale && u.dim == t.dim
		}
		var g *bucket
		if n := slices.IndexFunc(all, func(c *bucket) bool {
			return alike(c) && at < c.deadline && c.bytes+t.bytes <= c.room
		}); n >= 0 {
			g = all[n]
		} else {
			// An all-reduce sends at most twice its bytes.
			g = &bucket{deadline: math.MaxInt, room: 2 * o.BucketBytes}
			if !slices.ContainsFunc(firsts, alike) {
				firsts = append(firsts, g)
				g.room /= 4
			}
			all = append(all, g)
		}
		g.nodes, g.bytes, g.last = append(g.nodes, k), g.bytes+t.bytes, at
		g.deadline = min(g.deadline, first[k])
	}
	return all
}

// firstReaders returns for each node the position in the order of its first reader.
func (b *builder) firstReaders(order []int) []int {
	first := make([]int, len(b.nodes))
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
	return first
}

// schedule returns the nodes in order, with the start and the wait of each bucket in
// their places.
func (b *builder) schedule(order []int, buckets []*bucket, o Options) (items []item) {
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
	return items
}
