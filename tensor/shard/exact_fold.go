package shard

import (
	"slices"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// gatherBytes is the size of a sum up to which every rank gathers the pieces of all and
// folds them, in one collective instead of two.
const gatherBytes = 16 << 10

// sum folds the terms of all parts of a few tensors, in the order of one tree over the
// parts. Its nodes are the blocks of 2^i parts that begin at a multiple of 2^i; what is
// left is folded from the last block to the first. Of six parts:
//
//	((0 + 1) + (2 + 3)) + (4 + 5)
//
// Every rank folds the blocks that its parts fill, and holds them as pieces. With four
// parts of twelve it has one, and with three of them two.
type sum struct {
	*partwise
	terms  []term
	acc    tensor.DType // of the pieces: halves are folded as f32, as bools are as u8
	op     tensor.Op
	elems  int       // of all terms
	pieces [][]piece // by rank
}

// piece is the fold of a block of parts: a var of each tensor.
type piece struct {
	first, size int
	vars        []Var
	dt          tensor.DType // of the vars
	temps       []bool       // vars that the sum may free
}

// summed returns the sums of terms, those of one type together.
func (w *partwise) summed(terms []term) (all []*sum) {
	for _, t := range terms {
		acc := t.DType.Wide()
		if acc == tensor.Bool {
			acc = tensor.U8
		}
		op := map[element.Reduction]tensor.Op{element.Sum: tensor.OpAdd, element.Max: tensor.OpMax, element.Min: tensor.OpMin, element.Prod: tensor.OpMul}[t.Op]
		n := slices.IndexFunc(all, func(s *sum) bool { return s.terms[0].DType == t.DType && s.op == op })
		if n < 0 {
			n = len(all)
			all = append(all, &sum{partwise: w, acc: acc, op: op, pieces: make([][]piece, len(w.out.Ranks))})
		}
		all[n].terms = append(all[n].terms, t)
		all[n].elems += t.shape.Elems()
	}
	return all
}

// add adds the terms of a part, the j-th of a rank, and folds the blocks that are full.
func (s *sum) add(rank, part, j int) {
	q := piece{first: part, size: 1, dt: s.terms[0].DType}
	for _, t := range s.terms {
		_, common := s.shared[t.in]
		q.vars, q.temps = append(q.vars, s.number(t.in, j)), append(q.temps, t.ends && !common)
	}
	ps := append(s.pieces[rank], q)
	for len(ps) > 1 {
		a, b := ps[len(ps)-2], ps[len(ps)-1]
		full := a.size+b.size == s.parts.Size() // the result itself: here folds it
		if full || a.size != b.size || a.first%(2*a.size) != 0 {
			break
		}
		ps = append(ps[:len(ps)-2], s.pair(rank, a, b))
	}
	s.pieces[rank] = ps
}

// pair folds two pieces.
func (s *sum) pair(rank int, a, b piece) piece {
	m := newAssembly()
	out := piece{first: a.first, size: a.size + b.size, dt: s.acc}
	for k, t := range s.terms {
		v := s.newVar()
		x := m.cast(m.input(a.vars[k], a.dt, t.shape, a.temps[k]), a.dt, s.acc, t.shape)
		y := m.cast(m.input(b.vars[k], b.dt, t.shape, b.temps[k]), b.dt, s.acc, t.shape)
		m.keep(m.op(s.op, s.acc, t.shape, nil, x, y), v)
		out.vars, out.temps = append(out.vars, v), append(out.temps, true)
	}
	s.step(rank, m.step())
	return out
}

// tree folds the values of pieces in their order. fold folds two of them.
func tree[T any](blocks []piece, values []T, fold func(a, b T) T) T {
	var sizes, firsts []int
	var vs []T
	for i, q := range blocks {
		sizes, firsts, vs = append(sizes, q.size), append(firsts, q.first), append(vs, values[i])
		for n := len(vs); n > 1 && sizes[n-2] == sizes[n-1] && firsts[n-2]%(2*sizes[n-2]) == 0; n = len(vs) {
			vs[n-2] = fold(vs[n-2], vs[n-1])
			sizes[n-2] *= 2
			sizes, firsts, vs = sizes[:n-1], firsts[:n-1], vs[:n-1]
		}
	}
	for n := len(vs); n > 1; n = len(vs) {
		vs[n-2] = fold(vs[n-2], vs[n-1])
		vs = vs[:n-1]
	}
	return vs[0]
}

// finish folds the pieces of all ranks into the results, which every rank then has.
func (s *sum) finish() {
	size := s.acc.Size()
	switch {
	case len(s.pieces) == 1:
		s.here()
	case s.elems == 0 || s.elems*size <= gatherBytes:
		s.gather()
	default:
		s.scatter()
	}
}

// here folds the pieces of the only rank.
func (s *sum) here() {
	m := newAssembly()
	for k, t := range s.terms {
		var vs []tensor.Ref
		for _, q := range s.pieces[0] {
			vs = append(vs, m.cast(m.input(q.vars[k], q.dt, t.shape, q.temps[k]), q.dt, s.acc, t.shape))
		}
		s.result(m, t, s.fold(m, s.pieces[0], vs, t.shape))
	}
	s.step(0, m.step())
}

// fold folds vs, a value of each piece.
func (s *sum) fold(m *assembly, blocks []piece, vs []tensor.Ref, shape tensor.Shape) tensor.Ref {
	return tree(blocks, vs, func(a, b tensor.Ref) tensor.Ref { return m.op(s.op, s.acc, shape, nil, a, b) })
}

// result keeps v as the result of t.
func (s *sum) result(m *assembly, t term, v tensor.Ref) {
	if t.Scale != 1 {
		v = m.op(tensor.OpMul, s.acc, t.shape, nil, v, m.number(t.Scale))
	}
	v = m.cast(v, s.acc, t.DType, t.shape)
	if _, made := v.Instr(); !made {
		v = m.op(tensor.OpReshape, t.DType, t.shape, shapeInts(t.shape), v)
	}
	m.keep(v, s.shared[t.out])
}

// all returns the pieces of all ranks in their order.
func (s *sum) all() (ps []piece) {
	for _, q := range s.pieces {
		ps = append(ps, q...)
	}
	return ps
}

// flat returns the elements [from, from+n) of a piece's tensors one after another, as
// slices.
func (s *sum) flat(m *assembly, q piece, from, n int) (out []tensor.Ref) {
	for k, t := range s.terms {
		size := t.shape.Elems()
		lo, hi := max(from, 0), min(from+n, size)
		if from -= size; lo >= hi {
			continue
		}
		sh := tensor.Shape{size}
		v := m.cast(m.input(q.vars[k], q.dt, t.shape, q.temps[k]), q.dt, s.acc, t.shape)
		v = m.op(tensor.OpReshape, s.acc, sh, shapeInts(sh), v)
		if hi-lo < size {
			sh = tensor.Shape{hi - lo}
			v = m.op(tensor.OpSlice, s.acc, sh, sliceInts([]int{lo}, sh), v)
		}
		out = append(out, v)
	}
	return out
}

// unpack keeps the results, which lie one after another in v.
func (s *sum) unpack(m *assembly, v tensor.Ref) {
	at := 0
	for _, t := range s.terms {
		sh := tensor.Shape{t.shape.Elems()}
		x := m.op(tensor.OpSlice, s.acc, sh, sliceInts([]int{at}, sh), v)
		s.result(m, t, m.op(tensor.OpReshape, s.acc, t.shape, shapeInts(t.shape), x))
		at += sh[0]
	}
}

// gather has every rank gather all pieces and fold them.
func (s *sum) gather() {
	in, out := s.newVar(), s.newVar()
	blocks, n := s.all(), s.elems
	var recv []int
	for _, q := range s.pieces {
		recv = append(recv, len(q)*n)
	}
	for rank, ps := range s.pieces {
		m := newAssembly()
		var parts []tensor.Ref
		for _, q := range ps {
			parts = append(parts, s.flat(m, q, 0, n)...)
		}
		m.keep(m.joined(s.acc, parts), in)
		s.step(rank, m.step())
	}
	s.call(protocol.AllGather, in, out, func(rank int) Move {
		return Move{InShape: tensor.Shape{recv[rank]}, OutShape: tensor.Shape{len(blocks) * n}, Recv: recv}
	})
	for rank := range s.pieces {
		m := newAssembly()
		v := m.input(out, s.acc, tensor.Shape{len(blocks) * n}, true)
		s.unpack(m, s.fold(m, blocks, m.cutUp(v, s.acc, len(blocks), n), tensor.Shape{n}))
		s.step(rank, m.step())
	}
}

// scatter has every rank fold a chunk of the elements of all pieces, and gather the
// chunks.
func (s *sum) scatter() {
	in, got, mine, out := s.newVar(), s.newVar(), s.newVar(), s.newVar()
	blocks, n, p := s.all(), s.elems, len(s.pieces)
	lengths := make([]int, p)
	for i := range lengths {
		_, lengths[i] = Chunk(n, p, i)
	}
	for rank, ps := range s.pieces {
		m := newAssembly()
		var parts []tensor.Ref
		for to := range p {
			from, length := Chunk(n, p, to)
			for _, q := range ps {
				parts = append(parts, s.flat(m, q, from, length)...)
			}
		}
		m.keep(m.joined(s.acc, parts), in)
		s.step(rank, m.step())
	}
	s.call(protocol.AllToAll, in, got, func(rank int) (v Move) {
		for i := range p {
			v.Send = append(v.Send, lengths[i]*len(s.pieces[rank]))
			v.Recv = append(v.Recv, lengths[rank]*len(s.pieces[i]))
		}
		v.InShape, v.OutShape = tensor.Shape{n * len(s.pieces[rank])}, tensor.Shape{lengths[rank] * len(blocks)}
		return v
	})
	for rank := range s.pieces {
		m := newAssembly()
		k := lengths[rank]
		v := m.input(got, s.acc, tensor.Shape{k * len(blocks)}, true)
		m.keep(s.fold(m, blocks, m.cutUp(v, s.acc, len(blocks), k), tensor.Shape{k}), mine)
		s.step(rank, m.step())
	}
	s.call(protocol.AllGather, mine, out, func(rank int) Move {
		return Move{InShape: tensor.Shape{lengths[rank]}, OutShape: tensor.Shape{n}, Recv: lengths}
	})
	for rank := range s.pieces {
		m := newAssembly()
		s.unpack(m, m.input(out, s.acc, tensor.Shape{n}, true))
		s.step(rank, m.step())
	}
}

// call adds a collective of all ranks, which is waited for at once.
func (s *sum) call(kind protocol.Kind, in, out Var, move func(rank int) Move) {
	for rank := range s.pieces {
		m := move(rank)
		m.In, m.Out = in, out
		c := &Collective{ID: s.calls, Kind: kind, DType: s.acc, Scale: 1, Group: s.mesh.Group(rank, 0), Moves: []Move{m}}
		s.step(rank, Step{Kind: Start, Collective: c})
		s.step(rank, Step{Kind: Wait, Collective: c, Frees: []Var{in}})
	}
	s.calls++
	s.out.Stats.Collectives[kind]++
	s.out.Stats.Moves[kind]++
}

// assembly makes a program that moves and folds tensors.
type assembly struct {
	run    *Run
	inputs map[Var]tensor.Ref
	shapes map[string]uint32
}

func newAssembly() *assembly {
	return &assembly{run: &Run{Program: &tensor.Program{}}, inputs: map[Var]tensor.Ref{}, shapes: map[string]uint32{}}
}

func (a *assembly) step() Step {
	a.run.Program.NumScalars = len(a.run.Scalars)
	return Step{Kind: RunProgram, Run: a.run}
}

func (a *assembly) shape(s tensor.Shape) uint32 {
	i, ok := a.shapes[s.String()]
	if !ok {
		i = uint32(len(a.run.Program.Shapes))
		a.shapes[s.String()] = i
		a.run.Program.Shapes = append(a.run.Program.Shapes, s)
	}
	return i
}

// input returns v as an input of the program, which frees it if donated is set.
func (a *assembly) input(v Var, d tensor.DType, s tensor.Shape, donated bool) tensor.Ref {
	r, ok := a.inputs[v]
	if !ok {
		r = tensor.ExternalRef(len(a.run.Inputs))
		a.inputs[v] = r
		a.run.Inputs = append(a.run.Inputs, v)
		a.run.Program.Externals = append(a.run.Program.Externals, tensor.External{DType: d, Donated: donated, Shape: a.shape(s)})
	}
	return r
}

func (a *assembly) number(x float64) tensor.Ref {
	a.run.Scalars = append(a.run.Scalars, Scalar{From: -1, Const: x})
	return tensor.ScalarRef(len(a.run.Scalars) - 1)
}

func (a *assembly) op(op tensor.Op, d tensor.DType, s tensor.Shape, ints []int64, args ...tensor.Ref) tensor.Ref {
	p := a.run.Program
	p.Instrs = append(p.Instrs, tensor.Instr{Op: op, DType: d, Shape: a.shape(s), NArg: uint16(len(args)), NInt: uint16(len(ints)),
		Arg: uint32(len(p.Args)), Int: uint32(len(p.Ints))})
	p.Args, p.Ints = append(p.Args, args...), append(p.Ints, ints...)
	a.run.Origin = append(a.run.Origin, -1)
	return tensor.Ref(len(p.Instrs) - 1)
}

// keep has the result r, of an instruction, be v.
func (a *assembly) keep(r tensor.Ref, v Var) {
	i, _ := r.Instr()
	a.run.Program.Instrs[i].Keep = true
	a.run.Kept = append(a.run.Kept, Kept{i, v})
}

func (a *assembly) cast(r tensor.Ref, from, to tensor.DType, s tensor.Shape) tensor.Ref {
	if from == to {
		return r
	}
	return a.op(tensor.OpCast, to, s, []int64{int64(to)}, r)
}

// joined returns vectors one after another.
func (a *assembly) joined(d tensor.DType, parts []tensor.Ref) tensor.Ref {
	for len(parts) > tensor.MaxOperands {
		var fewer []tensor.Ref
		for some := range slices.Chunk(parts, tensor.MaxOperands) {
			fewer = append(fewer, a.joined(d, some))
		}
		parts = fewer
	}
	n := 0
	for _, r := range parts {
		_, s := a.run.Program.TypeOf(r)
		n += s[0]
	}
	if len(parts) == 0 {
		return a.op(tensor.OpFull, d, tensor.Shape{0}, []int64{int64(d), 0}, a.number(0))
	}
	return a.op(tensor.OpConcat, d, tensor.Shape{n}, []int64{0}, parts...)
}

// cutUp returns count vectors of n that lie one after another in v.
func (a *assembly) cutUp(v tensor.Ref, d tensor.DType, count, n int) (out []tensor.Ref) {
	sh := tensor.Shape{n}
	for i := range count {
		out = append(out, a.op(tensor.OpSlice, d, sh, sliceInts([]int{i * n}, sh), v))
	}
	return out
}
