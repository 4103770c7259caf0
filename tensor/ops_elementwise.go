package tensor

import "math"

// Elementwise operations broadcast as NumPy's do. Those ending in S take a number in the place of the second operand.

func (t *Tensor) un(op Op) *Tensor             { return t.v.s.Apply(op, nil, T(t)) }
func (t *Tensor) bin(op Op, o *Tensor) *Tensor { return t.v.s.Apply(op, nil, T(t), T(o)) }
func (t *Tensor) binS(op Op, x float64) *Tensor {
	return t.v.s.Apply(op, nil, T(t), S(x))
}

// Neg is -t.
func (t *Tensor) Neg() *Tensor { return t.un(OpNeg) }

// Abs is |t|.
func (t *Tensor) Abs() *Tensor { return t.un(OpAbs) }

// Sign is -1, 0 or 1.
func (t *Tensor) Sign() *Tensor { return t.un(OpSign) }

// Exp is e to the t.
func (t *Tensor) Exp() *Tensor { return t.un(OpExp) }

// Log is the natural logarithm.
func (t *Tensor) Log() *Tensor { return t.un(OpLog) }

// Sqrt is the square root.
func (t *Tensor) Sqrt() *Tensor { return t.un(OpSqrt) }

// Rsqrt is 1/sqrt(t).
func (t *Tensor) Rsqrt() *Tensor { return t.un(OpRsqrt) }

// Reciprocal is 1/t.
func (t *Tensor) Reciprocal() *Tensor { return t.un(OpRecip) }

// Square is t*t.
func (t *Tensor) Square() *Tensor { return t.un(OpSquare) }

// Sin is the sine of t in radians.
func (t *Tensor) Sin() *Tensor { return t.un(OpSin) }

// Cos is the cosine of t in radians.
func (t *Tensor) Cos() *Tensor { return t.un(OpCos) }

// Tanh is the hyperbolic tangent.
func (t *Tensor) Tanh() *Tensor { return t.un(OpTanh) }

// Sigmoid is 1/(1+e^-t).
func (t *Tensor) Sigmoid() *Tensor { return t.un(OpSigmoid) }

// ReLU is max(t, 0).
func (t *Tensor) ReLU() *Tensor { return t.un(OpRelu) }

// GELU is t*Phi(t) with the exact normal distribution function Phi (Hendrycks and Gimpel 2016).
func (t *Tensor) GELU() *Tensor { return t.un(OpGelu) }

// GELUTanh is GELU's tanh approximation.
func (t *Tensor) GELUTanh() *Tensor { return t.un(OpGeluTanh) }

// SiLU is t*sigmoid(t).
func (t *Tensor) SiLU() *Tensor { return t.un(OpSilu) }

// Erf is the error function.
func (t *Tensor) Erf() *Tensor { return t.un(OpErf) }

// Floor is the largest integer not above t.
func (t *Tensor) Floor() *Tensor { return t.un(OpFloor) }

// Ceil is the smallest integer not below t.
func (t *Tensor) Ceil() *Tensor { return t.un(OpCeil) }

// Not is the logical not of a bool.
func (t *Tensor) Not() *Tensor { return t.un(OpNot) }

// Cast is t in another dtype; see the op table for how values are converted. A cast to t's own dtype is t.
func (t *Tensor) Cast(d DType) *Tensor {
	if t.v.err != nil || d == t.v.dtype {
		return t
	}
	return t.v.s.Apply(OpCast, []int64{int64(d)}, T(t))
}

// Clamp is min(max(t, lo), hi); infinities leave a side open.
func (t *Tensor) Clamp(lo, hi float64) *Tensor {
	return t.v.s.Apply(OpClamp, nil, T(t), S(lo), S(hi))
}

// Add is t+o.
func (t *Tensor) Add(o *Tensor) *Tensor { return t.bin(OpAdd, o) }

// Sub is t-o.
func (t *Tensor) Sub(o *Tensor) *Tensor { return t.bin(OpSub, o) }

// Mul is t*o, element by element.
func (t *Tensor) Mul(o *Tensor) *Tensor { return t.bin(OpMul, o) }

// Div is t/o; integers are divided as floats.
func (t *Tensor) Div(o *Tensor) *Tensor { return t.bin(OpDiv, o) }

// Pow is t to the o.
func (t *Tensor) Pow(o *Tensor) *Tensor { return t.bin(OpPow, o) }

// Maximum is the larger of t and o.
func (t *Tensor) Maximum(o *Tensor) *Tensor { return t.bin(OpMax, o) }

// Minimum is the smaller of t and o.
func (t *Tensor) Minimum(o *Tensor) *Tensor { return t.bin(OpMin, o) }

// Eq is t == o as bool.
func (t *Tensor) Eq(o *Tensor) *Tensor { return t.bin(OpEq, o) }

// Ne is t != o as bool.
func (t *Tensor) Ne(o *Tensor) *Tensor { return t.bin(OpNe, o) }

// Lt is t < o as bool.
func (t *Tensor) Lt(o *Tensor) *Tensor { return t.bin(OpLt, o) }

// Le is t <= o as bool.
func (t *Tensor) Le(o *Tensor) *Tensor { return t.bin(OpLe, o) }

// Gt is t > o as bool.
func (t *Tensor) Gt(o *Tensor) *Tensor { return t.bin(OpGt, o) }

// Ge is t >= o as bool.
func (t *Tensor) Ge(o *Tensor) *Tensor { return t.bin(OpGe, o) }

// And is the logical and of bools.
func (t *Tensor) And(o *Tensor) *Tensor { return t.bin(OpAnd, o) }

// Or is the logical or of bools.
func (t *Tensor) Or(o *Tensor) *Tensor { return t.bin(OpOr, o) }

// Xor is true where bools differ.
func (t *Tensor) Xor(o *Tensor) *Tensor { return t.bin(OpXor, o) }

// AddS is t+x.
func (t *Tensor) AddS(x float64) *Tensor { return t.binS(OpAdd, x) }

// SubS is t-x.
func (t *Tensor) SubS(x float64) *Tensor { return t.binS(OpSub, x) }

// RSubS is x-t.
func (t *Tensor) RSubS(x float64) *Tensor { return t.v.s.Apply(OpSub, nil, S(x), T(t)) }

// MulS is t*x.
func (t *Tensor) MulS(x float64) *Tensor { return t.binS(OpMul, x) }

// DivS is t/x.
func (t *Tensor) DivS(x float64) *Tensor { return t.binS(OpDiv, x) }

// RDivS is x/t.
func (t *Tensor) RDivS(x float64) *Tensor { return t.v.s.Apply(OpDiv, nil, S(x), T(t)) }

// PowS is t to the x.
func (t *Tensor) PowS(x float64) *Tensor { return t.binS(OpPow, x) }

// RPowS is x to the t.
func (t *Tensor) RPowS(x float64) *Tensor { return t.v.s.Apply(OpPow, nil, S(x), T(t)) }

// MaximumS is the larger of t and x.
func (t *Tensor) MaximumS(x float64) *Tensor { return t.binS(OpMax, x) }

// MinimumS is the smaller of t and x.
func (t *Tensor) MinimumS(x float64) *Tensor { return t.binS(OpMin, x) }

// EqS is t == x as bool.
func (t *Tensor) EqS(x float64) *Tensor { return t.binS(OpEq, x) }

// NeS is t != x as bool.
func (t *Tensor) NeS(x float64) *Tensor { return t.binS(OpNe, x) }

// LtS is t < x as bool.
func (t *Tensor) LtS(x float64) *Tensor { return t.binS(OpLt, x) }

// LeS is t <= x as bool.
func (t *Tensor) LeS(x float64) *Tensor { return t.binS(OpLe, x) }

// GtS is t > x as bool.
func (t *Tensor) GtS(x float64) *Tensor { return t.binS(OpGt, x) }

// GeS is t >= x as bool.
func (t *Tensor) GeS(x float64) *Tensor { return t.binS(OpGe, x) }

// Where is a where c is true and b elsewhere.
func Where(c, a, b *Tensor) *Tensor { return c.v.s.Apply(OpWhere, nil, T(c), T(a), T(b)) }

// WhereS is a where c is true and the number b elsewhere.
func WhereS(c, a *Tensor, b float64) *Tensor { return c.v.s.Apply(OpWhere, nil, T(c), T(a), S(b)) }

// MaskedFill is t with x where mask is true.
func (t *Tensor) MaskedFill(mask *Tensor, x float64) *Tensor {
	return t.v.s.Apply(OpWhere, nil, T(mask), S(x), T(t))
}

// AddAssign is t += o: Assign of the sum.
func (t *Tensor) AddAssign(o *Tensor) error { return t.Assign(t.Add(o)) }

// SubAssign is t -= o.
func (t *Tensor) SubAssign(o *Tensor) error { return t.Assign(t.Sub(o)) }

// MulAssign is t *= o.
func (t *Tensor) MulAssign(o *Tensor) error { return t.Assign(t.Mul(o)) }

// ZeroAssign sets every element of t to 0.
func (t *Tensor) ZeroAssign() error {
	if t.v.err != nil {
		return t.v.err
	}
	return t.Assign(Full(t.v.s, t.v.dtype, 0, t.v.shape...))
}

// Inf is +infinity, for Clamp and Full.
var Inf = math.Inf(1)
