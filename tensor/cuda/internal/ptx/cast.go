package ptx

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// cast converts x as the op table says: a float is cut toward zero and clamped, NaN is 0;
// integers wrap; halves go by way of f32.
func (w *code) cast(from, to tensor.DType, x reg) reg {
	switch {
	case from == to || from == tensor.Bool && to == tensor.U8:
		return x
	case from == tensor.F16:
		return w.cast(tensor.F32, to, w.op(f32, "cvt.f32.f16", x))
	case from == tensor.BF16:
		word := w.op(b32, "shl.b32", w.op(b32, "cvt.u32.u16", x), "16")
		return w.cast(tensor.F32, to, w.op(f32, "mov.b32", word))
	case to == tensor.F16:
		return w.op(b16, "cvt.rn.f16.f32", w.cast(from, tensor.F32, x))
	case to == tensor.BF16:
		return w.op(b16, "cvt.rn.bf16.f32", w.cast(from, tensor.F32, x))
	case to == tensor.Bool:
		return w.truth(w.compare(from, "ne", x, constant(from, 0)))
	case from.IsFloat() && to.IsFloat():
		if to == tensor.F64 {
			return w.op(f64, "cvt.f64.f32", x)
		}
		return w.op(f32, "cvt.rn.f32.f64", x)
	case from.IsFloat():
		return w.cut(from, to, x)
	case to.IsFloat():
		f := forms[to]
		return w.op(f.class, "cvt.rn."+f.suffix+"."+forms[from].suffix, x)
	}
	return w.wrap(from, to, x)
}

// cut converts a float to an integer.
func (w *code) cut(from, to tensor.DType, x reg) reg {
	wide, d := to, from
	if to == tensor.U8 {
		wide = tensor.I32
	}
	f := forms[wide]
	y := w.op(f.class, "cvt.rzi."+f.suffix+"."+forms[d].suffix, x)
	y = w.choose(wide, "0", y, w.compare(d, "nan", x, x))
	if to == tensor.U8 {
		y = w.op(b32, "max.s32", w.op(b32, "min.s32", y, "255"), "0")
	}
	return y
}

// wrap converts between integers, of which bools are some.
func (w *code) wrap(from, to tensor.DType, x reg) reg {
	switch {
	case to == tensor.I64:
		return w.op(b64, "cvt.s64."+forms[from].suffix, x)
	case from == tensor.I64:
		x = w.op(b32, "cvt.u32.u64", x)
	}
	if to == tensor.U8 {
		return w.op(b32, "and.b32", x, "255")
	}
	return x
}

// Bits returns a scalar as a kernel's parameter of dtype d.
func Bits(d tensor.DType, x float64) uint64 {
	switch d {
	case tensor.F32:
		return uint64(math.Float32bits(float32(x)))
	case tensor.F64:
		return math.Float64bits(x)
	case tensor.Bool:
		if x != 0 {
			return 1
		}
		return 0
	}
	n := int64(0)
	switch {
	case x >= math.MaxInt64:
		n = math.MaxInt64
	case x <= math.MinInt64:
		n = math.MinInt64
	case x == x:
		n = int64(x)
	}
	switch d {
	case tensor.I32:
		return uint64(uint32(min(max(n, math.MinInt32), math.MaxInt32)))
	case tensor.U8:
		return uint64(min(max(n, 0), math.MaxUint8))
	}
	return uint64(n)
}
