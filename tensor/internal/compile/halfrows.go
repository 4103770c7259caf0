package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// halfRows lets reductions and operations on rows read 16-bit operands as stored, where
// no other step reads the widened copy, and operations on rows write results of 16 bits,
// where only a cast reads the wide ones. An engine widens and narrows a few rows at a
// time, so no f32 copy is needed. The sums of a view that is not contiguous are added up
// in the order of its memory, not in that of the copy.
func (rw *rewriter) halfRows(g *graph, e *edit) {
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if !s.is(tensor.OpCast) || !s.In[0].DType.IsHalf() || s.Out.DType != tensor.F32 ||
			rw.plan.Buffers[s.Out.Buf].Place != Temp {
			continue
		}
		readers := g.readers[s.Out.Buf]
		if slices.ContainsFunc(readers, func(u use) bool { _, ok := rw.stored(u, s); return !ok }) {
			continue
		}
		for _, u := range readers {
			p := &rw.plan.Steps[u.step]
			p.In[u.in], _ = rw.stored(u, s)
			p.Fused = HalfRows
		}
	}
	for k := range rw.plan.Steps {
		if c := rw.narrowed(g, k); c >= 0 {
			s, cast := rw.plan.Steps[k], &rw.plan.Steps[c]
			s.Fused, s.Out, s.Instr = HalfRows, cast.Out, cast.Instr
			e.replace(k, s, c)
		}
	}
}

// narrowed returns the cast to 16 bits that alone reads the result of step k, an
// operation on rows; -1 if there is none.
func (rw *rewriter) narrowed(g *graph, k int) int {
	s := &rw.plan.Steps[k]
	readers := g.readers[s.Out.Buf]
	if s.Fused != Single && s.Fused != HalfRows || !rowsOfHalves(s, 0) || s.Out.DType != tensor.F32 || len(s.Also) > 0 ||
		rw.plan.Buffers[s.Out.Buf].Place != Temp || len(readers) != 1 {
		return -1
	}
	cast := &rw.plan.Steps[readers[0].step]
	if !cast.is(tensor.OpCast) || !cast.Out.DType.IsHalf() || !same(cast.In[0], s.Out) || rw.era[cast.Instr] != rw.era[s.Instr] {
		return -1
	}
	return readers[0].step
}

// stored returns what operand u, which reads the result of cast, can read instead of it:
// the same elements, as they were before.
func (rw *rewriter) stored(u use, cast *Step) (Operand, bool) {
	s := &rw.plan.Steps[u.step]
	o, from := s.In[u.in], cast.In[0]
	if s.Fused != Single && s.Fused != HalfRows || !foldsHalves(s.Op) && !rowsOfHalves(s, u.in) || s.Out.DType != tensor.F32 {
		return o, false
	}
	switch {
	case from.Dense:
		o.Buf, o.Off, o.DType = from.Buf, from.Off+o.Off, from.DType
	case same(o, cast.Out):
		o = from
	default:
		return o, false
	}
	return o, readable(s.Op, u.in, o, s.Ints)
}

// foldsHalves reports whether a reduction of f32 can read operands of 16 bits.
func foldsHalves(op tensor.Op) bool {
	switch op {
	case tensor.OpSum, tensor.OpMean, tensor.OpAmax, tensor.OpAmin:
		return true
	}
	return false
}

// leastHalfColumns is the least columns beside each other of a step of 16 bits that goes
// down columns.
const leastHalfColumns = 16

// rowsOfHalves reports whether s is an operation on rows that can read operand i as 16
// bits, and write its result as such.
func rowsOfHalves(s *Step, i int) bool {
	if s.Out.Shape.Elems() == 0 {
		return false
	}
	switch s.Op {
	case tensor.OpSoftmax, tensor.OpLogSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad:
		d := int(s.Ints[0]) + 1
		return d == len(s.Out.Shape) || s.Out.Shape[d:].Elems() >= leastHalfColumns
	case tensor.OpLayerNorm, tensor.OpRMSNorm:
		return i == 0
	case tensor.OpLayerNormGradX, tensor.OpRMSNormGradX:
		return i <= 1
	}
	return false
}
