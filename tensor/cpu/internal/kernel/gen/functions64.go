package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Coefficients of functions of float64, of Taylor's series: the first term that is left
// out is below a tenth of the last place. Highest first.
var (
	// (eʳ-1-r)/r² for |r| ≤ ln2/2.
	expPoly64 = doubleSeries("exp", 12, func(i int) float64 { return inverseFactorial(i + 2) })
	// (log((1+f)/(1-f))-2f-⅔f³)/f⁵ in f², for |f| ≤ 0.1716.
	powPoly64 = doubleSeries("pow", 11, func(i int) float64 { return 2 / float64(2*i+5) })
	// (log((1+s)/(1-s))/s-2)/s² in s², for |s| ≤ 0.1716.
	logPoly64 = doubleSeries("log", 9, func(i int) float64 { return 2 / float64(2*i+3) })
	// (sin(r)/r-1)/r² in r², and ((cos(r)-1)/r²+½)/r² in r², for |r| ≤ π/4.
	sinPoly64 = doubleSeries("sin", 8, func(i int) float64 { return math.Pow(-1, float64(i+1)) * inverseFactorial(2*i+3) })
	cosPoly64 = doubleSeries("cos", 7, func(i int) float64 { return math.Pow(-1, float64(i)) * inverseFactorial(2*i+4) })
)

func inverseFactorial(n int) float64 {
	f := 1.0
	for i := 2; i <= n; i++ {
		f *= float64(i)
	}
	return 1 / f
}

// doubleFunctions writes the functions of float64 that need more than a few instructions.
func doubleFunctions(s isa) {
	k := library{&kern{isa: s.doubles()}}
	unary := shape{outs: 1, ins: 1, unroll: 2}
	for _, o := range []struct {
		name string
		f    func(x vreg) vreg
	}{
		{"exp", k.exp64}, {"log", k.log64}, {"tanh", k.tanh64},
		{"sigmoid", func(x vreg) vreg { return k.div(k.mut("one"), k.onePlusExpNeg64(x)) }},
		{"silu", func(x vreg) vreg { return k.div(x, k.onePlusExpNeg64(x)) }},
		{"geluTanh", func(x vreg) vreg { u, _ := k.geluInner64(x); return k.div(x, k.onePlusExpNeg64(u)) }},
	} {
		k.each(o.name, unary, "is out0 = "+o.name+"(in0).", func(in, _ []vreg) []vreg { return one(o.f(in[0])) })
	}
	exponentials(k.kern, k.exp64, nil)
	k.each("pow", shape{outs: 1, ins: 2}, "is out0 = in0 to the power of in1.", func(in, _ []vreg) []vreg {
		return one(k.signed(in[0], in[1], k.power64(k.and(k.c("abs"), in[0]), in[1])))
	})
	k.each("powS", shape{outs: 1, ins: 1, scalars: 1}, "is out0 = in0 to the power of s0.", func(in, sc []vreg) []vreg {
		return one(k.signed(in[0], sc[0], k.power64(k.and(k.c("abs"), in[0]), sc[0])))
	})
	largest := func(a, b vreg) vreg { return k.op(VMAXPD, b, a) }
	k.reduce("absMax", shape{ins: 1, unroll: 4}, 1, "minusInf", "returns the largest |in0|; NaN count or not.", largest,
		func(in, _, acc []vreg, _ restFunc) ([]vreg, []vreg) {
			return one(largest(k.and(k.c("abs"), in[0]), acc[0])), nil
		})
	unary.within = "trigMax"
	k.each("sin", unary, "is out0 = sin(in0), up to trigMax.", func(in, _ []vreg) []vreg { return one(k.sin64(in[0])) })
	k.each("cos", unary, "is out0 = cos(in0), up to trigMax.", func(in, _ []vreg) []vreg { return one(k.cos64(in[0])) })

	binary := shape{outs: 1, ins: 2}
	for _, o := range []struct {
		name string
		f    func(a, dy vreg) vreg
	}{
		{"sigmoidGrad", func(y, dy vreg) vreg { return k.mul(k.mul(dy, y), k.sub(k.mut("one"), y)) }},
		{"tanhGrad", func(y, dy vreg) vreg { return k.mul(dy, k.sub(k.mut("one"), k.mul(y, y))) }},
		{"siluGrad", func(x, dy vreg) vreg { s, rest := k.logistic64(x); return k.mul(dy, k.siluSlope(x, s, rest)) }},
		{"geluTanhGrad", func(x, dy vreg) vreg {
			u, square := k.geluInner64(x)
			s, rest := k.logistic64(u)
			t := k.mul(k.mul(x, s), rest)
			return k.mul(dy, k.fma(t, k.fma(k.c("gelu9"), square, k.mut("gelu1")), s))
		}},
	} {
		k.each(o.name, binary, "is the gradient of "+o.name[:len(o.name)-4]+": in0 what it saves, in1 the gradient of its output.",
			func(in, _ []vreg) []vreg { return one(o.f(in[0], in[1])) })
	}
}

// expParts64 cuts eˣ into 2ⁿ(1+p) with n = round(x/ln2). Beyond the bounds of x,
// between which all its finite values lie, eˣ is 0 or +Inf. rest is added to x where
// there is one.
func (k library) expParts64(x vreg, rest ...vreg) (n, p vreg) {
	x = k.clampBelow(k.clampAbove(x, "expMax"), "expMin")
	n = k.round(k.mul(k.c("log2e"), x))
	r := k.copy(x)
	VFMADD231PD(k.c("ln2hi"), n, r)
	VFMADD231PD(k.c("ln2lo"), n, r)
	for _, v := range rest {
		r = k.add(v, r)
	}
	p = k.poly(r, expPoly64...)
	VFMADD213PD(r, k.mul(r, r), p)
	return n, p
}

// scale64 returns x times 2ⁿ, rounded once.
func (k library) scale64(x, n vreg) vreg {
	y := k.vec()
	if k.wide {
		VSCALEFPD(n, x, y)
		return y
	}
	// 2ⁿ may lie outside of the normal numbers, so it is the product of two halves.
	whole, half := XMM(), XMM()
	VCVTPD2DQY(n, whole)
	VPSRAD(U8(1), whole, half)
	VPSUBD(half, whole, whole)
	for i, e := range []vreg{k.vec(), k.vec()} {
		VPMOVSXDQ([]Op{half, whole}[i], e)
		VPADDQ(k.c("bias"), e, e)
		VPSLLQ(U8(52), e, e)
		VMULPD(e, x, y)
		x = y
	}
	return y
}

func (k library) exp64(x vreg) vreg {
	n, p := k.expParts64(x)
	return k.scale64(k.add(k.c("one"), p), n)
}

// tanh64 is m/(m+2) for m = e²ˣ-1, which keeps the digits of small x.
func (k library) tanh64(x vreg) vreg {
	a := k.and(k.c("abs"), x)
	n, p := k.expParts64(k.clampAbove(k.add(a, a), "tanhMax"))
	power := k.scale64(k.mut("one"), n)
	m := k.fma(power, p, k.sub(power, k.c("one")))
	r := k.div(m, k.add(k.c("two"), m))
	return k.or(k.and(k.c("sign"), x), r)
}

// onePlusExpNeg64 returns 1 + e⁻ˣ.
func (k library) onePlusExpNeg64(x vreg) vreg { return k.add(k.c("one"), k.exp64(k.neg(x))) }

// logistic64 returns the sigmoid s of x, and 1-s without the cancellation near s = 1.
func (k library) logistic64(x vreg) (s, rest vreg) {
	e := k.exp64(k.neg(x))
	s = k.div(k.mut("one"), k.add(k.c("one"), e))
	left := k.cmp(lessThan, x, k.c("zero"))
	return s, k.choose(left, k.sub(k.mut("one"), s), k.mul(e, s))
}

// geluInner64 returns 2√(2/π)(x+0.044715x³), and the square of x.
func (k library) geluInner64(x vreg) (u, square vreg) {
	square = k.mul(x, x)
	return k.mul(x, k.fma(k.c("gelu3"), square, k.mut("gelu1"))), square
}

// twice is an unevaluated sum of two numbers, of which lo is at most half of the last
// place of hi. It holds twice as many digits as one.
type twice struct{ hi, lo vreg }

// exactProduct returns a*b without an error.
func (k library) exactProduct(a, b vreg) twice {
	hi := k.mul(a, b)
	lo := k.copy(hi)
	VFMSUB231PD(a, b, lo)
	return twice{hi, lo}
}

// exactSum returns a+b without an error, where |a| ≥ |b| or a is 0.
func (k library) exactSum(a, b vreg) twice {
	hi := k.add(b, a)
	return twice{hi, k.sub(b, k.sub(hi, a))}
}

// product returns a*b to about 100 bits.
func (k library) product(a, b twice) twice {
	p := k.exactProduct(a.hi, b.hi)
	return twice{p.hi, k.fma(a.lo, b.hi, k.fma(a.hi, b.lo, p.lo))}
}

// power64 returns a to the power of y by e to the power of y*log(a), where the logarithm
// and the product have twice the digits; a is not negative.
func (k library) power64(a, y vreg) vreg {
	l := k.logTwice64(a)
	hi := k.choose(k.cmp(equal, a, k.c("zero")), k.c("minusInf"), l.hi)
	hi = k.choose(k.cmp(notBelow, a, k.c("inf")), a, hi)
	t := k.mul(hi, y)
	// lo is what rounding t left: none where a result is 0 or infinite.
	lo := k.copy(t)
	VFMSUB231PD(hi, y, lo)
	lo = k.fma(l.lo, y, lo)
	lo = k.choose(k.cmp(lessThan, k.and(k.c("abs"), t), k.c("exp2Max")), lo, k.mut("zero"))
	t = k.choose(k.cmp(equal, hi, k.c("zero")), k.c("zero"), t) // by infinity too
	t = k.choose(k.cmp(equal, y, k.c("zero")), k.c("zero"), t)  // of infinity too
	n, p := k.expParts64(t, lo)
	return k.scale64(k.add(k.c("one"), p), n)
}

// logTwice64 returns the logarithm of a positive finite number to 64 bits or more. As in
// log64, a is 2ⁿ·m, and with f = (m-1)/(m+1), log(m) is 2f + ⅔f³ + f⁵Q(f²). Of these only
// the last is small enough for the digits of one number.
func (k library) logTwice64(a vreg) twice {
	n, m := k.cut64(a)
	sum := k.add(k.c("one"), m)
	left := k.sub(m, k.sub(sum, k.c("one"))) // of m+1 without sum
	inverse := k.div(k.mut("one"), sum)
	m = k.sub(m, k.c("one"))
	f := twice{hi: k.mul(inverse, m)}
	VFNMADD231PD(f.hi, sum, m)
	VFNMADD231PD(f.hi, left, m)
	f.lo = k.mul(inverse, m)

	square := k.product(f, f)
	cube := k.product(square, f)
	rest := k.mul(k.mul(square.hi, cube.hi), k.poly(square.hi, powPoly64...))
	third := k.product(cube, twice{k.mut("twoThirds"), k.mut("twoThirdsRest")})
	// All but the first digits, the smallest terms first.
	rest = k.add(third.lo, rest)
	rest = k.add(k.add(f.lo, f.lo), rest)
	VFNMADD231PD(k.c("ln2lo"), n, rest)
	whole := k.mut("zero")
	VFNMADD231PD(k.c("ln2hi"), n, whole)
	first := k.exactSum(whole, k.add(f.hi, f.hi))
	second := k.exactSum(first.hi, third.hi)
	return k.exactSum(second.hi, k.add(second.lo, k.add(first.lo, rest)))
}

// log64 cuts x into 2ⁿ(1+f). With s = f/(2+f), log(1+f) is
// f - f²/2 + s(f²/2 + s²P(s²)), of which the first terms are exact or nearly so.
func (k library) log64(x vreg) vreg {
	n, m := k.cut64(x)
	f := k.sub(m, k.c("one"))
	s := k.div(f, k.add(k.c("two"), f))
	square := k.mul(s, s)
	half := k.mul(k.c("half"), k.mul(f, f))
	t := k.mul(s, k.fma(square, k.poly(square, logPoly64...), half))
	VFNMADD231PD(k.c("ln2lo"), n, t)
	r := k.sub(f, k.sub(half, t))
	VFNMADD231PD(k.c("ln2hi"), n, r)
	r = k.choose(k.cmp(notBelow, x, k.c("inf")), x, r)
	r = k.choose(k.cmp(lessThan, x, k.c("zero")), k.c("nan"), r)
	return k.choose(k.cmp(equal, x, k.c("zero")), k.c("minusInf"), r)
}

// cut64 returns n and m from √½ to √2 with x = 2ⁿ·m, for a positive finite x.
func (k library) cut64(x vreg) (n, m vreg) {
	tiny := k.cmp(lessThan, x, k.c("minNormal"))
	// n+1024 is in the upper 12 bits
	bits := k.op(VPADDQ, k.c("logBias"), k.choose(tiny, k.mul(k.c("two54"), x), x))
	n = k.vec()
	VPSRLQ(U8(52), bits, n)
	n = k.sub(k.or(k.c("two52"), n), k.c("two52And1024"))
	n = k.sub(n, k.choose(tiny, k.c("fiftyFour"), k.mut("zero")))
	return n, k.op(VPADDQ, k.c("rootHalf"), k.and(k.c("mantissa"), bits))
}

// quarters64 returns n = round(|x|/(π/2)) in the last bits, and |x| - n·π/2.
func (k library) quarters64(x vreg) (n, r vreg) {
	r = k.and(k.c("abs"), x)
	turns := k.round(k.mul(k.c("twoOverPi"), r))
	for _, part := range []string{"halfPi1", "halfPi2", "halfPi3"} {
		VFNMADD231PD(k.c(part), turns, r)
	}
	return k.add(k.c("roundBits"), turns), r
}

// quarterWave64 returns the sine of r where n is even and its cosine elsewhere, negated
// where bit 1 of n is set.
func (k library) quarterWave64(n, r vreg) vreg {
	square := k.mul(r, r)
	sin := k.fma(k.mul(r, square), k.poly(square, sinPoly64...), r)
	cos := k.fma(square, k.fma(square, k.poly(square, cosPoly64...), k.mut("minusHalf")), k.mut("one"))
	odd, sign := k.vec(), k.vec()
	VPSLLQ(U8(63), n, odd)
	VPSLLQ(U8(62), n, sign)
	isOdd := mask{v: odd}
	if k.wide {
		isOdd = mask{k: K()}
		VPTESTMQ(odd, odd, isOdd.k)
	}
	y := k.choose64(isOdd, cos, sin)
	return k.xor(k.and(k.c("sign"), sign), y)
}

// choose64 is choose for a mask that looks at the upmost bit of float64 alone.
func (k library) choose64(m mask, yes, no vreg) vreg {
	if k.wide {
		return k.choose(m, yes, no)
	}
	v := k.vec()
	VBLENDVPD(m.v, yes, no, v)
	return v
}

func (k library) sin64(x vreg) vreg {
	n, r := k.quarters64(x)
	return k.xor(k.and(k.c("sign"), x), k.quarterWave64(n, r))
}

func (k library) cos64(x vreg) vreg {
	n, r := k.quarters64(x)
	return k.quarterWave64(k.op(VPADDQ, k.c("integerOne"), n), r)
}
