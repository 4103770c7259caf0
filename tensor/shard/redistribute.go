package shard

import (
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// hop is a change of a layout along one dim of the mesh, a row of the table in the
// package's documentation.
type hop struct {
	dim  int
	from Layout
	to   Placement
}

// after returns the layout that h leads to.
func (h hop) after() Layout {
	l := h.from
	l[h.dim] = h.to
	return l
}

// path returns the cheapest hops from one layout to another, and the bytes that a rank
// sends.
func (m Mesh) path(d tensor.DType, s tensor.Shape, from, to Layout) (hops []hop, bytes int64) {
	if from == to {
		return nil, 0
	}
	hops = m.ordered(from, to, false)
	bytes = m.cost(d, s, hops)
	if len(m) > 1 {
		other := m.ordered(from, to, true)
		if c := m.cost(d, s, other); c < bytes {
			return other, c
		}
	}
	return hops, bytes
}

// ordered returns hops that change the dims of the mesh beginning with the first, or with
// the last.
//
// If both dims of the mesh cut the same dim of the tensor, the first cannot change,
// because the pieces of different pieces are not adjacent. Then the last dim is made
// whole before.
func (m Mesh) ordered(from, to Layout, last bool) (hops []hop) {
	cur := from
	change := func(k int, t Placement) {
		f := cur[k]
		direct := f == Replicate || f.kind == sharded && t.kind != partial || f.kind == partial && t.kind != partial
		if !direct {
			hops = append(hops, hop{k, cur, Replicate})
			cur[k] = Replicate
		}
		if cur[k] != t {
			hops = append(hops, hop{k, cur, t})
			cur[k] = t
		}
	}
	for cur != to {
		k := 0
		if last && cur[1] != to[1] || cur[0] == to[0] {
			k = 1
		}
		if k == 0 && cur[1].kind == sharded && (cur[1] == cur[0] || cur[1] == to[0]) {
			change(1, Replicate)
			last = false
		}
		change(k, to[k])
	}
	return hops
}

// cost returns the bytes that rank 0 sends, whose chunks are the largest.
func (m Mesh) cost(d tensor.DType, s tensor.Shape, hops []hop) (bytes int64) {
	for _, h := range hops {
		whole := h.from
		whole[h.dim] = Replicate
		n := int64(m.shape(whole, s, 0).Elems() * d.Size())
		p := int64(m[h.dim].Size)
		switch kind, _ := h.kind(); kind {
		case protocol.AllReduce:
			bytes += 2 * n * (p - 1) / p
		case protocol.ReduceScatter, protocol.AllGather:
			bytes += n * (p - 1) / p
		case protocol.AllToAll:
			full := m.shape(whole, s, 0)
			a, b := full[h.from[h.dim].dim], full[h.to.dim]
			most := 0
			for i := range int(p) {
				_, mine := Chunk(a, int(p), i)
				_, kept := Chunk(b, int(p), i)
				most = max(most, mine*(b-kept))
			}
			bytes += int64(most * perUnit(full, h.from[h.dim].dim, h.to.dim) * d.Size())
		}
	}
	return bytes
}

// kind returns the collective of the hop, or false if it needs none.
func (h hop) kind() (protocol.Kind, bool) {
	from := h.from[h.dim]
	switch {
	case from.kind == partial && h.to.kind == sharded:
		return protocol.ReduceScatter, true
	case from.kind == partial:
		return protocol.AllReduce, true
	case from.kind == sharded && h.to.kind == sharded:
		return protocol.AllToAll, true
	case from.kind == sharded:
		return protocol.AllGather, true
	}
	return protocol.NoKind, false
}

// take adds the nodes of h on v, a tensor of dtype d and whole shape s.
func (b *builder) take(v Var, d tensor.DType, s tensor.Shape, h hop) Var {
	m, k := b.mesh, h.dim
	kind, moves := h.kind()
	if !moves {
		b.stats.Slices++
		if h.to.kind == partial {
			return b.lift(v, d, s, h)
		}
		return b.each(-1, func(r int) local {
			has := m.shape(h.from, s, r)
			start, shape := make([]int, len(s)), m.shape(h.after(), s, r)
			start[h.to.dim], _ = Chunk(has[h.to.dim], m[k].Size, m.Coord(r, k))
			return local{tensor.OpSlice, d, shape, sliceInts(start, shape), []arg{of(v)}}
		})
	}
	t := &transfer{kind: kind, dt: d, scale: 1, dim: k, in: v, moves: make([]Move, b.ranks)}
	t.bytes = m.cost(d, s, []hop{h})
	if f, ok := h.from[k].Partial(); ok {
		t.op = f.op()
		if f == Mean {
			t.scale = 1 / float64(m[k].Size)
		}
	}
	if kind == protocol.AllReduce {
		for r := range t.moves {
			sh := m.shape(h.from, s, r)
			t.moves[r] = Move{In: v, InShape: sh, OutShape: sh}
		}
		return b.push(node{origin: -1, move: t, early: true})
	}
	return b.blocks(t, s, h)
}

// lift adds a term of a whole tensor: the tensor itself if the fold of equal terms is the
// same, else the fold's neutral element on all ranks but the first.
func (b *builder) lift(v Var, d tensor.DType, s tensor.Shape, h hop) Var {
	neutral := 0.0
	switch h.to.fold {
	case Mean, Max, Min:
		return v
	case Prod:
		neutral = 1
	}
	if d.IsStorage() { // only moves and casts accept it
		return b.cast(b.lift(b.cast(v, d.Wide(), s, h.from), d.Wide(), s, h), d, s, h.from)
	}
	return b.each(-1, func(r int) local {
		sh := b.mesh.shape(h.from, s, r)
		if b.mesh.Coord(r, h.dim) == 0 {
			return local{tensor.OpReshape, d, sh, shapeInts(sh), []arg{of(v)}}
		}
		return local{tensor.OpFull, d, sh, append([]int64{int64(d)}, shapeInts(sh)...), []arg{number(neutral)}}
	})
}

// cast changes the dtype of a tensor of shape s in layout l.
func (b *builder) cast(v Var, to tensor.DType, s tensor.Shape, l Layout) Var {
	return b.each(-1, func(r int) local {
		return local{tensor.OpCast, to, b.mesh.shape(l, s, r), []int64{int64(to)}, []arg{of(v)}}
	})
}

// blocks adds a collective that moves blocks, which must be contiguous: the dim that is
// cut or gathered is moved to the front before it and back after it. An all-to-all puts
// the cut dim first and the gathered dim second. It gets |part of 0|part of 1|..., which
// join joins along the second dim.
func (b *builder) blocks(t *transfer, s tensor.Shape, h hop) Var {
	m, k := b.mesh, h.dim
	p := m[k].Size
	cut, gathered := h.to.dim, h.from[k].dim
	dims := []int{cut}
	switch t.kind {
	case protocol.AllGather:
		dims = []int{gathered}
	case protocol.AllToAll:
		dims = []int{cut, gathered}
	}
	order, back := front(len(s), dims...)
	turn := t.kind == protocol.AllToAll || s[:dims[0]].Elems() != 1
	in := t.in
	if turn {
		in = b.each(-1, func(r int) local {
			return local{tensor.OpPermute, t.dt, permuted(m.shape(h.from, s, r), order), order, []arg{of(t.in)}}
		})
		b.nodes[len(b.nodes)-1].early = true
	}
	t.in = in
	whole := h.from
	whole[k] = Replicate
	for r := range t.moves {
		from, to, full := m.shape(h.from, s, r), m.shape(h.after(), s, r), m.shape(whole, s, r)
		if turn {
			from, to = permuted(from, order), permuted(to, order)
		}
		mv := Move{In: in, InShape: from, OutShape: to}
		for i := range p {
			_, c := Chunk(full[dims[0]], p, i)
			switch t.kind {
			case protocol.ReduceScatter:
				mv.Send = append(mv.Send, c*perUnit(full, dims[0]))
			case protocol.AllGather:
				mv.Recv = append(mv.Recv, c*perUnit(full, dims[0]))
			case protocol.AllToAll:
				_, g := Chunk(full[gathered], p, i)
				rest := perUnit(full, cut, gathered)
				mv.Send = append(mv.Send, c*from[1]*rest)
				mv.Recv = append(mv.Recv, to[0]*g*rest)
			}
		}
		if t.kind == protocol.AllToAll {
			mv.OutShape = tensor.Shape{to.Elems()}
		}
		t.moves[r] = mv
	}
	v := b.push(node{origin: -1, move: t, early: true})
	if t.kind == protocol.AllToAll {
		v = b.join(v, t, func(r, i int) tensor.Shape {
			sh := permuted(m.shape(h.after(), s, r), order)
			if i < p {
				_, sh[1] = Chunk(sh[1], p, i)
			}
			return sh
		})
	}
	if turn {
		v = b.each(-1, func(r int) local {
			sh := m.shape(h.after(), s, r)
			return local{tensor.OpPermute, t.dt, sh, back, []arg{of(v)}}
		})
	}
	return v
}

// perUnit returns the number of elements in s for each element of the dims given.
func perUnit(s tensor.Shape, dims ...int) int {
	n := 1
	for d, x := range s {
		if !slices.Contains(dims, d) {
			n *= x
		}
	}
	return n
}

// join joins the consecutive blocks of v along dim 1. shape returns the shape of a block,
// and of the whole for block p.
func (b *builder) join(v Var, t *transfer, shape func(rank, block int) tensor.Shape) Var {
	p := b.mesh[t.dim].Size
	parts := make([]Var, p)
	for i := range parts {
		flat := b.each(-1, func(r int) local {
			start := 0
			for _, n := range t.moves[r].Recv[:i] {
				start += n
			}
			sh := tensor.Shape{t.moves[r].Recv[i]}
			return local{tensor.OpSlice, t.dt, sh, sliceInts([]int{start}, sh), []arg{of(v)}}
		})
		parts[i] = b.each(-1, func(r int) local {
			sh := shape(r, i)
			return local{tensor.OpReshape, t.dt, sh, shapeInts(sh), []arg{of(flat)}}
		})
	}
	return b.each(-1, func(r int) local {
		l := local{tensor.OpConcat, t.dt, shape(r, p), []int64{1}, nil}
		for _, q := range parts {
			l.args = append(l.args, of(q))
		}
		return l
	})
}
