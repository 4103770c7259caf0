package ptx

import "math"

// # Functions of f64
//
// The polynomials are series about the point where an argument is reduced to, cut where
// the rest is below 2⁻⁵⁶ of the result: of e to r and of sin and cos by Taylor, of the
// logarithm by that of artanh. That of erfc interpolates at Chebyshev points: see
// TestErfc64, which computes it again. Highest coefficients first.
var (
	// (eʳ-1-r)/r² for |r| ≤ ln2/2: 1/(k+2)!.
	exp64Poly = []float64{
		1. / 87178291200, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120,
		1. / 24, 1. / 6, 1. / 2,
	}
	// The rest of 2·artanh(s) = log((1+s)/(1-s)) behind 2s + ⅔s³, over s⁵, in s², for
	// |s| ≤ 3-√8: 2/(2k+5).
	log64Poly = []float64{2. / 23, 2. / 21, 2. / 19, 2. / 17, 2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5}
	// (sin(r)/r-1)/r² and (cos(r)-1+r²/2)/r⁴ in r², for |r| ≤ 1.
	sin64Poly = []float64{
		-1. / 121645100408832000, 1. / 355687428096000, -1. / 1307674368000, 1. / 6227020800, -1. / 39916800, 1. / 362880, -1. / 5040, 1. / 120, -1. / 6,
	}
	cos64Poly = []float64{
		-1. / 6402373705728000, 1. / 20922789888000, -1. / 87178291200, 1. / 479001600, -1. / 3628800, 1. / 40320, -1. / 720, 1. / 24,
	}
	// erf(x)/x-1 in x², for |x| ≤ 1: 2/√π·(-1)ᵏ/(k!·(2k+1)), less 1 at k = 0.
	erf64Poly = []float64{
		twoOverRoot / (2432902008176640000 * 41), -twoOverRoot / (121645100408832000 * 39), twoOverRoot / (6402373705728000 * 37), -twoOverRoot / (355687428096000 * 35),
		twoOverRoot / (20922789888000 * 33), -twoOverRoot / (1307674368000 * 31), twoOverRoot / (87178291200 * 29), -twoOverRoot / (6227020800 * 27),
		twoOverRoot / (479001600 * 25), -twoOverRoot / (39916800 * 23), twoOverRoot / (3628800 * 21), -twoOverRoot / (362880 * 19),
		twoOverRoot / (40320 * 17), -twoOverRoot / (5040 * 15), twoOverRoot / (720 * 13), -twoOverRoot / (120 * 11),
		twoOverRoot / (24 * 9), -twoOverRoot / (6 * 7), twoOverRoot / (2 * 5), -twoOverRoot / (1 * 3),
		twoOverRoot - 1,
	}
	// (1+2a)·eᵃᵃ·erfc(a) in t = (a-4)/(a+4), for 1 ≤ a ≤ 28.
	erfc64Poly = []float64{
		-2.6490729369178822e-08, 8.981761538262737e-08, 9.378764713111928e-08, -8.132213473308921e-07, 2.779610203474889e-07, 5.706137058391276e-06,
		-1.1214940454085914e-05, -2.4398796129808548e-05, 0.0001506197652840239, -0.0001992566557780742, -0.0007577729682444181, 0.005031969959955954,
		-0.016197734090861556, 0.03716751553970077, -0.06633036581022515, 0.09373283499822639, -0.10103906603636663, 0.06809705425469556,
		0.015379652102620517, -0.13962111684056253, 1.2329951186255526,
	}
)

// twoOverRoot is 2/√π.
const twoOverRoot = 1.12837916709551257389615890312154517169

// Parts of ln2, π/2 and ⅔, each the rounded rest of those before. A product of ln2High
// and an exponent is exact.
const (
	ln2High, ln2Low           = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
	quarter1, quarter2        = 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54
	quarter3                  = -0x1.f1976b7ed8fbcp-110
	twoThirds, twoThirdsBelow = 0x1.5555555555555p-1, 0x1.5555555555555p-55
)

// arith64 writes functions of f64.
type arith64 struct{ *arith }

// sum2 returns s, which is a+b rounded, and low, its rounding error: s+low is a+b. It
// wants |a| ≥ |b| or a = 0.
func (w arith64) sum2(a, b reg) (s, low reg) {
	s = w.add(a, b)
	return s, w.add(w.sub(a, s), b)
}

// twoTo64 returns 2 to an integer from -1022 to 1023.
func (w arith64) twoTo64(n reg) reg {
	wide := w.op(b64, "cvt.s64.s32", w.op(b32, "add.s32", n, "1023"))
	return w.op(f64, "mov.b64", w.op(b64, "shl.b64", wide, "52"))
}

// expParts returns n and p such that the exponential of x+low is 2ⁿ·(1+p), with |p| < ½.
// low corrects x: it is no larger than a few units in the last place of x.
func (w arith64) expParts(x, low reg) (n, p reg) {
	n = w.op(f64, "cvt.rni.f64.f64", w.mul(x, double(math.Log2E)))
	// Exact: x, unless n is 0, and the product are multiples of 2⁻⁵⁴.
	r := w.fma(n, double(-math.Ln2), x)
	const below = 2.3190468138462996e-17 // ln2 - math.Ln2 as f64
	u, rest := w.sum2(r, w.fma(n, double(-below), low))
	p = w.add(u, w.fma(w.mul(u, u), w.poly(u, exp64Poly), rest))
	return w.op(b32, "cvt.rni.s32.f64", n), p
}

// exp64 returns the exponential of x+low. 2ⁿ may lie outside of the normal numbers, so it
// is the product of two halves.
func (w arith64) exp64(x, low reg) reg {
	n, p := w.expParts(w.atLeast(w.atMost(x, 710), -746), low)
	half := w.op(b32, "shr.s32", n, "1")
	return w.mul(w.mul(w.add(p, double(1)), w.twoTo64(half)), w.twoTo64(w.op(b32, "sub.s32", n, half)))
}

// tanh64 returns t/(t+2) with t = e²ˣ-1, which subtracts no numbers that are nearly
// equal. For x beyond 22 the result is 1.
func (w arith64) tanh64(x reg) reg {
	a := w.atMost(w.abs(x), 22)
	n, p := w.expParts(w.add(a, a), double(0))
	power := w.twoTo64(n)
	t := w.fma(power, p, w.sub(power, double(1)))
	return w.copySign(w.div(t, w.add(t, double(2))), x)
}

// logParts returns the natural logarithm of |x|, for an x that is finite and not 0, as
// the sum of high and its rounding error low. The error of that sum is about 2⁻⁶⁴ of it.
// |x| is m·2ᵉ with m from √½ to √2, and log(m) is 2·artanh(s) with s = (m-1)/(m+1). A
// variable with Low in its name is the rounding error of the one without.
func (w arith64) logParts(x reg) (high, low reg) {
	a := w.abs(x)
	small := w.is("lt", a, double(0x1p-1022))
	words := w.halves(w.op(b64, "mov.b64", w.sel(w.mul(a, double(0x1p54)), a, small)))
	const root = 0x3FE6A09E // the upper word of √½
	e := w.op(b32, "shr.s32", w.op(b32, "sub.s32", words[1], whole(root)), "20")
	bits := w.new(b64)
	w.line("mov.b64 %s, {%s, %s}", bits, words[0], w.op(b32, "sub.s32", words[1], w.op(b32, "shl.b32", e, "20")))
	m := w.op(f64, "mov.b64", bits)
	n := w.op(f64, "cvt.rn.f64.s32", w.op(b32, "sub.s32", e, w.op(b32, "selp.b32", "54", "0", small)))

	f, d := w.sub(m, double(1)), w.add(m, double(1))
	dLow := w.sub(m, w.sub(d, double(1)))
	inverse := w.do("rcp.rn", d)
	s := w.mul(f, inverse)
	sLow := w.mul(w.fma(w.neg(s), dLow, w.fma(w.neg(s), d, f)), inverse)
	q := w.mul(s, s)
	qLow := w.fma(w.add(s, s), sLow, w.fma(s, s, w.neg(q)))
	k, kLow := w.sum2(double(twoThirds), w.mul(q, w.poly(q, log64Poly)))
	kLow = w.add(kLow, double(twoThirdsBelow))
	u := w.mul(s, q)
	uLow := w.add(w.fma(s, q, w.neg(u)), w.fma(s, qLow, w.mul(sLow, q)))
	cube := w.mul(u, k)
	cubeLow := w.add(w.fma(u, k, w.neg(cube)), w.fma(u, kLow, w.mul(uLow, k)))

	high, low1 := w.sum2(w.mul(n, double(ln2High)), w.add(s, s))
	high, low2 := w.sum2(high, cube)
	low = w.add(w.add(low1, low2), w.add(w.add(sLow, sLow), w.fma(n, double(ln2Low), cubeLow)))
	return w.sum2(high, low)
}

// log64 returns the natural logarithm.
func (w arith64) log64(x reg) reg {
	y, _ := w.logParts(x)
	y = w.sel(x, y, w.is("equ", x, double(math.Inf(1)))) // infinity, and NaN
	y = w.sel(double(math.NaN()), y, w.is("lt", x, double(0)))
	return w.sel(double(math.Inf(-1)), y, w.is("eq", x, double(0)))
}

// turn64 returns the sine of x if quarter is 0, the cosine if it is 1. r is x less the
// nearest multiple of π/2. For |x| up to 2⁵⁰ its error is at most one unit in the last
// place: the first subtraction is exact, as both sides are multiples of 2⁻⁵³.
func (w arith64) turn64(x, quarter reg) reg {
	n := w.op(f64, "cvt.rni.f64.f64", w.mul(x, double(2/math.Pi)))
	r := w.fma(n, double(-quarter3), w.fma(n, double(-quarter2), w.fma(n, double(-quarter1), x)))
	q := w.op(b32, "add.u32", w.op(b32, "cvt.u32.u64", w.op(b64, "cvt.rni.s64.f64", n)), quarter)
	s := w.mul(r, r)
	sin := w.fma(w.mul(s, r), w.poly(s, sin64Poly), r)
	cos := w.add(w.fma(w.mul(s, s), w.poly(s, cos64Poly), w.mul(s, double(-0.5))), double(1))
	return w.quadrant(sin, cos, q)
}

// erfParts64 returns |z|, and erf(z) as near, which is right for |z| < 1, and erfc(|z|)
// as rest, which is right for all others. rest is the exponential of -z² times a
// polynomial in (|z|-4)/(|z|+4), divided by 1+2|z| (Shepherd and Laframboise 1981). The
// exponential takes z² as s and its rounding error low, since it would magnify that
// error.
func (w arith64) erfParts64(z reg) (abs, near, rest reg) {
	abs = w.abs(z)
	s := w.mul(abs, abs)
	near = w.fma(w.poly(s, erf64Poly), z, z)
	a := w.atMost(abs, 28)
	s = w.mul(a, a)
	low := w.fma(a, a, w.neg(s))
	t := w.div(w.sub(a, double(4)), w.add(a, double(4)))
	scaled := w.div(w.poly(t, erfc64Poly), w.fma(a, double(2), double(1)))
	return abs, near, w.mul(w.exp64(w.neg(s), w.neg(low)), scaled)
}

// power returns x to the power of y as IEEE 754's pow does: the exponential of y·log|x|.
// The logarithm has two parts, so that results that are whole numbers are exact.
func (w arith64) power(x, y reg) reg {
	zero, one, inf := double(0), double(1), double(math.Inf(1))
	ax := w.abs(x)
	high, low := w.logParts(x)
	high = w.sel(double(math.Inf(-1)), high, w.is("eq", ax, zero))
	high = w.sel(ax, high, w.is("equ", ax, inf)) // infinity, and NaN
	p := w.mul(y, high)
	pLow := w.fma(y, low, w.fma(y, high, w.neg(p)))
	pLow = w.sel(pLow, zero, w.is("lt", w.abs(p), double(1000)))
	r := w.exp64(p, pLow)

	// If x is negative, the result is negative for odd y, positive for even y, and NaN if
	// y is no whole number.
	floor := w.do("cvt.rmi.f64", y)
	half := w.mul(y, double(0.5))
	odd := w.sel(one, zero, w.is("neu", half, w.do("cvt.rmi.f64", half)))
	odd = w.sel(odd, zero, w.is("eq", y, floor))
	r = w.sel(w.copySign(r, x), r, w.is("eq", odd, one))
	none := w.sel(one, zero, w.is("neu", y, floor))
	none = w.sel(none, zero, w.is("lt", x, zero))
	none = w.sel(none, zero, w.is("gt", x, double(math.Inf(-1))))
	r = w.sel(double(math.NaN()), r, w.is("eq", none, one))

	// 1 to any power, any x to the power of 0, and -1 to an infinite one.
	r = w.sel(one, r, w.is("eq", x, one))
	r = w.sel(one, r, w.is("eq", y, zero))
	endless := w.sel(w.abs(y), zero, w.is("eq", x, double(-1)))
	return w.sel(one, r, w.is("eq", endless, inf))
}
