package shard

import (
	"fmt"

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
	composite
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
}

// rewriteExactly returns the plan for Options.Parts.
func rewriteExactly(p *tensor.Program, m Mesh, inputs []Layout, o Options) (*Plan, error) {
	if len(m) != 1 || o.Parts%m.Size() != 0 || o.Parts > MaxRanks {
		return nil, fmt.Errorf("%w: %v for %d parts, expected one dim of a size that divides them, and at most %d parts", ErrMesh, m, o.Parts, MaxRanks)
	}
	if len(o.Outputs) > 0 {
		return nil, fmt.Errorf("%w: layouts of results and parts exclude each other", ErrPlacement)
	}
	x := &exactly{composite: compose(p, []Stage{only(m)}, m.Size()), p: p, mesh: m, parts: Mesh{{m[0].Name, o.Parts}}, each: o.Parts / m.Size(), o: o,
		last: map[tensor.Ref]int{}, has: map[tensor.Ref]held{}, whole: map[tensor.Ref]Var{}}
	x.out.Mesh, x.o.Parts = m, 0
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
	return cutOut(x.p, is, own, func(i int) bool { return x.p.Instrs[i].Keep || x.last[tensor.Ref(i)] > k })
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
	ins := make([]held, len(s.ins))
	for i, r := range s.ins {
		h := x.has[r]
		ins[i] = h
		if !x.rows(r) || h.Layout == (Layout{}) {
			continue
		}
		v, ok := x.whole[r]
		if !ok {
			q, err := Redistribute(x.mesh, h.DType, h.Shape, h.Layout, Layout{})
			if err != nil {
				return err
			}
			v = x.embed(q, 0, []Var{h.value}, nil)(q.Outputs[0].Var)
			x.whole[r] = v
		}
		ins[i].value, ins[i].Layout = v, Layout{}
		if s.p.Externals[i].Donated { // the rows
			x.free(h.value)
		}
		s.p.Externals[i].Donated = x.last[r] <= k // the copy
	}
	return x.rewrite(s, 0, ins, &x.o, func(i int, h held) { x.has[tensor.Ref(i)] = h })
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
