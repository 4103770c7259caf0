package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Coefficients of functions that are computed in float32. Highest first.
var (
	// (log(1+f)-f+f²/2)/f³ for √½ ≤ 1+f ≤ √2.
	logPoly = series("log", 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
	// (sin(r)/r-1)/r² in r², and (cos(r)-1)/r² in r² but for its last, -½, for |r| ≤ π/4.
	sinPoly = series("sin", -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
	cosPoly = series("cos", 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
)

// Coefficients of those in float64, for more digits than a float32 has.
var (
	// log2((1+f)/(1-f))/f in f², for |f| ≤ 0.1716: the error is 3e-14 of the result.
	log2Poly = doubleSeries("log2", 8, func(i int) float64 { return 2 / (float64(2*i+1) * math.Ln2) })
	// 2ᵘ for |u| ≤ ½, to 3e-13.
	exp2Poly = doubleSeries("exp2", 11, func(i int) float64 {
		c := 1.0
		for j := 1; j <= i; j++ {
			c *= math.Ln2 / float64(j)
		}
		return c
	})
)

// library writes functions of many instructions.
type library struct{ *kern }

// functions writes the kernels of functions that need more than a few instructions, and
// no exponential of float32.
func functions(s isa) {
	k := library{&kern{isa: s}}
	unary := shape{outs: 1, ins: 1, unroll: 2}
	k.each("log", unary, "is out0 = log(in0).", func(in, _ []vreg) []vreg { return one(k.log(in[0])) })
	largest := func(a, b vreg) vreg { return k.op(VMAXPS, b, a) }
	k.reduce("absMax", shape{ins: 1, unroll: 4}, 1, "minusInf", "returns the largest |in0|; NaN count or not.", largest,
		func(in, _, acc []vreg, _ restFunc) ([]vreg, []vreg) {
			return one(largest(k.and(k.c("abs"), in[0]), acc[0])), nil
		})
	unary.within = "trigMax"
	k.each("sin", unary, "is out0 = sin(in0), up to trigMax.", func(in, _ []vreg) []vreg { return one(k.sin(in[0])) })
	k.each("cos", unary, "is out0 = cos(in0), up to trigMax.", func(in, _ []vreg) []vreg { return one(k.cos(in[0])) })
	k.each("pow", shape{outs: 1, ins: 2}, "is out0 = in0 to the power of in1.", func(in, _ []vreg) []vreg { return one(k.pow(in[0], in[1])) })
	k.each("powS", shape{outs: 1, ins: 1, scalars: 1}, "is out0 = in0 to the power of s0.", func(in, sc []vreg) []vreg { return one(k.pow(in[0], sc[0])) })
}

// round returns x rounded to the nearest integer.
func (k library) round(x vreg) vreg { return k.whole(x, 8) }

// whole returns x rounded to an integer as mode says: 8 nearest, 9 down, 10 up.
func (s isa) whole(x vreg, mode uint8) vreg {
	v := s.vec()
	switch {
	case s.wide && s.double:
		VRNDSCALEPD(U8(mode), x, v)
	case s.wide:
		VRNDSCALEPS(U8(mode), x, v)
	case s.double:
		VROUNDPD(U8(mode), x, v)
	default:
		VROUNDPS(U8(mode), x, v)
	}
	return v
}

// log cuts x into 2ⁿ(1+f) with 1+f from √½ to √2.
func (k library) log(x vreg) vreg {
	tiny := k.cmp(lessThan, x, k.c("minNormal"))
	bits := k.choose(tiny, k.mul(k.c("two23"), x), x)
	VPSUBD(k.c("rootHalf"), bits, bits)
	whole, n := k.vec(), k.vec()
	VPSRAD(U8(23), bits, whole)
	VCVTDQ2PS(whole, n)
	n = k.sub(n, k.choose(tiny, k.c("twentyThree"), k.mut("zero")))
	f := k.and(k.c("mantissa"), bits)
	VPADDD(k.c("rootHalf"), f, f)
	f = k.sub(f, k.c("one"))
	square := k.mul(f, f)
	r := k.mul(k.mul(f, square), k.poly(f, logPoly...))
	VFNMADD231PS(k.c("ln2lo"), n, r)
	VFMADD231PS(k.c("minusHalf"), square, r)
	r = k.add(f, r)
	VFNMADD231PS(k.c("ln2hi"), n, r)
	r = k.choose(k.cmp(notBelow, x, k.c("inf")), x, r)
	r = k.choose(k.cmp(lessThan, x, k.c("zero")), k.c("nan"), r)
	return k.choose(k.cmp(equal, x, k.c("zero")), k.c("minusInf"), r)
}

// quarters returns n = round(|x|/(π/2)) as integers, and |x| - n·π/2.
func (k library) quarters(x vreg) (n, r vreg) {
	r = k.and(k.c("abs"), x)
	turns := k.round(k.mul(k.c("twoOverPi"), r))
	for _, part := range []string{"halfPi1", "halfPi2", "halfPi3"} {
		VFNMADD231PS(k.c(part), turns, r)
	}
	n = k.vec()
	VCVTPS2DQ(turns, n)
	return n, r
}

// quarterWave returns the sine of r where n is even and its cosine elsewhere, negated
// where bit 1 of n is set.
func (k library) quarterWave(n, r vreg) vreg {
	square := k.mul(r, r)
	sin := k.fma(k.mul(r, square), k.poly(square, sinPoly...), r)
	cos := k.fma(square, k.poly(square, append(cosPoly, "minusHalf")...), k.mut("one"))
	odd, sign := k.vec(), k.vec()
	VPSLLD(U8(31), n, odd)
	VPSLLD(U8(30), n, sign)
	y := k.choose(k.signs(odd), cos, sin)
	return k.xor(k.and(k.c("sign"), sign), y)
}

// signs selects the lanes whose upmost bit is set, of which no other bit may be.
func (k library) signs(x vreg) mask {
	if k.wide {
		m := mask{k: K()}
		VPTESTMD(x, x, m.k)
		return m
	}
	return mask{v: x}
}

func (k library) sin(x vreg) vreg {
	n, r := k.quarters(x)
	return k.xor(k.and(k.c("sign"), x), k.quarterWave(n, r))
}

func (k library) cos(x vreg) vreg {
	n, r := k.quarters(x)
	VPADDD(k.c("integerOne"), n, n)
	return k.quarterWave(n, r)
}

// pow returns x to the power of y by float64.
func (k library) pow(x, y vreg) vreg {
	d := library{&kern{isa: k.doubles()}}
	a0, a1 := k.widen(k.and(k.c("abs"), x))
	y0, y1 := k.widen(y)
	r := k.narrow(d.power(a0, y0), d.power(a1, y1))
	return k.signed(x, y, r)
}

// signed returns r, |x| to the power of y, as the power of x: with the sign of x if y is
// odd, and NaN for a negative x unless y is an integer.
func (k library) signed(x, y, r vreg) vreg {
	half := k.mul(k.c("half"), y)
	whole := k.cmp(equal, k.round(y), y)
	flip := k.choose(k.cmp(equal, k.round(half), half), k.c("zero"), k.mut("sign"))
	flip = k.choose(whole, flip, k.mut("zero"))
	r = k.xor(k.and(x, flip), r)
	left := k.choose(whole, r, k.mut("nan"))
	left = k.choose(k.cmp(equal, x, k.c("minusInf")), r, left)
	return k.choose(k.cmp(lessThan, x, k.c("zero")), left, r)
}

// power returns a to the power of y, of float64 that were float32; a is not negative.
func (k library) power(a, y vreg) vreg {
	l := k.choose(k.cmp(equal, a, k.c("zero")), k.c("minusInf"), k.log2(a))
	l = k.choose(k.cmp(notBelow, a, k.c("inf")), a, l)
	t := k.mul(l, y)
	t = k.choose(k.cmp(equal, l, k.c("zero")), k.c("zero"), t) // by infinity too
	t = k.choose(k.cmp(equal, y, k.c("zero")), k.c("zero"), t) // of infinity too
	return k.exp2(t)
}

// log2 cuts a positive normal number into 2ⁿ·m with m from √½ to √2.
func (k library) log2(a vreg) vreg {
	bits := k.op(VPADDQ, k.c("logBias"), a) // n+1024 in the upper 12 bits
	n := k.vec()
	VPSRLQ(U8(52), bits, n)
	n = k.sub(k.or(k.c("two52"), n), k.c("two52And1024"))
	m := k.op(VPADDQ, k.c("rootHalf"), k.and(k.c("mantissa"), bits))
	f := k.div(k.sub(m, k.c("one")), k.add(k.c("one"), m))
	p := k.poly(k.mul(f, f), log2Poly...)
	return k.fma(f, p, n)
}

// exp2 returns 2ᵗ of float64, 0 or an infinity of float32 beyond ±1000.
func (k library) exp2(t vreg) vreg {
	t = k.clampBelow(k.clampAbove(t, "exp2Max"), "exp2Min")
	n := k.add(k.c("roundBits"), t) // its last bits are the nearest integer
	p := k.poly(k.sub(t, k.sub(n, k.c("roundBits"))), exp2Poly...)
	VPSLLQ(U8(52), n, n)
	VPADDQ(n, p, p)
	return p
}

// widen returns the two halves of x as float64.
func (k library) widen(x vreg) (lo, hi vreg) {
	lo, hi = k.vec(), k.vec()
	if k.wide {
		upper := YMM()
		VCVTPS2PD(x.AsY(), lo)
		VEXTRACTF64X4(U8(1), x, upper)
		VCVTPS2PD(upper, hi)
		return lo, hi
	}
	upper := XMM()
	VCVTPS2PD(x.AsX(), lo)
	VEXTRACTF128(U8(1), x, upper)
	VCVTPS2PD(upper, hi)
	return lo, hi
}

// narrow returns float64 in two halves as float32.
func (k library) narrow(lo, hi vreg) vreg {
	v := k.vec()
	if k.wide {
		upper := YMM()
		VCVTPD2PS(lo, v.AsY())
		VCVTPD2PS(hi, upper)
		VINSERTF64X4(U8(1), upper, v, v)
		return v
	}
	upper := XMM()
	VCVTPD2PSY(lo, v.AsX())
	VCVTPD2PSY(hi, upper)
	VINSERTF128(U8(1), upper, v, v)
	return v
}

// choose is sel by way of a copy, for functions of many choices: the allocator takes the
// register that a blend writes for live from the beginning.
func (k library) choose(m mask, yes Op, no vreg) vreg {
	if !k.wide {
		return k.sel(m, yes, no)
	}
	v := k.copy(no)
	if _, ok := yes.(vreg); ok {
		k.of(VMOVAPS, VMOVAPD)(yes, m.k, v)
	} else if k.double {
		VMOVUPD(yes, m.k, v)
	} else {
		VMOVUPS(yes, m.k, v)
	}
	return v
}
