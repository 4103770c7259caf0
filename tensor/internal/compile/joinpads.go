package compile

import (
	"cmp"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// maxPads bounds the number of sums that padsOf visits from one sum.
const maxPads = 64

// joinPads replaces a sum of pads that are adjacent and together fill the result by one
// step. Such sums are the gradients of slices that divide a tensor. If the value of the
// pads is 0, which is only known when the plan runs, the step is a concatenation; -0 then
// stays -0.
func (rw *rewriter) joinPads(g *graph, e *edit) {
	for k := len(rw.plan.Steps) - 1; k >= 0; k-- {
		s := &rw.plan.Steps[k]
		if s.Op != tensor.OpAdd || s.Out.DType != tensor.F32 || e.touched(k) {
			continue
		}
		var pads, gone []int
		if !rw.padsOf(g, e, k, &pads, &gone) {
			continue
		}
		if f, ok := rw.joined(s, pads); ok {
			e.replace(k, f, append(gone, pads...)...)
		}
	}
}

// padsOf collects the pads that sum k adds and the sums within it. It returns false if
// another operation takes part.
func (rw *rewriter) padsOf(g *graph, e *edit, k int, pads, gone *[]int) bool {
	s := &rw.plan.Steps[k]
	*gone = append(*gone, k)
	for _, o := range s.In {
		if o.Scalar >= 0 || !rw.whole(o) || !o.Shape.Equal(s.Out.Shape) {
			return false
		}
		d := g.def[o.Buf]
		if d < 0 || len(*gone) > maxPads || e.touched(d) || !rw.only(g, o.Buf, k) || len(g.readers[o.Buf]) != 1 {
			return false
		}
		if rw.era[rw.plan.Steps[d].Instr] != rw.era[s.Instr] {
			return false
		}
		switch rw.plan.Steps[d].Op {
		case tensor.OpPad:
			*pads = append(*pads, d)
		case tensor.OpAdd:
			if !rw.padsOf(g, e, d, pads, gone) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// joined returns the JoinPads step that replaces sum s of pads.
func (rw *rewriter) joined(s *Step, pads []int) (Step, bool) {
	dim := -1
	before := func(k int) int { return int(rw.plan.Steps[k].Ints[2*dim]) }
	for _, k := range pads {
		for i := range s.Out.Shape {
			if ints := rw.plan.Steps[k].Ints; ints[2*i] != 0 || ints[2*i+1] != 0 {
				if dim >= 0 && dim != i {
					return Step{}, false
				}
				dim = i
			}
		}
	}
	if dim < 0 {
		return Step{}, false
	}
	slices.SortStableFunc(pads, func(a, b int) int { return cmp.Compare(before(a), before(b)) })
	f := Step{Instr: s.Instr, Op: s.Op, Fused: JoinPads, Out: s.Out, Ints: []int64{int64(dim)}}
	at := 0
	for _, k := range pads {
		if before(k) != at {
			return Step{}, false
		}
		x := rw.plan.Steps[k].In[0]
		f.In = append(f.In, x)
		at += x.Shape[dim]
	}
	for _, k := range pads {
		f.In = append(f.In, rw.plan.Steps[k].In[1])
	}
	return f, at == s.Out.Shape[dim]
}

// region returns the part of the output where piece i of a JoinPads step goes.
func (s *Step) region(i int) Operand {
	dim := int(s.Ints[0])
	o := s.Out
	for _, x := range s.In[:i] {
		o.Off += x.Shape[dim] * o.Strides[dim]
	}
	o.Shape = s.In[i].Shape
	o.Dense = dense(o.Shape, o.Strides)
	return o
}
