package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// minAdamWProduct is the least number of elements of a gradient that is worth a step of
// its own. A smaller gradient stays in the first-level cache between its product and its
// update anyway.
const minAdamWProduct = 1 << 14

// adamWProducts joins an AdamW update and the matrix product that computes its gradient
// into one step. An engine then updates each block of the parameter while the block of
// the gradient is in the cache of the core that computed it, and the gradient is never
// written whole. The bits are those of the separate steps. The new step takes the place
// of the product.
//
// The parameter and its moments can be overwritten there only under two conditions: no
// later step reads their old values, and no later step can fail.
func (rw *rewriter) adamWProducts(g *graph, e *edit) {
	fallible := -1
	for k := range rw.plan.Steps {
		if rw.plan.Steps[k].Op.Info().Fallible {
			fallible = k
		}
	}
	for k := range rw.plan.Steps {
		w, m, v, ok := rw.adamWUpdate(g, e, k)
		if !ok || m.In[1].Shape.Elems() < minAdamWProduct || !rw.whole(m.In[1]) {
			continue
		}
		at := g.def[m.In[1].Buf]
		if at <= fallible || e.touched(at) {
			continue
		}
		p := &rw.plan.Steps[at]
		mk, vk := g.def[w.In[1].Buf], g.def[w.In[2].Buf]
		if !p.is(tensor.OpMatmul) || len(p.In[0].Shape) != 2 || len(p.In[1].Shape) != 2 ||
			last(p.In[0].Shape) == 0 || rw.era[p.Instr] != rw.era[w.Instr] ||
			!rw.only(g, p.Out.Buf, mk, vk) {
			continue
		}
		old := []Operand{w.In[0], m.In[0], v.In[0]}
		if !g.available(old, at) || slices.ContainsFunc(old, func(o Operand) bool { return g.readAfter(o.Buf, at, mk, vk, k) }) {
			continue
		}
		s := Step{Instr: w.Instr, Op: w.Op, Fused: AdamWProduct, Out: w.Out, Also: []Operand{m.Out, v.Out}}
		s.In = append(append(s.In, old...), p.In[0], p.In[1], m.In[2], v.In[2])
		s.In = append(s.In, w.In[3:]...)
		e.replace(at, s, mk, vk, k)
	}
}

// readAfter reports whether a step after at, other than those in except, reads buf.
func (g *graph) readAfter(buf, at int, except ...int) bool {
	return slices.ContainsFunc(g.readers[buf], func(u use) bool { return u.step > at && !slices.Contains(except, u.step) })
}
