package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The polynomials interpolate at the Chebyshev points of their interval, in double
// precision, and are rounded to float32 at the end. Highest coefficients first.
var (
	// (eʳ-1-r)/r² for |r| ≤ ln2/2.
	expPoly = series("exp", 0.000198910799, 0.00139337312, 0.00833331048, 0.041666463, 0.166666672, 0.5)
	// (tanh(x)/x-1)/x² in x², for |x| ≤ 0.6.
	tanhPoly = series("tanh", -0.00626911968, 0.0211109594, -0.0538739488, 0.133329153, -0.333333313)
	// erf(x)/x-1 in x², for |x| ≤ 1.
	erfPoly = series("erf", 7.87587487e-05, -0.00080168643, 0.00518908724, -0.0268542115, 0.112835944, -0.37612626, 0.12837911)
	// -log(erfc(x)) for 1 ≤ x ≤ 4.
	erfcPoly = series("erfc", -1.6315123e-06, 4.59526127e-05, -0.000595966529, 0.0047558872, -0.0264111832, 0.110063486, 0.631842852, 1.13022399, -0.000317857368)
)

// polynomials are the coefficients of all series.
var polynomials []constant

func series(name string, coefficients ...float64) (names []string) {
	for i, c := range coefficients {
		n := fmt.Sprint(name, len(coefficients)-1-i)
		polynomials = append(polynomials, constant{n, bits(c)})
		names = append(names, n)
	}
	return names
}

var expHoist = append([]string{"log2e", "ln2hi", "ln2lo", "expMax", "expMin", "one"}, expPoly...)

// exp returns eˣ = 2ⁿ·eʳ with n = round(x/ln2).
func (k *kern) exp(x vreg) vreg {
	x = k.clampBelow(k.clampAbove(x, "expMax"), "expMin")
	n := k.mul(k.c("log2e"), x)
	if k.wide {
		VRNDSCALEPS(U8(8), n, n)
	} else {
		VROUNDPS(U8(8), n, n)
	}
	r := x
	VFMADD231PS(k.c("ln2hi"), n, r)
	VFMADD231PS(k.c("ln2lo"), n, r)
	p := k.poly(r, expPoly...)
	q := k.mul(r, r)
	VFMADD213PS(r, q, p)
	VADDPS(k.c("one"), p, p)
	if k.wide {
		VSCALEFPS(n, p, p)
		return p
	}
	// 2ⁿ may lie outside of the normal numbers, so it is the product of two halves.
	whole, half := k.vec(), k.vec()
	VCVTPS2DQ(n, whole)
	VPSRAD(U8(1), whole, half)
	VPSUBD(half, whole, whole)
	for _, e := range []vreg{half, whole} {
		VPADDD(k.c("bias"), e, e)
		VPSLLD(U8(23), e, e)
		VMULPS(e, p, p)
	}
	return p
}

func (k *kern) neg(x vreg) vreg { return k.xor(k.c("sign"), x) }

// onePlusExpNeg returns 1 + e⁻ˣ.
func (k *kern) onePlusExpNeg(x vreg) vreg { return k.add(k.c("one"), k.exp(k.neg(x))) }

func (k *kern) sigmoid(x vreg) vreg { return k.div(k.mut("one"), k.onePlusExpNeg(x)) }

// logistic returns the sigmoid s of x, and 1-s without the cancellation near s = 1.
func (k *kern) logistic(x vreg) (s, rest vreg) {
	e := k.exp(k.neg(x))
	s = k.div(k.mut("one"), k.add(k.c("one"), e))
	left := k.cmp(lessThan, x, k.c("zero"))
	return s, k.sel(left, k.sub(k.mut("one"), s), k.mul(e, s))
}

// tanh returns x + x³P(x²) near zero and 1 - 2/(e²ˣ+1) beyond.
func (k *kern) tanh(x vreg) vreg {
	a := k.and(k.c("abs"), x)
	e := k.add(k.c("one"), k.exp(k.add(a, a)))
	far := k.sub(k.mut("one"), k.div(k.mut("two"), e))
	s := k.mul(a, a)
	near := k.mul(k.mul(s, a), k.poly(s, tanhPoly...))
	near = k.add(a, near)
	r := k.sel(k.cmp(lessThan, a, k.c("tanhSplit")), near, far)
	return k.or(k.and(k.c("sign"), x), r)
}

// erfParts returns |z|, erf(z) for |z| < 1, and erfc(|z|) for the others. Beyond 4, where
// the polynomial ends, erfc is less than half an ulp of 1; there e to -z² stands for it,
// so that it still falls to 0.
func (k *kern) erfParts(z vreg) (abs, near, rest vreg) {
	abs = k.and(k.c("abs"), z)
	s := k.mul(abs, abs)
	q := k.poly(k.clampAbove(abs, "four"), erfcPoly...)
	far := k.vec()
	VMAXPS(q, s, far) // q if that is NaN
	rest = k.exp(k.neg(far))
	near = k.fma(k.poly(s, erfPoly...), z, z)
	return abs, near, rest
}

func (k *kern) erf(x vreg) vreg {
	abs, near, rest := k.erfParts(x)
	far := k.or(k.and(k.c("sign"), x), k.sub(k.mut("one"), rest))
	return k.sel(k.cmp(lessThan, abs, k.c("one")), near, far)
}

// cdf returns Φ(x), the normal distribution, without loss of small values on the left.
func (k *kern) cdf(x vreg) vreg {
	abs, near, rest := k.erfParts(k.mul(k.c("rootHalf"), x))
	half := k.mut("half")
	near = k.fma(near, half, half)
	left := k.mul(half, rest)
	far := k.sel(k.cmp(lessThan, x, k.c("zero")), left, k.sub(k.mut("one"), left))
	return k.sel(k.cmp(lessThan, abs, k.c("one")), near, far)
}

// pdf returns φ(x), the density of the normal distribution.
func (k *kern) pdf(x vreg) vreg {
	return k.mul(k.c("pdf"), k.exp(k.mul(k.c("minusHalf"), k.mul(x, x))))
}

// geluInner returns 2√(2/π)(x+0.044715x³), and the square of x, bounded.
func (k *kern) geluInner(x vreg) (u, square vreg) {
	square = k.clampAbove(k.mul(x, x), "squareMax")
	u = k.mul(x, k.fma(k.c("gelu3"), square, k.mut("gelu1")))
	return u, square
}
