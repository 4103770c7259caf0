// Package elementary has the exponential and the logarithm of float64, right at the ends
// of their ranges: the assembly that package math has for amd64 returns +Inf for the
// exponentials of numbers from 709.5 on, and nearly the same logarithm for all subnormal
// numbers.
package elementary

import "math"

const (
	// lastSafe is a number up to which math.Exp is right.
	lastSafe = 709
	// scale makes subnormal numbers normal.
	scale, scaleBits = 0x1p54, 54
)

// Exp returns e to the power of x.
func Exp(x float64) float64 {
	if x > lastSafe && x < lastSafe+1 {
		return math.Exp(x-1) * math.E // x-1 is exact
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
