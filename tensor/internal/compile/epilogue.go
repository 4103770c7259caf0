package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// epilogues joins a matrix product and the elementwise step that reads its result: a
// bias, an activation, a residual, or in the backward pass the gradient of an activation.
// An engine runs the elementwise operations on each block of the product while the block
// is in its cache. It writes the whole product only if another step reads it. No result
// changes.
//
// The product must be a single one: the leading dims of the left operand are rows of one
// matrix, and the right operand is the same for all of them. The joined step takes the
// place of the product, so all other operands of the elementwise step must exist there.
func (rw *rewriter) epilogues(g *graph, e *edit) {
	t := &tiler{rw: rw, g: g}
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if !s.is(tensor.OpMatmul) || s.Out.DType != tensor.F32 {
			continue
		}
		a, b, ok := flatProduct(s)
		if !ok {
			continue
		}
		for _, u := range t.g.readers[s.Out.Buf] {
			if e.touched(u.step) {
				continue
			}
			if f, ok := t.epilogue(k, u.step, a, b); ok {
				e.replace(k, f, u.step)
				for _, o := range f.Outs() {
					t.g.def[o.Buf] = k // earlier than before
				}
				break
			}
		}
	}
}

// flatProduct returns the operands of product s as two matrices. It returns false if s
// computes several products.
func flatProduct(s *Step) (a, b Operand, ok bool) {
	a, b = s.In[0], s.In[1]
	out := s.Out.Shape
	rows, inner, cols := out[:len(out)-1].Elems(), last(a.Shape), last(out)
	if rows == 0 || cols == 0 || inner == 0 {
		return a, b, false
	}
	lead := len(b.Shape) - 2
	for i, n := range b.Shape[:lead] {
		if n > 1 && b.Strides[i] != 0 {
			return a, b, false
		}
	}
	b.Shape, b.Strides = b.Shape[lead:], b.Strides[lead:]
	b.Dense = dense(b.Shape, b.Strides)
	a, ok = reshaped(spreadOver(a, append(slices.Clone(out[:len(out)-1]), inner)), tensor.Shape{rows, inner})
	return a, b, ok && a.Strides[0] >= 0 && a.Strides[1] >= 0
}

// epilogue returns product k, of a and b, joined with elementwise step at.
func (t *tiler) epilogue(k, at int, a, b Operand) (Step, bool) {
	x := t.rw.plan.Steps[k].Out
	s := t.rw.plan.Steps[at]
	if t.rw.era[s.Instr] != t.rw.era[t.rw.plan.Steps[k].Instr] || s.Out.Shape.Elems() != x.Shape.Elems() {
		return s, false
	}
	switch {
	case s.Fused == Tiles:
	case t.eligible(at):
		s = t.merge(&group{steps: []int{at}, at: at, shape: s.Out.Shape, in: t.tensors(&s)})
	default:
		return s, false
	}
	matrix := tensor.Shape{a.Shape[0], last(x.Shape)}
	f := Step{Instr: s.Instr, Op: tensor.OpMatmul, Fused: Epilogue, In: []Operand{a, b}}
	number := make([]int, len(s.In)) // of each operand in the new step
	for i, o := range s.In {
		switch {
		case o.Scalar >= 0:
		case o.Buf == x.Buf:
			if !t.rw.whole(o) {
				return f, false // read in another order than the product's
			}
			number[i] = -1
			continue
		default:
			var ok bool
			if o, ok = reshaped(o, matrix); !ok || t.g.def[o.Buf] >= k {
				return f, false
			}
		}
		number[i] = len(f.In)
		f.In = append(f.In, o)
	}
	f.Body = []Inst{{Instr: t.rw.plan.Steps[k].Instr, Op: tensor.OpMatmul, DType: tensor.F32, In: []int{0, 1}}}
	for _, in := range s.Body {
		in.In = slices.Clone(in.In)
		for j, i := range in.In {
			if i < 0 {
				in.In[j] = i - 1
			} else {
				in.In[j] = number[i]
			}
		}
		f.Body = append(f.Body, in)
	}
	outs := []Operand{}
	for _, o := range s.Outs() {
		o.Shape, o.Strides = matrix, matrix.Strides()
		outs = append(outs, *o)
	}
	home := -1
	if t.rw.only(t.g, x.Buf, at) {
		home = f.productOutput(outs)
	}
	if home < 0 {
		home = len(outs)
		x.Shape, x.Strides = matrix, matrix.Strides()
		outs = append(outs, x)
	}
	f.Body[0].Out = home
	f.Out, f.Also = outs[0], outs[1:]
	return f, true
}

// productOutput returns an output in whose memory the product can lie until that output
// overwrites it, or -1. The output must be of the same type, and must be computed no
// earlier than the last read of the product.
func (f *Step) productOutput(outs []Operand) int {
	lastRead := 0
	for i, in := range f.Body {
		if slices.Contains(in.In, -1) {
			lastRead = i
		}
	}
	for i, in := range f.Body[1:] {
		if in.Out >= 0 && i+1 >= lastRead && outs[in.Out].DType == tensor.F32 {
			return in.Out
		}
	}
	return -1
}
