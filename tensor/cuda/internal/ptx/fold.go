package ptx

import (
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// MaxFold is the most operands that Fold takes.
const MaxFold = maxParams - 2

// Fold returns the kernel that makes each element of dst of those of srcs, folded by op
// in their order: the bits of collective.Fold, but for those of a NaN. f16 and bf16 are
// folded in f32 and rounded once. The result is multiplied by scale before it is rounded.
// All operands are dense, of one shape and dtype. It returns nil if op has no code for
// their dtype, or an operand is out of reach.
func Fold(op element.Reduction, scale float64, dst compile.Operand, srcs ...compile.Operand) *Kernel {
	t := newTiler(&compile.Step{Out: dst, In: srcs})
	if t == nil {
		return nil
	}
	d, wide := dst.DType, dst.DType.Wide()
	if scale != 1 && !wide.IsFloat() {
		return nil
	}
	at := t.begin()
	out := make([]reg, t.k.Vector)
	for j := range out {
		r := t.cast(d, wide, t.values[0][j])
		for _, v := range t.values[1:] {
			if r = t.fold(op, wide, r, t.cast(d, wide, v[j])); r == "" {
				return nil
			}
		}
		if scale != 1 {
			r = t.op(forms[wide].class, "mul.rn."+forms[wide].suffix, r, constant(wide, scale))
		}
		out[j] = t.cast(wide, d, r)
	}
	t.store(t.stores[0], t.pointer[at], t.first, out)
	return t.finish()
}

// fold adds one step of a fold, on operands of dtype d.
func (w *code) fold(op element.Reduction, d tensor.DType, x, y reg) reg {
	switch op {
	case element.Sum:
		return w.operation(tensor.OpAdd, d, d, []reg{x, y}, nil)
	case element.Prod:
		return w.operation(tensor.OpMul, d, d, []reg{x, y}, nil)
	case element.Max, element.Min:
		return w.extreme(op, d, x, y)
	}
	return ""
}

// extreme returns the larger or the smaller of two elements. Of floats it is NaN if one
// is, and -0 is less than +0, which the operations of the op table don't promise.
func (w *code) extreme(op element.Reduction, d tensor.DType, x, y reg) reg {
	name, of := "max", tensor.OpMax
	if op == element.Min {
		name, of = "min", tensor.OpMin
	}
	switch d {
	case tensor.F32:
		return w.op(f32, name+".NaN.f32", x, y)
	case tensor.F64: // has no .NaN
		r := w.op(f64, name+".f64", x, y)
		r = w.choose(d, y, r, w.compare(d, "nan", y, y))
		return w.choose(d, x, r, w.compare(d, "nan", x, x))
	}
	return w.operation(of, d, d, []reg{x, y}, nil)
}
