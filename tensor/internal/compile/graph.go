package compile

import "slices"

// graph is who writes and who reads each buffer, while every buffer has one writer: until memory is shared.
type graph struct {
	def     []int   // the step that writes the buffer, -1 for an input
	readers [][]use // in order
}

// use is an operand: In[in] of step.
type use struct{ step, in int }

func (c *compiler) graph() *graph {
	n := len(c.plan.Buffers)
	g := &graph{def: make([]int, n), readers: make([][]use, n)}
	for i := range g.def {
		g.def[i] = -1
	}
	for k := range c.plan.Steps {
		s := &c.plan.Steps[k]
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

// only reports whether buf is a temporary that the steps given read and nobody else.
func (c *compiler) only(g *graph, buf int, steps ...int) bool {
	return c.plan.Buffers[buf].Place == Temp &&
		!slices.ContainsFunc(g.readers[buf], func(u use) bool { return !slices.Contains(steps, u.step) })
}

// available reports whether all tensors among in exist before step k.
func (g *graph) available(in []Operand, k int) bool {
	return !slices.ContainsFunc(in, func(o Operand) bool { return o.Scalar < 0 && g.def[o.Buf] >= k })
}

// edit is a change of the list of steps: what is gone, and what stands in the place of a step.
type edit struct {
	gone map[int]bool
	at   map[int]Step
}

func newEdit() *edit { return &edit{map[int]bool{}, map[int]Step{}} }

// replace puts s where step k is, and takes the others away.
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

// apply makes the change.
func (c *compiler) apply(e *edit) {
	if len(e.gone)+len(e.at) == 0 {
		return
	}
	kept := c.plan.Steps[:0]
	for k, s := range c.plan.Steps {
		if e.gone[k] {
			c.plan.Stats.Fused++
			continue
		}
		if n, ok := e.at[k]; ok {
			s = n
		}
		kept = append(kept, s)
	}
	clear(c.plan.Steps[len(kept):])
	c.plan.Steps = kept
}

// same reports whether a and b are the same elements in the same places of the same shape.
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

// whole reports whether o is all of its buffer in order.
func (c *compiler) whole(o Operand) bool {
	return o.Scalar < 0 && o.Dense && o.Off == 0 && o.Shape.Elems()*o.DType.Size() == c.plan.Buffers[o.Buf].Size
}
