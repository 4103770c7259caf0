package kernel

import "math"

// LongProduct is a product of float64s that neither overflows nor underflows: M times
// 2^E. Of no factors it is [One].
type LongProduct struct {
	M float64 // at least 1 and less than 2, or the negative of that
	E int
	// Least and Most are the exponents of the smallest and of the largest factor. The
	// product holds only if all factors are normal numbers.
	Least, Most int
}

// One returns the product of no factors.
func One() LongProduct { return LongProduct{M: 1, Least: math.MaxInt, Most: math.MinInt} }

// Normal reports whether all factors are normal: not 0, subnormal, infinite or NaN.
func (s LongProduct) Normal() bool { return s.Least >= leastExponent && s.Most <= mostExponent }

// The exponents of normal numbers.
const (
	leastExponent, mostExponent = -1022, 1023
	exponentBits                = 0x7ff << 52
)

// times multiplies s by a normal number.
func (s *LongProduct) times(v float64) {
	s.M *= significand(v)
	s.E += exponent(v)
	s.M, s.E = significand(s.M), s.E+exponent(s.M)
}

// exponent returns e of v = m * 2^e; -1023 of 0 and subnormal numbers, 1024 of infinities
// and NaN.
func exponent(v float64) int { return int(math.Float64bits(v)&exponentBits>>52) - 1023 }

// significand returns m of v = m * 2^e.
func significand(v float64) float64 {
	return math.Float64frombits(math.Float64bits(v)&^exponentBits | 1023<<52)
}

// longProductGo returns s times the numbers of x.
func longProductGo(s LongProduct, x []float64) LongProduct {
	for _, v := range x {
		e := exponent(v)
		s.Least, s.Most = min(s.Least, e), max(s.Most, e)
		s.times(v)
	}
	return s
}
