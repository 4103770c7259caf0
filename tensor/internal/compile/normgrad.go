package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// normGrads joins the gradients of a norm by its operand and by its weight, which read
// the same rows, and the sum of dy that is the gradient by its bias. The gradient by the
// weight is summed in blocks of rows, so its last bits differ from those of the separate
// step.
func (rw *rewriter) normGrads(g *graph, e *edit) {
	for k := range rw.plan.Steps {
		x := &rw.plan.Steps[k]
		gradW := tensor.OpLayerNormGradW
		switch {
		case x.Fused != Single || x.Out.DType != tensor.F32 || x.Out.Shape.Elems() == 0 || e.touched(k):
			continue
		case x.Op == tensor.OpRMSNormGradX:
			gradW = tensor.OpRMSNormGradW
		case x.Op != tensor.OpLayerNormGradX:
			continue
		}
		w := rw.reader(g, e, x.In[0].Buf, func(s *Step) bool {
			return s.Op == gradW && rw.era[s.Instr] == rw.era[x.Instr] &&
				same(s.In[0], x.In[0]) && same(s.In[1], x.In[1]) && slices.Equal(s.Ints, x.Ints)
		})
		// The operands are x, dy, weight and eps.
		if w < 0 || len(x.In) != 4 || runs(x.In[0].Shape[:len(x.In[0].Shape)-int(x.Ints[0])]) > maxRuns {
			continue
		}
		at := min(k, w)
		if !g.available(x.In, at) {
			continue
		}
		f := *x
		f.Fused, f.In = NormGrad, append(slices.Clone(x.In), rw.plan.Steps[w].In[2])
		f.Also = []Operand{rw.plan.Steps[w].Out}
		gone := []int{k, w}
		dims := int(x.Ints[0])
		f.Ints = []int64{x.Ints[0], 0}
		if x.Op == tensor.OpLayerNormGradX {
			b := rw.reader(g, e, x.In[1].Buf, func(s *Step) bool {
				return s.Op == tensor.OpSum && rw.era[s.Instr] == rw.era[x.Instr] && sumsRows(s, x.In[1], dims)
			})
			if b >= 0 && g.available(x.In, min(at, b)) {
				at = min(at, b)
				f.Ints[1] = 1
				f.Also = append(f.Also, rw.plan.Steps[b].Out)
				gone = append(gone, b)
			}
		}
		e.replace(at, f, gone...)
	}
}

// maxRuns bounds the number of evenly spaced runs of rows of a norm, because an engine
// lists them.
const maxRuns = 4096

// runs returns the largest number of runs along the longest dim.
func runs(rows tensor.Shape) int {
	longest := 1
	for _, n := range rows {
		longest = max(longest, n)
	}
	return rows.Elems() / longest
}

// reader returns a step that reads buf and that ok accepts, or -1.
func (rw *rewriter) reader(g *graph, e *edit, buf int, ok func(*Step) bool) int {
	for _, u := range g.readers[buf] {
		if s := &rw.plan.Steps[u.step]; s.Fused == Single && !e.touched(u.step) && ok(s) {
			return u.step
		}
	}
	return -1
}

// sumsRows reports whether s sums dy over all but its last dims, or over a reshaped view
// of them.
func sumsRows(s *Step, dy Operand, dims int) bool {
	in := s.In[0]
	n := dy.Shape[len(dy.Shape)-dims:].Elems()
	if in.Off != dy.Off || !in.Dense || !dy.Dense || in.Shape.Elems() != dy.Shape.Elems() || s.Out.Shape.Elems() != n || len(s.Ints) < 2 {
		return false
	}
	folded := 1
	for i, d := range s.Ints[1:] {
		if int(d) != i {
			return false
		}
		folded *= in.Shape[d]
	}
	return folded*n == in.Shape.Elems()
}
