package ptx

import "math"

// The polynomials are those of the cpu engine's vector kernels, which interpolate at the
// Chebyshev points of their interval; those of log, sin and cos are Cephes'. Highest
// coefficients first.
var (
	// (eʳ-1-r)/r² for |r| ≤ ln2/2.
	expPoly = []float64{0.000198910799, 0.00139337312, 0.00833331048, 0.041666463, 0.166666672, 0.5}
	// (tanh(x)/x-1)/x² in x², for |x| ≤ 0.6.
	tanhPoly = []float64{-0.00626911968, 0.0211109594, -0.0538739488, 0.133329153, -0.333333313}
	// erf(x)/x-1 in x², for |x| ≤ 1.
	erfPoly = []float64{7.87587487e-05, -0.00080168643, 0.00518908724, -0.0268542115, 0.112835944, -0.37612626, 0.12837911}
	// -log(erfc(x)) for 1 ≤ x ≤ 4.
	erfcPoly = []float64{-1.6315123e-06, 4.59526127e-05, -0.000595966529, 0.0047558872, -0.0264111832, 0.110063486, 0.631842852, 1.13022399, -0.000317857368}
	// (log(1+f)-f+f²/2)/f³ for √½-1 ≤ f ≤ √2-1.
	logPoly = []float64{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	// (sin(r)/r-1)/r² and (cos(r)-1+r²/2)/r⁴ in r², for |r| ≤ π/4.
	sinPoly = []float64{-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}
	cosPoly = []float64{2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}
)

// twoTo32 returns 2 to an integer from -126 to 127.
func (w *arith) twoTo32(n reg) reg {
	return w.op(f32, "mov.b32", w.op(b32, "shl.b32", w.op(b32, "add.s32", n, "127"), "23"))
}

// exp32 returns eˣ = 2ⁿ·eʳ with n = round(x/ln2). 2ⁿ may lie outside of the normal
// numbers, so it is the product of two halves.
func (w *arith) exp32(x reg) reg {
	x = w.atLeast(w.atMost(x, 89), -104)
	n := w.op(f32, "cvt.rni.f32.f32", w.mul(x, single(math.Log2E)))
	r := w.fma(n, single(0.693359375-math.Ln2), w.fma(n, single(-0.693359375), x))
	p := w.add(w.fma(w.poly(r, expPoly), w.mul(r, r), r), single(1))
	i := w.op(b32, "cvt.rni.s32.f32", n)
	half := w.op(b32, "shr.s32", i, "1")
	return w.mul(w.mul(p, w.twoTo32(half)), w.twoTo32(w.op(b32, "sub.s32", i, half)))
}

// log32 returns the natural logarithm: x is m·2ᵉ with m from √½ to √2.
func (w *arith) log32(x reg) reg {
	small := w.is("lt", x, single(0x1p-126))
	scaled := w.sel(w.mul(x, single(0x1p23)), x, small)
	bits := w.op(b32, "mov.b32", scaled)
	// The exponent of x/√½.
	e := w.op(b32, "shr.s32", w.op(b32, "sub.s32", bits, whole(int(math.Float32bits(float32(math.Sqrt2/2))))), "23")
	f := w.sub(w.op(f32, "mov.b32", w.op(b32, "sub.s32", bits, w.op(b32, "shl.b32", e, "23"))), single(1))
	n := w.op(f32, "cvt.rn.f32.s32", w.op(b32, "sub.s32", e, w.op(b32, "selp.b32", "23", "0", small)))
	s := w.mul(f, f)
	y := w.mul(w.mul(f, s), w.poly(f, logPoly))
	y = w.fma(n, single(math.Ln2-0.693359375), y)
	y = w.fma(s, single(-0.5), y)
	y = w.fma(n, single(0.693359375), w.add(f, y))
	y = w.sel(x, y, w.is("equ", x, single(math.Inf(1)))) // infinity, and NaN
	y = w.sel(single(math.NaN()), y, w.is("lt", x, single(0)))
	return w.sel(single(math.Inf(-1)), y, w.is("eq", x, single(0)))
}

// turn32 returns the sine of an f64, and with quarter 1 the cosine. The angle less the
// multiple of π/2 next to it is computed in f64, which is enough for single(1) up to 2⁵².
func (w *arith) turn32(wide, quarter reg) reg {
	const high, low = math.Pi / 2, 6.123233995736766e-17
	n := w.op(f64, "cvt.rni.f64.f64", w.op(f64, "mul.rn.f64", wide, double(2/math.Pi)))
	rest := w.op(f64, "fma.rn.f64", n, double(-low), w.op(f64, "fma.rn.f64", n, double(-high), wide))
	r := w.op(f32, "cvt.rn.f32.f64", rest)
	q := w.op(b32, "add.u32", w.op(b32, "cvt.u32.u64", w.op(b64, "cvt.rni.s64.f64", n)), quarter)
	s := w.mul(r, r)
	sin := w.fma(w.mul(s, r), w.poly(s, sinPoly), r)
	cos := w.add(w.fma(w.mul(s, s), w.poly(s, cosPoly), w.mul(s, single(-0.5))), single(1))
	return w.quadrant(sin, cos, q)
}

// tanh32 returns x + x³P(x²) near single(0) and 1 - 2/(e²ˣ+1) beyond.
func (w *arith) tanh32(x reg) reg {
	a := w.abs(x)
	far := w.sub(single(1), w.div(single(2), w.add(w.exp32(w.add(a, a)), single(1))))
	s := w.mul(a, a)
	near := w.fma(w.mul(s, a), w.poly(s, tanhPoly), a)
	return w.copySign(w.sel(near, far, w.is("lt", a, single(0.6))), x)
}

// erfParts32 returns |z|, erf(z) for |z| < 1, and erfc(|z|) for the others. Beyond 4,
// where the polynomial ends, erfc is less than half a unit in the last place of 1; there
// e to -z² stands for it, so that it still falls to 0.
func (w *arith) erfParts32(z reg) (abs, near, rest reg) {
	abs = w.abs(z)
	s := w.mul(abs, abs)
	q := w.poly(w.atMost(abs, 4), erfcPoly)
	far := w.sel(s, q, w.is("gt", s, q))
	return abs, w.fma(w.poly(s, erfPoly), z, z), w.exp32(w.neg(far))
}
