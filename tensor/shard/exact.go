package shard

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// exactly is the rewriting with Options.Parts. It divides the program into phases. An
// even phase has the instructions on whole tensors: every rank does them as Rewrite has
// it. An odd phase has those whose operands are cut in parts, or are a part's term of a
// sum. It is rewritten for a mesh of as many ranks as there are parts. A rank carries out
// the programs of its parts one after the other, and the terms of the parts are folded
// in the order of tree. So neither the programs of a part nor the order of a sum depend
// on the number of ranks.
//
//	phase 0   leaves, and what depends on whole inputs only
//	phase 1   forward and backward of each part, then the fold of the gradients
//	phase 2   the optimizer; its state may be cut among the ranks
type exactly struct {
	p     *tensor.Program
	mesh  Mesh // of the ranks
	parts Mesh // of the parts
	each  int  // parts of a rank
	o     Options

	given   []Layout           // of inputs, on the parts
	layouts []Layout           // of results, on the parts
	phase   []int              // of every instruction; -1 for one that is not needed
	last    map[tensor.Ref]int // the last phase that reads it
	has     map[tensor.Ref]held
	// whole has copies of values that has holds in rows.
	whole map[tensor.Ref]Var

	out    *Plan
	values int // vars so far
	calls  int // collectives so far
}

// rewriteExactly returns the plan for Options.Parts.
func rewriteExactly(p *tensor.Program, m Mesh, inputs []Layout, o Options) (*Plan, error) {
	if len(m) != 1 || o.Parts%m.Size() != 0 || o.Parts > MaxRanks {
		return nil, fmt.Errorf("%w: %v for %d parts, expected one dim of a size that divides them, and at most %d parts", ErrMesh, m, o.Parts, MaxRanks)
	}
	if len(o.Outputs) > 0 {
		return nil, fmt.Errorf("%w: layouts of results and parts exclude each other", ErrPlacement)
	}
	x := &exactly{p: p, mesh: m, parts: Mesh{{m[0].Name, o.Parts}}, each: o.Parts / m.Size(), o: o,
		last: map[tensor.Ref]int{}, has: map[tensor.Ref]held{}, whole: map[tensor.Ref]Var{},
		out: &Plan{Mesh: m, Stages: []Stage{only(m)}, Ranks: make([]RankPlan, m.Size()), program: p, results: make([]Layout, len(p.Instrs)),
			Stats: Stats{Instrs: len(p.Instrs), Collectives: map[protocol.Kind]int{}, Moves: map[protocol.Kind]int{}}}}
	x.o.Parts = 0
	if err := x.place(inputs); err != nil {
		return nil, err
	}
	probe, err := rewrite(p, x.parts, x.given, &Options{}, true)
	if err != nil {
		return nil, err
	}
	x.layouts = probe.results
	n := x.divide()
	for k := range n {
		ins := x.instrs(k)
		switch {
		case len(ins) == 0:
		case k%2 == 0:
			err = x.wholly(k, ins)
		default:
			err = x.inParts(k, ins)
		}
		if err != nil {
			return nil, err
		}
	}
	x.freeUnread()
	x.outputs()
	x.out.count()
	return x.out, nil
}

// place takes the inputs in. An input that a hint cuts is cut in parts, unless only
// updates of optimizers read it: those work on whole tensors and on the rows of a rank
// alike.
func (x *exactly) place(inputs []Layout) error {
	state := make([]bool, len(inputs))
	for i := range state {
		state[i] = true
	}
	for i, in := range x.p.Instrs {
		for _, r := range x.p.ArgsOf(i) {
			if k, ok := r.External(); ok && !update(in.Op) {
				state[k] = false
			}
		}
	}
	x.given = make([]Layout, len(inputs))
	for i, l := range inputs {
		r := tensor.ExternalRef(i)
		d, s := x.p.TypeOf(r)
		if err := x.mesh.check(l, d, s); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		if l.partial() {
			return fmt.Errorf("%w: input %d is %v, expected whole tensors or rows for %d parts", ErrPlacement, i, l[0], x.parts.Size())
		}
		cut := l
		l = x.mesh.normal(l)
		x.has[r] = held{Var(i), Placed{d, s, l, 0}}
		x.out.Inputs = append(x.out.Inputs, x.has[r].Placed)
		if state[i] {
			continue
		}
		// on a mesh of one rank nothing is cut
		if sig, ok := x.p.SignalOf(r); ok && cut == (Layout{}) {
			var err error
			if cut, err = x.o.Signals.Made(sig, x.parts, s); err != nil {
				return fmt.Errorf("input %d: %w", i, err)
			}
		}
		if dim, ok := cut[0].Sharded(); ok && s[dim]%x.parts.Size() != 0 {
			return fmt.Errorf("%w: dim %d of input %d, %v%v, is cut in %d parts of equal size, expected a multiple of %d there",
				ErrPlacement, dim, i, d, s, x.parts.Size(), x.parts.Size())
		}
		x.given[i] = x.parts.normal(cut)
	}
	x.values = len(inputs)
	return nil
}

// divide gives every instruction its phase, and returns the number of phases.
func (x *exactly) divide() (n int) {
	live := x.p.Live()
	x.phase = make([]int, len(x.p.Instrs))
	for i := range x.phase {
		if x.phase[i] = -1; !live[i] {
			continue
		}
		odd := 0
		if x.layouts[i] != (Layout{}) {
			odd = 1
		}
		at := odd
		for _, r := range x.p.ArgsOf(i) {
			if k, ok := r.Instr(); ok {
				at = max(at, x.phase[k]+(x.phase[k]+odd)%2)
			}
		}
		x.phase[i] = at
		n = max(n, at+1)
	}
	for i, k := range x.phase {
		for _, r := range x.p.ArgsOf(i) {
			if _, scalar := r.Scalar(); !scalar && k >= 0 {
				x.last[r] = max(x.last[r], k)
			}
		}
	}
	return n
}

// instrs returns the instructions of phase k.
func (x *exactly) instrs(k int) (is []int) {
	for i, at := range x.phase {
		if at == k {
			is = append(is, i)
		}
	}
	return is
}

// program makes the program of phase k. own says which inputs it may free.
func (x *exactly) program(k int, is []int, own func(tensor.Ref) bool) *sub {
	s := &sub{p: &tensor.Program{Shapes: x.p.Shapes, NumScalars: x.p.NumScalars, Signals: x.p.Signals}}
	names := map[tensor.Ref]tensor.Ref{}
	for _, i := range is {
		in := x.p.Instrs[i]
		args, ints := x.p.ArgsOf(i), x.p.IntsOf(i)
		in.Arg, in.Int = uint32(len(s.p.Args)), uint32(len(s.p.Ints))
		for _, r := range args {
			if _, scalar := r.Scalar(); scalar {
				s.p.Args = append(s.p.Args, r)
				continue
			}
			name, ok := names[r]
			if !ok {
				name = tensor.ExternalRef(len(s.ins))
				names[r] = name
				s.ins = append(s.ins, r)
				e := tensor.External{}
				if j, ok := r.External(); ok {
					e = x.p.Externals[j]
				} else {
					j, _ := r.Instr()
					e.DType, e.Shape = x.p.Instrs[j].DType, x.p.Instrs[j].Shape
				}
				e.Donated = own(r)
				s.p.Externals = append(s.p.Externals, e)
			}
			s.p.Args = append(s.p.Args, name)
		}
		s.p.Ints = append(s.p.Ints, ints...)
		names[tensor.Ref(i)] = tensor.Ref(len(s.origin))
		in.Keep = in.Keep || x.last[tensor.Ref(i)] > k
		s.origin = append(s.origin, i)
		s.p.Instrs = append(s.p.Instrs, in)
	}
	return s
}

// ends reports whether r is not needed after phase k.
func (x *exactly) ends(r tensor.Ref, k int) bool {
	mine := true
	if i, ok := r.External(); ok {
		mine = x.p.Externals[i].Donated
	} else if i, ok := r.Instr(); ok {
		mine = !x.p.Instrs[i].Keep
	}
	return mine && x.last[r] <= k
}

// wholly adds the steps of an even phase. A value in rows that is no state is made whole
// before, so that nothing but updates and moves is done on rows.
func (x *exactly) wholly(k int, is []int) error {
	s := x.program(k, is, func(r tensor.Ref) bool { return x.ends(r, k) })
	layouts, ins := make([]Layout, len(s.ins)), make([]Var, len(s.ins))
	for i, r := range s.ins {
		h := x.has[r]
		layouts[i], ins[i] = h.Layout, h.value
		if !x.rows(r) || h.Layout == (Layout{}) {
			continue
		}
		v, ok := x.whole[r]
		if !ok {
			q, err := Redistribute(x.mesh, h.DType, h.Shape, h.Layout, Layout{})
			if err != nil {
				return err
			}
			v = x.embed(q, []Var{h.value}, nil)(q.Outputs[0].Var)
			x.whole[r] = v
		}
		layouts[i], ins[i] = Layout{}, v
		if s.p.Externals[i].Donated { // the rows
			x.free(h.value)
		}
		s.p.Externals[i].Donated = x.last[r] <= k // the copy
	}
	q, err := Rewrite(s.p, x.mesh, layouts, &x.o)
	if err != nil {
		return err
	}
	number := x.embed(q, ins, s.origin)
	for i, l := range q.results {
		x.out.results[s.origin[i]] = l
	}
	for _, out := range q.Outputs {
		x.has[tensor.Ref(s.origin[out.Instr])] = held{number(out.Var), out.Placed}
	}
	return nil
}

// rows reports whether r is cut in parts.
func (x *exactly) rows(r tensor.Ref) bool { return x.onParts(r) != (Layout{}) }

// onParts returns the layout of r on the mesh of the parts.
func (x *exactly) onParts(r tensor.Ref) Layout {
	if i, ok := r.External(); ok {
		return x.given[i]
	}
	i, _ := r.Instr()
	if l := x.layouts[i]; !l.partial() {
		return l
	}
	return Layout{} // it is folded at the end of its phase
}

// embed adds the steps of q, whose inputs are the vars ins. It returns the map from q's
// vars to those of the whole plan.
func (x *exactly) embed(q *Plan, ins []Var, origin []int) func(Var) Var {
	number := renumber(ins, x.newVar)
	ranks := x.out.Stages[0].Ranks
	id, calls := x.calls, 0
	for r, rank := range q.Ranks {
		for _, s := range rank.Steps {
			t := Step{Kind: s.Kind, Frees: numbered(s.Frees, number)}
			if s.Run != nil {
				t.Run = s.Run.renumber(number, origin)
			}
			if s.Collective != nil {
				calls = max(calls, s.Collective.ID+1)
				t.Collective = s.Collective.renumber(id, ranks, number)
			}
			x.step(r, t)
		}
	}
	x.calls += calls
	for kind, n := range q.Stats.Collectives {
		x.out.Stats.Collectives[kind] += n
		x.out.Stats.Moves[kind] += q.Stats.Moves[kind]
	}
	x.out.Stats.Slices += q.Stats.Slices
	x.out.Stats.Bucketed += q.Stats.Bucketed
	for _, n := range q.notes {
		if n.reader >= 0 && origin != nil {
			n.reader = origin[n.reader]
		}
		x.out.notes = append(x.out.notes, n)
	}
	return number
}

func (x *exactly) newVar() Var {
	x.values++
	return Var(x.values - 1)
}

func (x *exactly) step(rank int, s Step) {
	steps := &x.out.Ranks[rank].Steps
	*steps = append(*steps, s)
}

// free frees v on every rank after the steps so far.
func (x *exactly) free(v Var) {
	for r := range x.out.Ranks {
		steps := x.out.Ranks[r].Steps
		last := &steps[len(steps)-1]
		last.Frees = append(last.Frees, v)
	}
}

// freeUnread frees the donated inputs that nothing reads.
func (x *exactly) freeUnread() {
	for i, e := range x.p.Externals {
		if _, read := x.last[tensor.ExternalRef(i)]; e.Donated && !read && len(x.out.Ranks[0].Steps) > 0 {
			x.free(Var(i))
		}
	}
}

// outputs lists the kept results.
func (x *exactly) outputs() {
	for i, in := range x.p.Instrs {
		if h := x.has[tensor.Ref(i)]; in.Keep {
			x.out.Outputs = append(x.out.Outputs, Output{i, h.value, h.Placed})
		}
	}
}
