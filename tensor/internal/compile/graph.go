package compile

import "slices"

// rewriter runs passes that make fewer and larger steps.
type rewriter struct {
	opt  Options
	plan *Plan
	era  []int // see builder
}

// graph holds the writer and the readers of each buffer. It is valid while every buffer
// has one writer, that is, until memory is shared.
type graph struct {
	def     []int   // the step that writes the buffer, -1 for an input
	readers [][]use // in the order of the steps
}

// use is operand In[in] of a step.
type use struct{ step, in int }

func (rw *rewriter) graph() *graph {
	n := len(rw.plan.Buffers)
	g := &graph{def: make([]int, n), readers: make([][]use, n)}
	for i := range g.def {
		g.def[i] = -1
	}
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		for i, o := range s.In {
			if o.Scalar < 0 {
				g.readers[o.Buf] = append(g.readers[o.Buf], use{k, i})
			}
		}
		for _, o := range s.Outs() {
			g.def[o.Buf] = k
		}
	}
	return g
}

// only reports whether buf is a temporary that no step but those given reads.
func (rw *rewriter) only(g *graph, buf int, steps ...int) bool {
	return rw.plan.Buffers[buf].Place == Temp &&
		!slices.ContainsFunc(g.readers[buf], func(u use) bool { return !slices.Contains(steps, u.step) })
}

// available reports whether all tensors in in exist before step k.
func (g *graph) available(in []Operand, k int) bool {
	return !slices.ContainsFunc(in, func(o Operand) bool { return o.Scalar < 0 && g.def[o.Buf] >= k })
}

// edit is a change to the list of steps: the steps to remove, and the steps to replace.
type edit struct {
	gone map[int]bool
	at   map[int]Step
}

func newEdit() *edit { return &edit{map[int]bool{}, map[int]Step{}} }

// replace puts s in the place of step k and removes the others.
func (e *edit) replace(k int, s Step, others ...int) {
	for _, o := range others {
		e.gone[o] = true
	}
	delete(e.gone, k)
	e.at[k] = s
}

// touched reports whether step k is part of the change already.
func (e *edit) touched(k int) bool {
	_, new := e.at[k]
	return new || e.gone[k]
}

// apply changes the list of steps.
func (rw *rewriter) apply(e *edit) {
	if len(e.gone)+len(e.at) == 0 {
		return
	}
	kept := rw.plan.Steps[:0]
	for k, s := range rw.plan.Steps {
		if e.gone[k] {
			rw.plan.Stats.Fused++
			continue
		}
		if n, ok := e.at[k]; ok {
			s = n
		}
		kept = append(kept, s)
	}
	clear(rw.plan.Steps[len(kept):])
	rw.plan.Steps = kept
}

// dropDead removes steps that cannot fail and whose results no step reads.
func (rw *rewriter) dropDead(g *graph, e *edit) {
	for k := len(rw.plan.Steps) - 1; k >= 0; k-- {
		s := &rw.plan.Steps[k]
		if s.Op.Info().Fallible {
			continue
		}
		dead := true
		for _, o := range s.Outs() {
			dead = dead && rw.plan.Buffers[o.Buf].Place == Temp && len(g.readers[o.Buf]) == 0
		}
		if !dead {
			continue
		}
		e.gone[k] = true
		for i, o := range s.In {
			if o.Scalar < 0 {
				r := g.readers[o.Buf]
				j := slices.Index(r, use{k, i})
				g.readers[o.Buf] = slices.Concat(r[:j], r[j+1:])
			}
		}
	}
}

// same reports whether a and b view the same elements in the same shape and order.
func same(a, b Operand) bool {
	if a.Scalar >= 0 || b.Scalar >= 0 {
		return a.Scalar == b.Scalar
	}
	if a.Buf != b.Buf || a.Off != b.Off || a.DType != b.DType || !a.Shape.Equal(b.Shape) {
		return false
	}
	for i, n := range a.Shape {
		if n > 1 && a.Strides[i] != b.Strides[i] {
			return false
		}
	}
	return true
}

// whole reports whether o is its entire buffer in order.
func (rw *rewriter) whole(o Operand) bool {
	return o.Scalar < 0 && o.Dense && o.Off == 0 && o.Shape.Elems()*o.DType.Size() == rw.plan.Buffers[o.Buf].Size
}
