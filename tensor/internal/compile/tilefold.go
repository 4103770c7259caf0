package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// tileFolds joins a reduction over the last dims, or all, with the elementwise steps that make its operand, where nobody
// else reads what they make: it is never in memory. What a tile holds of a row is folded at once and joined in double
// precision, so a sum or mean over more than a tile differs in its last bits from the reduction alone.
func (c *compiler) tileFolds() {
	t := &tiler{c: c, g: c.graph(), of: map[int]*group{}}
	e := newEdit()
	for k := range c.plan.Steps {
		s := &c.plan.Steps[k]
		if !foldsLast(s) || !c.whole(s.In[0]) {
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
	c.apply(e)
}

// foldsLast reports whether s folds f32 over its operand's last dims or all of them, more than one element into each.
func foldsLast(s *Step) bool {
	if s.Fused != Single || s.Op != tensor.OpSum && s.Op != tensor.OpMean && s.Op != tensor.OpAmax && s.Op != tensor.OpAmin {
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

// chain is the elementwise steps that make buf for step k and for nobody else, each of which is read only by others of
// them; nil if there are none.
func (t *tiler) chain(buf, k int, e *edit) *group {
	g := &group{at: k}
	mine := []int{k}
	take := func(buf int) bool {
		p := t.g.def[buf]
		if p < 0 || e.touched(p) || !t.eligible(p) || len(g.steps) == maxTileOps || !t.c.only(t.g, buf, mine...) ||
			t.c.era[t.c.plan.Steps[p].Instr] != t.c.era[t.c.plan.Steps[k].Instr] {
			return false
		}
		s := &t.c.plan.Steps[p]
		if g.shape == nil {
			g.shape = s.Out.Shape
		}
		in := slices.DeleteFunc(slices.Clone(g.in), func(o Operand) bool { return o.Buf == buf && t.c.whole(o) })
		if slices.ContainsFunc(in, func(o Operand) bool { return o.Buf == buf }) {
			return false // also in another order than it is made in
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
		if o := g.in[i]; t.c.whole(o) && o.Shape.Elems() == g.shape.Elems() && take(o.Buf) {
			i = -1 // the list is another
		}
	}
	slices.Sort(g.steps)
	return g
}

// fold is step s with the work of p before it.
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
