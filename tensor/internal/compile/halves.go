package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// halves lets matrix products read 16-bit operands as stored, where only products read
// the widened copy. An engine widens the elements as it packs them, so no f32 copy of the
// operand is needed. The products multiply the same numbers; an engine that multiplies
// bfloat16 without widening may round their sums at other places.
func (rw *rewriter) halves(g *graph, _ *edit) {
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if !s.is(tensor.OpCast) || !s.In[0].DType.IsHalf() || s.Out.DType != tensor.F32 ||
			rw.plan.Buffers[s.Out.Buf].Place != Temp {
			continue
		}
		stored := s.In[0]
		if slices.ContainsFunc(g.readers[s.Out.Buf], func(u use) bool { return !rw.readsHalf(u, s.Out, stored) }) {
			continue
		}
		for _, u := range g.readers[s.Out.Buf] {
			p := &rw.plan.Steps[u.step]
			a, b, _ := flatProduct(p)
			flat := []Operand{a, b}
			flat[u.in], _ = unwidened(flat[u.in], s.Out, stored)
			p.Out.Shape = tensor.Shape{a.Shape[0], b.Shape[1]}
			p.Out.Strides = p.Out.Shape.Strides()
			p.In = flat
		}
	}
}

// readsHalf reports whether u is an operand of a product that can read stored instead of
// wide, its widened copy.
func (rw *rewriter) readsHalf(u use, wide, stored Operand) bool {
	s := &rw.plan.Steps[u.step]
	if !s.is(tensor.OpMatmul) || s.Out.DType != tensor.F32 {
		return false
	}
	a, b, ok := flatProduct(s)
	if ok {
		_, ok = unwidened([]Operand{a, b}[u.in], wide, stored)
	}
	return ok
}

// unwidened takes o, a view of wide, and returns the same view of stored, of which wide
// is a dense copy.
func unwidened(o, wide, stored Operand) (Operand, bool) {
	if stored.Dense {
		o.Buf, o.Off, o.DType = stored.Buf, stored.Off+o.Off, stored.DType
		return o, true
	}
	v, ok := reshaped(stored, o.Shape)
	if w, _ := reshaped(wide, o.Shape); !ok || !same(w, o) || v.Strides[0] < 0 || v.Strides[1] < 0 {
		return o, false
	}
	return v, true
}
