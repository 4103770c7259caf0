package shard

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// inParts adds the steps of an odd phase.
func (x *exactly) inParts(k int, is []int) error {
	s := x.program(k, is, func(tensor.Ref) bool { return false })
	layouts := make([]Layout, len(s.ins))
	for i, r := range s.ins {
		layouts[i] = x.onParts(r)
	}
	o := Options{BucketBytes: -1, OverlapBytes: math.MaxInt64, Outputs: map[int]Layout{}}
	for i := range s.p.Instrs {
		if s.p.Instrs[i].Keep {
			o.Outputs[i] = x.onParts(tensor.Ref(s.origin[i]))
		}
	}
	q, err := rewrite(s.p, x.parts, layouts, &o, true)
	if err != nil {
		return err
	}
	w := &partwise{exactly: x, q: q, s: s, shared: map[Var]Var{}, mine: make([]map[Var]Var, x.each)}
	for j := range w.mine {
		w.mine[j] = map[Var]Var{}
	}
	for i, r := range s.ins {
		w.input(Var(i), r, layouts[i])
	}
	w.carry()
	for _, out := range q.Outputs {
		i := s.origin[out.Instr]
		x.out.results[i] = x.layouts[i]
		x.has[tensor.Ref(i)] = w.output(out)
	}
	for j := range w.mine {
		for i := range s.ins {
			if v, ok := w.mine[j][Var(i)]; ok {
				x.free(v)
			}
		}
	}
	for _, r := range s.ins {
		if x.ends(r, k) {
			x.free(x.has[r].value)
		}
		if v, ok := x.whole[r]; ok && x.last[r] <= k { // the copy is the plan's own
			x.free(v)
		}
	}
	return nil
}

// partwise carries out q, a plan for one rank a part, on fewer ranks.
type partwise struct {
	*exactly
	q *Plan
	s *sub
	// shared has the vars of q that are equal for all parts, and mine those of the j-th
	// part of a rank, as vars of the whole plan.
	shared map[Var]Var
	mine   []map[Var]Var
}

// input gives the parts of a rank their parts of an input.
func (w *partwise) input(v Var, r tensor.Ref, l Layout) {
	h := w.has[r]
	dim, cut := l[0].Sharded()
	if !cut {
		w.shared[v] = h.value
		if c, ok := w.whole[r]; ok {
			w.shared[v] = c
		}
		return
	}
	if w.each == 1 && h.Layout == l {
		w.shared[v] = h.value
		return
	}
	part := w.parts.shape(l, h.Shape, 0)
	for j := range w.each {
		w.mine[j][v] = w.newVar()
	}
	for rank := range w.out.Ranks {
		a := newAssembly()
		from := a.input(h.value, h.DType, w.mesh.shape(h.Layout, h.Shape, rank), false)
		for j := range w.each {
			at := j
			if h.Layout != l { // the rank has the whole
				at += rank * w.each
			}
			start := make([]int, len(part))
			start[dim] = at * part[dim]
			a.keep(a.op(tensor.OpSlice, h.DType, part, sliceInts(start, part), from), w.mine[j][v])
		}
		w.step(rank, a.step())
	}
}

// output returns a result as the ranks hold it: their parts of rows are joined.
func (w *partwise) output(out Output) held {
	dim, cut := out.Layout[0].Sharded()
	if !cut {
		return held{w.number(out.Var, 0), Placed{out.DType, out.Shape, Layout{}, 0}}
	}
	h := held{w.number(out.Var, 0), Placed{out.DType, out.Shape, w.mesh.normal(out.Layout), 0}}
	if w.each == 1 {
		return h
	}
	h.value = w.newVar()
	for rank := range w.out.Ranks {
		a := newAssembly()
		var parts []tensor.Ref
		for j := range w.each {
			parts = append(parts, a.input(w.number(out.Var, j), out.DType, w.parts.shape(out.Layout, out.Shape, 0), true))
		}
		a.keep(a.op(tensor.OpConcat, out.DType, w.mesh.shape(out.Layout, out.Shape, rank), []int64{int64(dim)}, parts...), h.value)
		w.step(rank, a.step())
	}
	return h
}

// number returns the var of the whole plan for v of q, of the j-th part of a rank.
func (w *partwise) number(v Var, j int) Var {
	if s, ok := w.shared[v]; ok {
		return s
	}
	n, ok := w.mine[j][v]
	if !ok {
		n = w.newVar()
		w.mine[j][v] = n
	}
	return n
}

// stretch is a part of a plan's steps: programs, and the sums that follow.
type stretch struct {
	runs []int // steps
	sums []term
}

// term is an all-reduce of q.
type term struct {
	*Collective
	in, out Var // of q
	shape   tensor.Shape
	ends    bool // the term is not needed after the sum
}

// stretches divides the steps of q, which are of the same kinds for all parts. A sum
// starts where its result is needed.
func (w *partwise) stretches() (all []stretch) {
	var s stretch
	for n, step := range w.q.Ranks[0].Steps {
		switch step.Kind {
		case RunProgram:
			if len(s.sums) > 0 {
				all, s = append(all, s), stretch{}
			}
			s.runs = append(s.runs, n)
		case Wait:
			for _, m := range step.Collective.Moves {
				s.sums = append(s.sums, term{step.Collective, m.In, m.Out, m.InShape, slices.Contains(step.Frees, m.In)})
			}
		}
	}
	return append(all, s)
}

// carry adds the steps: for each stretch the programs of one part after the other, each
// followed by the folds that it makes possible, and then the folds among ranks.
func (w *partwise) carry() {
	for _, s := range w.stretches() {
		for _, t := range s.sums {
			w.shared[t.out] = w.newVar()
		}
		sums := w.summed(s.sums)
		for rank := range w.out.Ranks {
			for j := range w.each {
				part := rank*w.each + j
				for _, n := range s.runs {
					w.run(rank, j, &w.q.Ranks[part].Steps[n])
				}
				for _, g := range sums {
					g.add(rank, part, j)
				}
			}
		}
		for _, g := range sums {
			g.finish()
		}
	}
}

// run adds a program of one part.
func (w *partwise) run(rank, j int, s *Step) {
	number := func(v Var) Var { return w.number(v, j) }
	run := s.Run.renumber(number, w.s.origin)
	t := Step{Kind: RunProgram, Run: run}
	last := j == w.each-1
	free := func(v Var) {
		if _, common := w.shared[v]; !common || last {
			t.Frees = append(t.Frees, number(v))
		}
	}
	for _, v := range s.Frees {
		free(v)
	}
	for i, v := range s.Run.Inputs {
		if _, common := w.shared[v]; common && run.Program.Externals[i].Donated {
			if run.Program == s.Run.Program { // the program is the same for all parts
				run.Program = run.Program.Clone()
			}
			run.Program.Externals[i].Donated = false
			free(v)
		}
	}
	w.step(rank, t)
}
