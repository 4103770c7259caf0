package compile

import "slices"

// sink lets attention write its results directly to the place where a step would copy or
// join them.
func (rw *rewriter) sink(*graph, *edit) {
	for k := 0; k < len(rw.plan.Steps); k++ {
		s := &rw.plan.Steps[k]
		if s.Fused != Attention && s.Fused != AttentionGrad {
			continue
		}
		for _, o := range s.Outs() {
			for rw.sinkOne(o) {
			}
		}
	}
}

// sinkOne moves output o to the place where its only reader would put it.
func (rw *rewriter) sinkOne(o *Operand) bool {
	g := rw.graph()
	r := g.readers[o.Buf]
	if len(r) != 1 || rw.plan.Buffers[o.Buf].Place != Temp {
		return false
	}
	k, in := r[0].step, r[0].in
	s := &rw.plan.Steps[k]
	var to Operand
	switch {
	case isCopy(s):
		to = s.Out
	case s.Fused == JoinPads && s.Out.Buf != o.Buf:
		to = s.region(in)
	default:
		return false
	}
	moved, ok := rw.through(*o, s.In[in], to)
	if !ok {
		return false
	}
	*o = moved
	if isCopy(s) {
		e := newEdit()
		e.gone[k] = true
		rw.apply(e)
	} else {
		s.In[in] = to
	}
	return true
}

// through returns the strides of o seen through view, when view lies at to. Both o and
// view must cover the whole buffer, each in an order of its own.
func (rw *rewriter) through(o, view, to Operand) (Operand, bool) {
	n := o.Shape.Elems()
	if view.Shape.Elems() != n || view.Off != 0 || n*o.DType.Size() != rw.plan.Buffers[o.Buf].Size {
		return o, false
	}
	type part struct{ dim, by int } // dims of o within one dim of view
	parts := make([][]part, len(view.Shape))
	for i, size := range o.Shape {
		if size == 1 {
			continue
		}
		best := -1
		for j, vs := range view.Shape {
			st := view.Strides[j]
			if vs > 1 && st > 0 && o.Strides[i]%st == 0 && o.Strides[i]/st < vs &&
				(best < 0 || st > view.Strides[best]) {
				best = j
			}
		}
		if best < 0 {
			return o, false
		}
		parts[best] = append(parts[best], part{i, o.Strides[i] / view.Strides[best]})
	}
	st := make([]int, len(o.Shape))
	for j, ps := range parts {
		slices.SortFunc(ps, func(a, b part) int { return a.by - b.by })
		next := 1
		for _, p := range ps {
			if p.by != next {
				return o, false
			}
			next *= o.Shape[p.dim]
			st[p.dim] = p.by * to.Strides[j]
		}
		if next != view.Shape[j] {
			return o, false
		}
	}
	if l := len(st) - 1; o.Shape[l] > 1 && st[l] != 1 {
		return o, false // rows must stay contiguous
	}
	o.Buf, o.Off, o.Strides = to.Buf, to.Off, st
	o.Dense = dense(o.Shape, st)
	return o, true
}
