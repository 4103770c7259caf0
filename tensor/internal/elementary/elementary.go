// Package elementary has the exponential, the logarithm and powers of float64, right at
// the ends of their ranges. The assembly that package math has for amd64 returns +Inf for
// the exponentials of numbers from 709.5 on, and nearly the same logarithm for all
// subnormal numbers; that for arm64 makes the least exponentials 0. Its powers follow
// from these, and multiply once for every bit of the exponent, so that they are far off
// where that is large.
package elementary

import "math"

const (
	// lastSafe is a number up to which math.Exp is right.
	lastSafe = 709
	// leastExp is a number below which exponentials are 0.
	leastExp = -746
	// scale makes subnormal numbers normal.
	scale, scaleBits = 0x1p54, 54
)

// Exp returns e to the power of x.
func Exp(x float64) float64 {
	if x > lastSafe && x < lastSafe+1 {
		return math.Exp(x-1) * math.E // x-1 is exact
	}
	if x < -lastSafe && x > leastExp {
		e := math.Exp(x + scaleBits*ln2) // the sum is exact
		return math.FMA(e, scaleBits*ln2Rest, e) / scale
	}
	return math.Exp(x)
}

// Log returns the natural logarithm of x.
func Log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*scale) - scaleBits*math.Ln2
	}
	return math.Log(x)
}

// Pow returns x to the power of y, within 2 units of the last place, with the special
// cases of math.Pow.
func Pow(x, y float64) float64 {
	switch {
	case x == 0 || x-x != 0 || y == 0 || y-y != 0 || x < 0 && math.Trunc(y) != y:
		return math.Pow(x, y)
	case x < 0 && math.Abs(y) < 1<<53 && int64(y)&1 != 0:
		return -Pow(-x, y)
	}
	hi, lo := logTwice(math.Abs(x))
	t := float64(y * hi) // rounded, as in product
	if t > lastSafe+1 || t < -2*lastSafe {
		return math.Exp(t)
	}
	rest, factor := math.FMA(y, hi, -t)+y*lo, 1.0
	if t > lastSafe {
		// t alone may be too large where t+rest is not
		t, rest, factor = t-ln2, rest-ln2Rest, 2
	}
	e := Exp(t)
	return factor * math.FMA(e, rest, e)
}

// The sum of ln2 and ln2Rest is the logarithm of 2. Multiples of ln2 by exponents are
// exact, and so is a number above lastSafe minus ln2.
const ln2, ln2Rest = float64(0x1.62e42fefp-1), math.Ln2 - 0x1.62e42fefp-1

// logTwice returns the logarithm of a positive finite number as the sum of hi, its
// nearest number, and lo. With x = 2ⁿ·m and f = (m-1)/(m+1), log(m) is 2f + ⅔f³ +
// f⁵Q(f²). Of these only the last is small enough for the digits of one number; the
// others are sums of two.
func logTwice(x float64) (hi, lo float64) {
	m, n := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, n = 2*m, n-1
	}
	sum := 1 + m
	left := m - (sum - 1)
	f := (m - 1) / sum
	fRest := math.FMA(-f, left, math.FMA(-f, sum, m-1)) / sum
	square, squareRest := product(f, fRest, f, fRest)
	cube, cubeRest := product(square, squareRest, f, fRest)
	const twoThirds = float64(2) / 3
	const twoThirdsRest = 2./3 - 0x1.5555555555555p-1
	third, thirdRest := product(cube, cubeRest, twoThirds, twoThirdsRest)
	q := 0.0
	for i := 25; i >= 5; i -= 2 {
		q = q*square + 2/float64(i)
	}
	whole := float64(n) * ln2
	hi = whole + 2*f
	rest := 2*f - (hi - whole)
	next := hi + third
	rest += third - (next - hi)
	rest += square*cube*q + thirdRest + 2*fRest + float64(n)*ln2Rest
	hi = next + rest
	return hi, rest - (hi - next)
}

// product returns the product of two numbers that are sums of two.
func product(a, aRest, b, bRest float64) (hi, lo float64) {
	hi = float64(a * b) // rounded: arm64 would add the whole product to what follows
	return hi, math.FMA(a, b, -hi) + (a*bRest + aRest*b)
}
