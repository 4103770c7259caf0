package ptx

import (
	"fmt"
	"math"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// form is how a dtype lies in registers: bools and u8 are words from 0 to 255, f16 and
// bf16 are bits that only conversions look into.
type form struct {
	class  class
	suffix string // of instructions that compute
	memory string // of loads and stores
}

var forms = map[tensor.DType]form{
	tensor.F32: {f32, "f32", "f32"}, tensor.F64: {f64, "f64", "f64"},
	tensor.I32: {b32, "s32", "b32"}, tensor.I64: {b64, "s64", "b64"},
	tensor.U8: {b32, "u32", "u8"}, tensor.Bool: {b32, "u32", "u8"},
	tensor.F16: {b16, "", "b16"}, tensor.BF16: {b16, "", "b16"},
}

// code writes the operations of the op table.
type code struct{ writer }

// constant returns x as a constant of dtype d.
func constant(d tensor.DType, x float64) reg {
	switch d {
	case tensor.F32:
		return single(x)
	case tensor.F64:
		return double(x)
	}
	return whole(int(x))
}

// truth returns 1 where p holds, else 0.
func (w *code) truth(p reg) reg { return w.op(b32, "selp.u32", "1", "0", p) }

// choose returns yes where p holds, else no, both of dtype d.
func (w *code) choose(d tensor.DType, yes, no, p reg) reg {
	f := forms[d]
	return w.op(f.class, "selp."+types[f.class], yes, no, p)
}

// comparisons are the conditions of setp. Only ne holds for NaN.
var comparisons = map[tensor.Op]string{
	tensor.OpEq: "eq", tensor.OpNe: "ne", tensor.OpLt: "lt", tensor.OpLe: "le", tensor.OpGt: "gt", tensor.OpGe: "ge",
}

// compare returns a predicate.
func (w *code) compare(d tensor.DType, comparison string, a, b reg) reg {
	if comparison == "ne" && d.IsFloat() {
		comparison = "neu"
	}
	return w.op(pred, "setp."+comparison+"."+forms[d].suffix, a, b)
}

// operation adds op on operands of dtype d, with the constants that ownOf lists, and
// returns its result. It returns "" if there is no code for that.
func (w *code) operation(op tensor.Op, d, out tensor.DType, in, own []reg) reg {
	if c, ok := comparisons[op]; ok && !d.IsStorage() {
		return w.truth(w.compare(d, c, in[0], in[1]))
	}
	switch op {
	case tensor.OpCast:
		return w.cast(d, out, in[0])
	case tensor.OpFull:
		return own[0]
	case tensor.OpWhere:
		return w.choose(out, in[1], in[2], w.op(pred, "setp.ne.u32", in[0], "0"))
	}
	switch d {
	case tensor.F32, tensor.F64:
		if op == tensor.OpPow {
			return w.power(d, in[0], in[1])
		}
		if r := w.float(op, d, in, own); r != "" {
			return r
		}
		return w.real(d).function(op, in)
	case tensor.I32, tensor.I64, tensor.U8:
		return w.integer(op, d, in, own)
	case tensor.Bool:
		return w.logic(op, in)
	}
	return ""
}

// logic adds an operation on bools.
func (w *code) logic(op tensor.Op, in []reg) reg {
	switch op {
	case tensor.OpNot:
		return w.op(b32, "xor.b32", in[0], "1")
	case tensor.OpAnd:
		return w.op(b32, "and.b32", in...)
	case tensor.OpOr:
		return w.op(b32, "or.b32", in...)
	case tensor.OpXor:
		return w.op(b32, "xor.b32", in...)
	}
	return ""
}

// integer adds an operation on integers, which wrap.
func (w *code) integer(op tensor.Op, d tensor.DType, in, own []reg) reg {
	f := forms[d]
	do := func(name string, args ...reg) reg {
		r := w.op(f.class, name+"."+f.suffix, args...)
		if d == tensor.U8 {
			r = w.op(b32, "and.b32", r, "255")
		}
		return r
	}
	switch op {
	case tensor.OpPow:
		return w.wholePower(d, in[0], in[1])
	case tensor.OpNeg:
		return do("sub", "0", in[0])
	case tensor.OpAbs:
		if d == tensor.U8 {
			return in[0]
		}
		return w.choose(d, do("sub", "0", in[0]), in[0], w.compare(d, "lt", in[0], "0"))
	case tensor.OpSign:
		positive := w.choose(d, "1", "0", w.compare(d, "gt", in[0], "0"))
		if d == tensor.U8 {
			return positive
		}
		return w.choose(d, "-1", positive, w.compare(d, "lt", in[0], "0"))
	case tensor.OpSquare:
		return do("mul.lo", in[0], in[0])
	case tensor.OpRelu:
		return do("max", in[0], "0")
	case tensor.OpAdd:
		return do("add", in...)
	case tensor.OpSub:
		return do("sub", in...)
	case tensor.OpMul:
		return do("mul.lo", in...)
	case tensor.OpMax:
		return do("max", in...)
	case tensor.OpMin:
		return do("min", in...)
	case tensor.OpClamp:
		return do("min", do("max", in[0], own[0]), own[1])
	}
	return ""
}

// wholePower adds x to the power of y in integers, which wrap: a product for each bit of
// y, in a loop. A negative power is 0 but of 1 and -1, whose power is that of the lowest
// bit of y.
func (w *code) wholePower(d tensor.DType, x, y reg) reg {
	f := forms[d]
	bits := types[f.class]
	negative := w.compare(d, "lt", y, "0")
	left := w.choose(d, w.op(f.class, "and."+bits, y, "1"), y, negative)
	r, power := w.op(f.class, "mov."+bits, "1"), w.op(f.class, "mov."+bits, x)
	w.labels++
	begin, end := fmt.Sprintf("power%d", w.labels), fmt.Sprintf("powered%d", w.labels)
	w.label(begin)
	w.line("@%s bra %s", w.op(pred, "setp.eq."+f.suffix, left, "0"), end)
	odd := w.op(pred, "setp.ne."+f.suffix, w.op(f.class, "and."+bits, left, "1"), "0")
	w.line("selp.%s %s, %s, %s, %s", bits, r, w.op(f.class, "mul.lo."+f.suffix, r, power), r, odd)
	w.line("mul.lo.%s %s, %s, %s", f.suffix, power, power, power)
	w.line("shr.%s %s, %s, 1", strings.Replace(bits, "b", "u", 1), left, left)
	w.line("bra %s", begin)
	w.label(end)
	if d == tensor.U8 {
		return w.op(b32, "and.b32", r, "255")
	}
	unit := w.choose(d, "1", w.choose(d, "1", "0", w.compare(d, "eq", x, "-1")), w.compare(d, "eq", x, "1"))
	unit = w.choose(d, unit, "1", negative)
	return w.op(f.class, "mul.lo."+f.suffix, r, unit)
}

// float adds an operation on f32 or f64 that IEEE 754 defines, or that consists of such.
func (w *code) float(op tensor.Op, d tensor.DType, in, own []reg) reg {
	f := forms[d]
	do := func(name string, args ...reg) reg { return w.op(f.class, name+"."+f.suffix, args...) }
	c := func(x float64) reg { return constant(d, x) }
	x := in[0]
	switch op {
	case tensor.OpNeg:
		return do("neg", x)
	case tensor.OpAbs:
		return do("abs", x)
	case tensor.OpSign:
		y := w.choose(d, c(-1), x, w.compare(d, "lt", x, c(0)))
		return w.choose(d, c(1), y, w.compare(d, "gt", x, c(0)))
	case tensor.OpSquare:
		return do("mul.rn", x, x)
	case tensor.OpSqrt:
		return do("sqrt.rn", x)
	case tensor.OpRsqrt:
		return do("rcp.rn", do("sqrt.rn", x))
	case tensor.OpRecip:
		return do("rcp.rn", x)
	case tensor.OpFloor:
		return do("cvt.rmi."+f.suffix, x)
	case tensor.OpCeil:
		return do("cvt.rpi."+f.suffix, x)
	case tensor.OpRelu:
		return w.choose(d, c(0), x, w.compare(d, "lt", x, c(0)))
	case tensor.OpClamp:
		y := w.choose(d, own[0], x, w.compare(d, "lt", x, own[0]))
		return w.choose(d, own[1], y, w.compare(d, "gt", y, own[1]))
	case tensor.OpAdd:
		return do("add.rn", in...)
	case tensor.OpSub:
		return do("sub.rn", in...)
	case tensor.OpMul:
		return do("mul.rn", in...)
	case tensor.OpDiv:
		return do("div.rn", in...)
	case tensor.OpMax, tensor.OpMin:
		comparison := "gt"
		if op == tensor.OpMin {
			comparison = "lt"
		}
		y := w.choose(d, x, in[1], w.compare(d, comparison, x, in[1]))
		return w.choose(d, x, y, w.compare(d, "nan", x, x))
	case tensor.OpSigmoidGrad:
		return do("mul.rn", do("mul.rn", in[1], x), do("sub.rn", c(1), x))
	case tensor.OpTanhGrad:
		return do("mul.rn", in[1], do("sub.rn", c(1), do("mul.rn", x, x)))
	case tensor.OpReluGrad:
		return w.choose(d, in[1], c(0), w.compare(d, "gtu", x, c(0)))
	case tensor.OpAdamM:
		return do("fma.rn", own[1], in[1], do("mul.rn", own[0], x))
	case tensor.OpAdamV:
		return do("fma.rn", own[1], do("mul.rn", in[1], in[1]), do("mul.rn", own[0], x))
	case tensor.OpAdamW:
		root := do("fma.rn", do("sqrt.rn", in[2]), own[2], own[3])
		return do("fma.rn", own[1], do("div.rn", in[1], root), do("mul.rn", own[0], x))
	case tensor.OpSGD:
		return do("fma.rn", own[0], in[1], do("mul.rn", x, own[1]))
	case tensor.OpSGDM:
		y := do("fma.rn", own[1], in[1], do("mul.rn", x, own[0]))
		return do("fma.rn", own[2], in[2], y)
	}
	return ""
}

// power adds x to the power of y in f32 or f64, which is computed in f64.
func (w *code) power(d tensor.DType, x, y reg) reg {
	r := arith64{w.real(tensor.F64)}.power(w.cast(d, tensor.F64, x), w.cast(d, tensor.F64, y))
	return w.cast(tensor.F64, d, r)
}

// function adds a function that is a polynomial, or consists of such.
func (w *arith) function(op tensor.Op, in []reg) reg {
	x := in[0]
	switch op {
	case tensor.OpExp:
		return w.exp(x)
	case tensor.OpLog:
		return w.log(x)
	case tensor.OpSin:
		return w.sine(x, 0)
	case tensor.OpCos:
		return w.sine(x, 1)
	case tensor.OpTanh:
		return w.tanh(x)
	case tensor.OpErf:
		return w.erf(x)
	case tensor.OpSigmoid:
		return w.sigmoid(x)
	case tensor.OpSilu:
		return w.mul(x, w.sigmoid(x))
	case tensor.OpGelu:
		return w.mul(x, w.cdf(x))
	case tensor.OpGeluTanh:
		u, _ := w.geluInner(x)
		return w.mul(x, w.sigmoid(u))
	case tensor.OpSiluGrad:
		return w.siluGrad(x, in[1])
	case tensor.OpGeluGrad:
		return w.mul(w.fma(w.pdf(x), x, w.cdf(x)), in[1])
	case tensor.OpGeluTanhGrad:
		return w.geluTanhGrad(x, in[1])
	}
	return ""
}

// ownOf returns the constants of an operation, made of its own scalars in double
// precision.
func ownOf(op tensor.Op) []func(s []float64) float64 {
	at := func(i int) func([]float64) float64 { return func(s []float64) float64 { return s[i] } }
	rest := func(i int) func([]float64) float64 { return func(s []float64) float64 { return 1 - s[i] } }
	switch op {
	case tensor.OpFull:
		return []func([]float64) float64{at(0)}
	case tensor.OpClamp:
		return []func([]float64) float64{at(0), at(1)}
	case tensor.OpAdamM, tensor.OpAdamV:
		return []func([]float64) float64{at(0), rest(0)}
	case tensor.OpAdamW: // lr, wd, eps, c1, c2
		return []func([]float64) float64{
			func(s []float64) float64 { return 1 - s[0]*s[1] },
			func(s []float64) float64 { return -s[0] / s[3] },
			func(s []float64) float64 { return 1 / math.Sqrt(s[4]) },
			at(2),
		}
	case tensor.OpSGD: // lr, wd
		return []func([]float64) float64{
			func(s []float64) float64 { return -s[0] },
			func(s []float64) float64 { return 1 - s[0]*s[1] },
		}
	case tensor.OpSGDM: // mu, damp, wd
		return []func([]float64) float64{at(0), rest(1), func(s []float64) float64 { return (1 - s[1]) * s[2] }}
	}
	return nil
}
