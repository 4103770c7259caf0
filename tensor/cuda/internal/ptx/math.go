package ptx

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

const (
	geluRoot  = 0.79788456080286535588 // √(2/π)
	geluCubic = 0.044715
)

// arith writes arithmetic and functions of f32 or of f64.
type arith struct {
	*writer
	class class // f32 or f64
}

// real returns what writes arithmetic of dtype d, F32 or F64.
func (w *writer) real(d tensor.DType) *arith { return &arith{w, forms[d].class} }

// num returns x as a constant.
func (w *arith) num(x float64) reg {
	if w.class == f64 {
		return double(x)
	}
	return single(x)
}

func (w *arith) do(name string, args ...reg) reg {
	return w.op(w.class, name+"."+types[w.class], args...)
}

func (w *arith) add(a, b reg) reg    { return w.do("add.rn", a, b) }
func (w *arith) sub(a, b reg) reg    { return w.do("sub.rn", a, b) }
func (w *arith) mul(a, b reg) reg    { return w.do("mul.rn", a, b) }
func (w *arith) div(a, b reg) reg    { return w.do("div.rn", a, b) }
func (w *arith) fma(a, b, c reg) reg { return w.do("fma.rn", a, b, c) }
func (w *arith) neg(x reg) reg       { return w.do("neg", x) }
func (w *arith) abs(x reg) reg       { return w.do("abs", x) }

// sel returns yes where p holds, else no.
func (w *arith) sel(yes, no, p reg) reg { return w.do("selp", yes, no, p) }

// is compares two numbers.
func (w *arith) is(comparison string, a, b reg) reg {
	return w.op(pred, "setp."+comparison+"."+types[w.class], a, b)
}

// copySign returns x, which has no sign, with that of y.
func (w *arith) copySign(x, y reg) reg {
	bits, sign := b32, reg("0x80000000")
	if w.class == f64 {
		bits, sign = b64, reg("0x8000000000000000")
	}
	mov, and, or := "mov."+types[bits], "and."+types[bits], "or."+types[bits]
	s := w.op(bits, and, w.op(bits, mov, y), sign)
	return w.op(w.class, mov, w.op(bits, or, w.op(bits, mov, x), s))
}

// poly returns a polynomial in x.
func (w *arith) poly(x reg, coefficients []float64) reg {
	p := w.do("mov", w.num(coefficients[0]))
	for _, c := range coefficients[1:] {
		p = w.fma(p, x, w.num(c))
	}
	return p
}

// exp returns eˣ, log the natural logarithm, tanh the hyperbolic tangent.
func (w *arith) exp(x reg) reg {
	if w.class == f64 {
		return arith64{w}.exp64(x, double(0))
	}
	return w.exp32(x)
}

func (w *arith) log(x reg) reg {
	if w.class == f64 {
		return arith64{w}.log64(x)
	}
	return w.log32(x)
}

func (w *arith) tanh(x reg) reg {
	if w.class == f64 {
		return arith64{w}.tanh64(x)
	}
	return w.tanh32(x)
}

// sine returns sin(x), and with quarter 1 the cosine.
func (w *arith) sine(x reg, quarter int) reg {
	if w.class == f64 {
		return arith64{w}.turn64(x, whole(quarter))
	}
	return w.turn32(w.op(f64, "cvt.f64.f32", x), whole(quarter))
}

// turn returns the sine of an f64, and with quarter 1 the cosine.
func (w *arith) turn(wide, quarter reg) reg {
	if w.class == f64 {
		return arith64{w}.turn64(wide, quarter)
	}
	return w.turn32(wide, quarter)
}

// quadrant returns the sine of an angle of so many quarters and a rest that has that sine
// and cosine.
func (w *arith) quadrant(sin, cos, quarters reg) reg {
	odd := w.op(pred, "setp.ne.u32", w.op(b32, "and.b32", quarters, "1"), "0")
	flip := w.op(pred, "setp.ne.u32", w.op(b32, "and.b32", quarters, "2"), "0")
	y := w.sel(cos, sin, odd)
	return w.sel(w.neg(y), y, flip)
}

// erfParts returns |z|, erf(z) for |z| < 1, and erfc(|z|) for the others.
func (w *arith) erfParts(z reg) (abs, near, rest reg) {
	if w.class == f64 {
		return arith64{w}.erfParts64(z)
	}
	return w.erfParts32(z)
}

// atMost and atLeast bound x and keep NaN.
func (w *arith) atMost(x reg, limit float64) reg {
	return w.sel(w.num(limit), x, w.is("gt", x, w.num(limit)))
}

func (w *arith) atLeast(x reg, limit float64) reg {
	return w.sel(w.num(limit), x, w.is("lt", x, w.num(limit)))
}

func (w *arith) sigmoid(x reg) reg { return w.div(w.num(1), w.add(w.exp(w.neg(x)), w.num(1))) }

// logistic returns the sigmoid s of x, and 1-s without the cancellation near s = 1.
func (w *arith) logistic(x reg) (s, rest reg) {
	e := w.exp(w.neg(x))
	s = w.div(w.num(1), w.add(e, w.num(1)))
	return s, w.sel(w.sub(w.num(1), s), w.mul(e, s), w.is("lt", x, w.num(0)))
}

func (w *arith) erf(x reg) reg {
	abs, near, rest := w.erfParts(x)
	return w.sel(near, w.copySign(w.sub(w.num(1), rest), x), w.is("lt", abs, w.num(1)))
}

// cdf returns Φ(x), the normal distribution, without loss of small values on the left.
func (w *arith) cdf(x reg) reg {
	half := w.num(0.5)
	abs, near, rest := w.erfParts(w.mul(x, w.num(math.Sqrt2/2)))
	left := w.mul(rest, half)
	far := w.sel(left, w.sub(w.num(1), left), w.is("lt", x, w.num(0)))
	return w.sel(w.fma(near, half, half), far, w.is("lt", abs, w.num(1)))
}

// pdf returns φ(x), the density of the normal distribution.
func (w *arith) pdf(x reg) reg {
	return w.mul(w.exp(w.mul(w.mul(x, x), w.num(-0.5))), w.num(1/math.Sqrt(2*math.Pi)))
}

// geluInner returns 2√(2/π)(x+0.044715x³), and the square of x, bounded.
func (w *arith) geluInner(x reg) (u, square reg) {
	square = w.atMost(w.mul(x, x), 1e30)
	return w.mul(w.fma(square, w.num(2*geluRoot*geluCubic), w.num(2*geluRoot)), x), square
}

// geluTanhGrad returns dy times the derivative of x·sigmoid(u(x)).
func (w *arith) geluTanhGrad(x, dy reg) reg {
	u, square := w.geluInner(x)
	s, rest := w.logistic(u)
	slope := w.fma(square, w.num(6*geluRoot*geluCubic), w.num(2*geluRoot))
	return w.mul(w.fma(w.mul(w.mul(x, s), rest), slope, s), dy)
}

// siluGrad returns dy·s·(1+x·(1-s)) with s the sigmoid of x.
func (w *arith) siluGrad(x, dy reg) reg {
	s, rest := w.logistic(x)
	return w.mul(w.mul(s, w.fma(x, rest, w.num(1))), dy)
}
