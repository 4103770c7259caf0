package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/compile"
)

// lower turns a plan's steps into functions. All choices that depend on dtypes, shapes and strides are made here, once.
func (d *Device) lower(p *compile.Plan) []lowered {
	out := make([]lowered, 0, len(p.Steps))
	for i := 0; i < len(p.Steps); i++ {
		s := &p.Steps[i]
		if f := d.adamw(p, i); f != nil {
			out = append(out, lowered{instr: s.Instr, f: f})
			i += 2
			continue
		}
		out = append(out, lowered{instr: s.Instr, f: d.step(s)})
	}
	return out
}

func (d *Device) step(s *compile.Step) func(r *run) error {
	if s.Out.Shape.Elems() == 0 && !s.Op.Info().Fallible {
		return nothing // however many rows of nothing there are
	}
	switch s.Op {
	case tensor.OpFull, tensor.OpArange:
		return leaf(s)
	case tensor.OpRand, tensor.OpRandN:
		return random(s)
	case tensor.OpDropout:
		return dropout(s)
	case tensor.OpCast:
		if s.In[0].DType == s.Out.DType {
			return plainCopy(s)
		}
	case tensor.OpMatmul:
		return d.matmul(s)
	case tensor.OpConcat:
		return concat(s)
	case tensor.OpPad:
		return pad(s)
	case tensor.OpTril, tensor.OpTriu:
		return triangle(s)
	case tensor.OpIndexSelect, tensor.OpGather, tensor.OpIndexAdd, tensor.OpScatterAdd, tensor.OpOneHot:
		return indexing(s)
	}
	switch s.Op.Info().Class {
	case tensor.ClassReduction:
		return d.reduction(s)
	case tensor.ClassElementwise:
		return d.elementwise(s)
	}
	if s.Out.DType == tensor.F64 {
		return rowwise[float64](s, generic)
	}
	switch s.Out.DType {
	case tensor.I32:
		return cumsum[int32](s)
	case tensor.I64:
		return cumsum[int64](s)
	case tensor.U8:
		return cumsum[uint8](s)
	}
	return rowwise[float32](s, d.rows())
}

func nothing(*run) error { return nil }

// buf is operand o's elements, from its first on.
func buf[T any](r *run, o *compile.Operand) []T {
	b := slice[T](r.bufs[o.Buf])
	return b[min(o.Off, len(b)):] // a view of no elements may point beyond
}
