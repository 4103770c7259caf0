package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// adamW joins AdamW updates, each of both moments and the parameter, into one step for as
// many parameters as possible. The step takes the place of the last update, so no step
// that can fail moves behind an update. An update that reads a result of another one,
// such as the next update of the same parameter, begins a new step.
func (rw *rewriter) adamW(g *graph, e *edit) {
	all := newUpdates()
	for k := range rw.plan.Steps {
		w, m, v, ok := rw.adamWUpdate(g, e, k)
		if !ok {
			continue
		}
		in := []Operand{w.In[0], m.In[0], v.In[0], m.In[1], m.In[2], v.In[2], w.In[3], w.In[4], w.In[5], w.In[6], w.In[7]}
		out := []Operand{w.Out, m.Out, v.Out}
		if anyOf(in, all.made) || anyOf(out, all.read) {
			rw.join(g, e, all)
			all = newUpdates()
		}
		all.add(e, in, out, g.def[w.In[1].Buf], g.def[w.In[2].Buf], k)
	}
	rw.join(g, e, all)
}

// updates is a list of AdamW updates that become one step.
type updates struct {
	in, out    []Operand
	steps      []int
	read, made map[int]bool // buffers that the updates read, and that they write
}

func newUpdates() *updates { return &updates{read: map[int]bool{}, made: map[int]bool{}} }

func (u *updates) add(e *edit, in, out []Operand, steps ...int) {
	for _, o := range in {
		if o.Scalar < 0 {
			u.read[o.Buf] = true
		}
	}
	for _, o := range out {
		u.made[o.Buf] = true
	}
	for _, k := range steps {
		e.gone[k] = true
	}
	u.in, u.out, u.steps = append(u.in, in...), append(u.out, out...), append(u.steps, steps...)
}

// anyOf reports whether a tensor among all lies in one of bufs.
func anyOf(all []Operand, bufs map[int]bool) bool {
	return slices.ContainsFunc(all, func(o Operand) bool { return o.Scalar < 0 && bufs[o.Buf] })
}

// join replaces the steps of u by one, in the place of the last. If another step reads a
// result of u before that place, join leaves the steps as they are.
func (rw *rewriter) join(g *graph, e *edit, u *updates) {
	if len(u.steps) == 0 {
		return
	}
	at := u.steps[len(u.steps)-1]
	mine := map[int]bool{}
	for _, k := range u.steps {
		mine[k] = true
	}
	for _, o := range u.out {
		if slices.ContainsFunc(g.readers[o.Buf], func(r use) bool { return r.step <= at && !mine[r.step] }) {
			for _, k := range u.steps {
				delete(e.gone, k)
			}
			return
		}
	}
	last := &rw.plan.Steps[at]
	e.replace(at, Step{Instr: last.Instr, Op: last.Op, Fused: AdamW, In: u.in, Out: u.out[0], Also: u.out[1:]})
}

// adamWUpdate returns the three steps of an update if step k is the last of them: w
// computes the parameter, m and v its moments. It returns false if a step is part of e
// already.
func (rw *rewriter) adamWUpdate(g *graph, e *edit, k int) (w, m, v *Step, ok bool) {
	w = &rw.plan.Steps[k]
	if !w.is(tensor.OpAdamW) || w.Out.DType != tensor.F32 {
		return nil, nil, nil, false
	}
	mk, vk := g.def[w.In[1].Buf], g.def[w.In[2].Buf]
	if mk < 0 || vk < 0 || mk == vk || e.touched(mk) || e.touched(vk) {
		return nil, nil, nil, false
	}
	m, v = &rw.plan.Steps[mk], &rw.plan.Steps[vk]
	return w, m, v, m.Op == tensor.OpAdamM && v.Op == tensor.OpAdamV && same(m.In[1], v.In[1]) && rw.isUpdate(w, m, v)
}

// isUpdate reports whether w, m and v each work on dense operands of one shape, and w is
// the only one that reads the results of the others.
func (rw *rewriter) isUpdate(w, m, v *Step) bool {
	n := w.Out.Shape.Elems()
	for _, o := range []Operand{w.In[0], w.In[1], w.In[2], m.In[0], m.In[1], v.In[0], m.Out, v.Out, w.Out} {
		if o.Scalar >= 0 || !o.Dense || o.Shape.Elems() != n || o.DType != tensor.F32 {
			return false
		}
	}
	made := map[int]bool{m.Out.Buf: true, v.Out.Buf: true}
	return rw.whole(w.In[1]) && rw.whole(w.In[2]) && !anyOf([]Operand{w.In[0], m.In[0], m.In[1], v.In[0]}, made)
}
