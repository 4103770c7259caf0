package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// tileFolds joins a reduction over the last dims, or over all, with the elementwise steps
// that compute its operand, if no other step reads their results. The operand is then
// never in memory. The part of a row in one tile is reduced at once, and the parts are
// added in double precision. A sum or mean over more than one tile therefore differs in
// its last bits from that of the reduction alone.
func (rw *rewriter) tileFolds(g *graph, e *edit) {
	t := &tiler{rw: rw, g: g, of: map[int]*group{}}
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if !foldsLast(s) || !rw.whole(s.In[0]) {
			continue
		}
		p := t.chain(s.In[0].Buf, k, e)
		if p == nil {
			continue
		}
		if f, ok := t.fold(p, s); ok {
			e.replace(k, f, p.steps...)
		}
	}
}

// foldsLast reports whether s reduces f32 over the last dims of its operand, or all, and
// more than one element into each result.
func foldsLast(s *Step) bool {
	if !s.is(tensor.OpSum) && !s.is(tensor.OpMean) && !s.is(tensor.OpAmax) && !s.is(tensor.OpAmin) {
		return false
	}
	x := s.In[0]
	if x.DType != tensor.F32 || s.Out.DType != tensor.F32 || s.Out.Shape.Elems() == 0 || x.Shape.Elems() <= s.Out.Shape.Elems() {
		return false
	}
	dims := slices.Sorted(slices.Values(s.Ints[1:]))
	for i, d := range dims {
		if int(d) != len(x.Shape)-len(dims)+i {
			return false
		}
	}
	return true
}

// chain returns the elementwise steps that compute buf for step k and whose results no
// step outside the chain reads, or nil.
func (t *tiler) chain(buf, k int, e *edit) *group {
	g := &group{at: k}
	mine := []int{k}
	take := func(buf int) bool {
		p := t.g.def[buf]
		if p < 0 || e.touched(p) || !t.eligible(p) || len(g.steps) == maxTileOps || !t.rw.only(t.g, buf, mine...) ||
			t.rw.era[t.rw.plan.Steps[p].Instr] != t.rw.era[t.rw.plan.Steps[k].Instr] {
			return false
		}
		s := &t.rw.plan.Steps[p]
		if g.shape == nil {
			g.shape = s.Out.Shape
		}
		in := slices.DeleteFunc(slices.Clone(g.in), func(o Operand) bool { return o.Buf == buf && t.rw.whole(o) })
		if slices.ContainsFunc(in, func(o Operand) bool { return o.Buf == buf }) {
			return false // also read in another order
		}
		for _, o := range s.In {
			if o.Scalar >= 0 {
				continue
			}
			v, ok := reshaped(spreadOver(o, s.Out.Shape), g.shape)
			if !ok {
				return false
			}
			in = appendNew(in, v)
		}
		if len(in) > MaxTileInputs {
			return false
		}
		g.in, g.steps, mine = in, append(g.steps, p), append(mine, p)
		return true
	}
	if !take(buf) || len(g.in) == 0 {
		return nil
	}
	for i := 0; i < len(g.in); i++ {
		if o := g.in[i]; t.rw.whole(o) && o.Shape.Elems() == g.shape.Elems() && take(o.Buf) {
			i = -1 // the list changed
		}
	}
	slices.Sort(g.steps)
	return g
}

// fold returns step s joined with the steps of p before it.
func (t *tiler) fold(p *group, s *Step) (Step, bool) {
	f := t.merge(p)
	f.Instr, f.Op, f.Fused, f.Out, f.Ints = s.Instr, s.Op, TilesFold, s.Out, s.Ints
	for i := range f.Body {
		f.Body[i].Out = -1
	}
	for i, o := range f.In {
		if o.Scalar >= 0 {
			continue
		}
		v, ok := reshaped(o, s.In[0].Shape)
		if !ok {
			return f, false
		}
		f.In[i] = v
	}
	return f, true
}
