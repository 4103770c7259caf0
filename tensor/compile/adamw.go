package compile

import "github.com/ringside-go/ringside/tensor"

// adamW makes one step of all AdamW updates: both moments and the parameter, of every parameter. It stands where the
// last of them was, so that nothing that can fail comes after it that did not before.
func (c *compiler) adamW() {
	g := c.graph()
	e := newEdit()
	var all Step
	at := -1
	for k := range c.plan.Steps {
		w, m, v, ok := c.adamWUpdate(g, e, k)
		if !ok {
			continue
		}
		all.In = append(all.In, w.In[0], m.In[0], v.In[0], m.In[1], m.In[2], v.In[2], w.In[3], w.In[4], w.In[5], w.In[6], w.In[7])
		all.Also = append(all.Also, w.Out, m.Out, v.Out)
		for _, j := range []int{g.def[w.In[1].Buf], g.def[w.In[2].Buf], k} {
			e.gone[j] = true
		}
		at = max(at, k)
	}
	if at < 0 {
		return
	}
	for _, o := range all.Also { // nobody may read a result before it is there
		for _, u := range g.readers[o.Buf] {
			if u.step <= at && !e.gone[u.step] {
				return
			}
		}
	}
	last := &c.plan.Steps[at]
	all.Instr, all.Op, all.Fused = last.Instr, last.Op, AdamW
	all.Out, all.Also = all.Also[0], all.Also[1:]
	e.replace(at, all)
	c.apply(e)
}

// adamWUpdate is the update of a parameter if step k is the last of its three: that of the parameter itself, w, and those of
// its moments, m and v. None of them is part of e.
func (c *compiler) adamWUpdate(g *graph, e *edit, k int) (w, m, v *Step, ok bool) {
	w = &c.plan.Steps[k]
	if w.Fused != Single || w.Op != tensor.OpAdamW || w.Out.DType != tensor.F32 {
		return nil, nil, nil, false
	}
	mk, vk := g.def[w.In[1].Buf], g.def[w.In[2].Buf]
	if mk < 0 || vk < 0 || mk == vk || e.touched(mk) || e.touched(vk) {
		return nil, nil, nil, false
	}
	m, v = &c.plan.Steps[mk], &c.plan.Steps[vk]
	return w, m, v, m.Op == tensor.OpAdamM && v.Op == tensor.OpAdamV && same(m.In[1], v.In[1]) && c.updates(w, m, v)
}

// updates reports whether w, m and v each go over dense operands of one shape, with results of their own.
func (c *compiler) updates(w, m, v *Step) bool {
	n := w.Out.Shape.Elems()
	for _, o := range []Operand{w.In[0], w.In[1], w.In[2], m.In[0], m.In[1], v.In[0], m.Out, v.Out, w.Out} {
		if o.Scalar >= 0 || !o.Dense || o.Shape.Elems() != n || o.DType != tensor.F32 {
			return false
		}
	}
	return c.whole(w.In[1]) && c.whole(w.In[2])
}
