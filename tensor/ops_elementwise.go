package tensor

import (
	"fmt"
	"math"
)

// Elementwise operations broadcast their operands as NumPy does. Those that end in S take
// a number in place of the second operand.

func (t *Tensor) un(op Op) *Tensor             { return t.v.s.Apply(op, nil, T(t)) }
func (t *Tensor) bin(op Op, o *Tensor) *Tensor { return t.v.s.Apply(op, nil, T(t), T(o)) }
func (t *Tensor) binS(op Op, x float64) *Tensor {
	return t.v.s.Apply(op, nil, T(t), S(x))
}

// Neg returns -t.
func (t *Tensor) Neg() *Tensor { return t.un(OpNeg) }

// Abs returns |t|.
func (t *Tensor) Abs() *Tensor { return t.un(OpAbs) }

// Sign returns -1, 0 or 1.
func (t *Tensor) Sign() *Tensor { return t.un(OpSign) }

// Exp returns e to the t.
func (t *Tensor) Exp() *Tensor { return t.un(OpExp) }

// Log returns the natural logarithm.
func (t *Tensor) Log() *Tensor { return t.un(OpLog) }

// Sqrt returns the square root.
func (t *Tensor) Sqrt() *Tensor { return t.un(OpSqrt) }

// Rsqrt returns 1/sqrt(t).
func (t *Tensor) Rsqrt() *Tensor { return t.un(OpRsqrt) }

// Reciprocal returns 1/t.
func (t *Tensor) Reciprocal() *Tensor { return t.un(OpRecip) }

// Square returns t*t.
func (t *Tensor) Square() *Tensor { return t.un(OpSquare) }

// Sin returns the sine of t in radians.
func (t *Tensor) Sin() *Tensor { return t.un(OpSin) }

// Cos returns the cosine of t in radians.
func (t *Tensor) Cos() *Tensor { return t.un(OpCos) }

// Tanh returns the hyperbolic tangent.
func (t *Tensor) Tanh() *Tensor { return t.un(OpTanh) }

// Sigmoid returns 1/(1+e^-t).
func (t *Tensor) Sigmoid() *Tensor { return t.un(OpSigmoid) }

// ReLU returns max(t, 0).
func (t *Tensor) ReLU() *Tensor { return t.un(OpRelu) }

// GELU returns t*Phi(t) with the exact normal distribution function Phi (Hendrycks and
// Gimpel 2016).
func (t *Tensor) GELU() *Tensor { return t.un(OpGelu) }

// GELUTanh returns GELU's tanh approximation.
func (t *Tensor) GELUTanh() *Tensor { return t.un(OpGeluTanh) }

// SiLU returns t*sigmoid(t).
func (t *Tensor) SiLU() *Tensor { return t.un(OpSilu) }

// Erf returns the error function.
func (t *Tensor) Erf() *Tensor { return t.un(OpErf) }

// Floor returns the largest integer not above t; integers are as they are.
func (t *Tensor) Floor() *Tensor { return t.toWhole(OpFloor) }

// Ceil returns the smallest integer not below t; integers are as they are.
func (t *Tensor) Ceil() *Tensor { return t.toWhole(OpCeil) }

func (t *Tensor) toWhole(op Op) *Tensor {
	if d := t.v.dtype; kind(d) == 2 {
		return t.v.s.Apply(OpCast, []int64{int64(d)}, T(t)) // a handle of its own
	}
	return t.un(op)
}

// Not returns the logical not of a bool.
func (t *Tensor) Not() *Tensor { return t.un(OpNot) }

// Cast returns t in another dtype, converted as the op table says. A cast to t's own
// dtype returns t.
func (t *Tensor) Cast(d DType) *Tensor {
	if t.v.failed() != nil || d == t.v.dtype {
		return t
	}
	return t.v.s.Apply(OpCast, []int64{int64(d)}, T(t))
}

// Clamp returns min(max(t, lo), hi); infinities leave a side open. Of integers it is F32
// if a bound has a fraction. Of bools it is I64 or F32.
func (t *Tensor) Clamp(lo, hi float64) *Tensor {
	switch k := kind(t.v.dtype); {
	case (k == 1 || k == 2) && (lo != math.Trunc(lo) || hi != math.Trunc(hi)):
		t = t.Cast(F32)
	case k == 1:
		t = t.Cast(I64)
	}
	return t.v.s.Apply(OpClamp, nil, T(t), S(lo), S(hi))
}

// Add returns t+o; of bools t or o.
func (t *Tensor) Add(o *Tensor) *Tensor { return t.bin(OpAdd, o) }

// Sub returns t-o.
func (t *Tensor) Sub(o *Tensor) *Tensor { return t.bin(OpSub, o) }

// Mul returns t*o, element by element; of bools t and o.
func (t *Tensor) Mul(o *Tensor) *Tensor { return t.bin(OpMul, o) }

// Div returns t/o; integers are divided as floats.
func (t *Tensor) Div(o *Tensor) *Tensor { return t.bin(OpDiv, o) }

// Pow returns t to the o.
func (t *Tensor) Pow(o *Tensor) *Tensor { return t.bin(OpPow, o) }

// Maximum returns the larger of t and o.
func (t *Tensor) Maximum(o *Tensor) *Tensor { return t.bin(OpMax, o) }

// Minimum returns the smaller of t and o.
func (t *Tensor) Minimum(o *Tensor) *Tensor { return t.bin(OpMin, o) }

// Eq returns t == o as bool.
func (t *Tensor) Eq(o *Tensor) *Tensor { return t.bin(OpEq, o) }

// Ne returns t != o as bool.
func (t *Tensor) Ne(o *Tensor) *Tensor { return t.bin(OpNe, o) }

// Lt returns t < o as bool.
func (t *Tensor) Lt(o *Tensor) *Tensor { return t.bin(OpLt, o) }

// Le returns t <= o as bool.
func (t *Tensor) Le(o *Tensor) *Tensor { return t.bin(OpLe, o) }

// Gt returns t > o as bool.
func (t *Tensor) Gt(o *Tensor) *Tensor { return t.bin(OpGt, o) }

// Ge returns t >= o as bool.
func (t *Tensor) Ge(o *Tensor) *Tensor { return t.bin(OpGe, o) }

// And returns the logical and of bools.
func (t *Tensor) And(o *Tensor) *Tensor { return t.bin(OpAnd, o) }

// Or returns the logical or of bools.
func (t *Tensor) Or(o *Tensor) *Tensor { return t.bin(OpOr, o) }

// Xor returns true where bools differ.
func (t *Tensor) Xor(o *Tensor) *Tensor { return t.bin(OpXor, o) }

// AddS returns t+x.
func (t *Tensor) AddS(x float64) *Tensor { return t.binS(OpAdd, x) }

// SubS returns t-x.
func (t *Tensor) SubS(x float64) *Tensor { return t.binS(OpSub, x) }

// RSubS returns x-t.
func (t *Tensor) RSubS(x float64) *Tensor { return t.v.s.Apply(OpSub, nil, S(x), T(t)) }

// MulS returns t*x.
func (t *Tensor) MulS(x float64) *Tensor { return t.binS(OpMul, x) }

// DivS returns t/x.
func (t *Tensor) DivS(x float64) *Tensor { return t.binS(OpDiv, x) }

// RDivS returns x/t.
func (t *Tensor) RDivS(x float64) *Tensor { return t.v.s.Apply(OpDiv, nil, S(x), T(t)) }

// PowS returns t to the x.
func (t *Tensor) PowS(x float64) *Tensor { return t.binS(OpPow, x) }

// RPowS returns x to the t.
func (t *Tensor) RPowS(x float64) *Tensor { return t.v.s.Apply(OpPow, nil, S(x), T(t)) }

// MaximumS returns the larger of t and x.
func (t *Tensor) MaximumS(x float64) *Tensor { return t.binS(OpMax, x) }

// MinimumS returns the smaller of t and x.
func (t *Tensor) MinimumS(x float64) *Tensor { return t.binS(OpMin, x) }

// EqS returns t == x as bool.
func (t *Tensor) EqS(x float64) *Tensor { return t.binS(OpEq, x) }

// NeS returns t != x as bool.
func (t *Tensor) NeS(x float64) *Tensor { return t.binS(OpNe, x) }

// LtS returns t < x as bool.
func (t *Tensor) LtS(x float64) *Tensor { return t.binS(OpLt, x) }

// LeS returns t <= x as bool.
func (t *Tensor) LeS(x float64) *Tensor { return t.binS(OpLe, x) }

// GtS returns t > x as bool.
func (t *Tensor) GtS(x float64) *Tensor { return t.binS(OpGt, x) }

// GeS returns t >= x as bool.
func (t *Tensor) GeS(x float64) *Tensor { return t.binS(OpGe, x) }

// Where returns a where c is true and b elsewhere.
func Where(c, a, b *Tensor) *Tensor { return T(c).t.v.s.Apply(OpWhere, nil, T(c), T(a), T(b)) }

// WhereS returns a where c is true and the number b elsewhere.
func WhereS(c, a *Tensor, b float64) *Tensor {
	return T(c).t.v.s.Apply(OpWhere, nil, T(c), T(a), S(b))
}

// MaskedFill returns t with x where mask is true, in t's dtype: in a tensor of integers x
// is cut toward zero and must then be in their range, in one of bools it is x != 0.
func (t *Tensor) MaskedFill(mask *Tensor, x float64) *Tensor {
	switch kind(t.v.dtype) {
	case 1:
		if x != 0 {
			return t.Or(mask)
		}
		return t.And(mask.Not())
	case 2:
		if x = math.Trunc(x); !holds(t.v.dtype, x) {
			return t.wrongName("masked_fill", fmt.Errorf("%w: %g in a tensor of %v; expected a number in its range (Cast first)", ErrDType, x, t.v.dtype))
		}
	}
	return t.v.s.Apply(OpWhere, nil, T(mask), S(x), T(t))
}

// AddAssign computes t += o, the Assign of the sum.
func (t *Tensor) AddAssign(o *Tensor) error { return t.Assign(t.Add(o)) }

// SubAssign computes t -= o.
func (t *Tensor) SubAssign(o *Tensor) error { return t.Assign(t.Sub(o)) }

// MulAssign computes t *= o.
func (t *Tensor) MulAssign(o *Tensor) error { return t.Assign(t.Mul(o)) }

// ZeroAssign sets every element of t to 0.
func (t *Tensor) ZeroAssign() error {
	if t.v.failed() != nil {
		return t.v.failed()
	}
	return t.Assign(Full(t.v.s, t.v.dtype, 0, t.v.shape...))
}

// Inf is +infinity, for Clamp and Full.
var Inf = math.Inf(1)
