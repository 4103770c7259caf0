package kernel

import (
	"math"

	"github.com/ringside-go/ringside/tensor/internal/elementary"
)

// powerBits is the number of bits of a number between 1 and 2 that select an entry of the
// tables of power.
const powerBits = 6

// powerTables hold, for c = 1 + i/64: 1/c, the base-2 logarithm of c, or of c/2 from
// upper on, and 2^(i/64). So logarithms near 1 keep their relative error.
var powerTables = func() (t struct{ inverse, log, exp [1<<powerBits + 1]float64 }) {
	for i := range t.log {
		c := 1 + float64(i)/(1<<powerBits)
		t.inverse[i], t.exp[i] = 1/c, math.Exp2(float64(i)/(1<<powerBits))
		if i >= upper {
			c /= 2
		}
		t.log[i] = math.Log2(c)
	}
	return t
}()

// upper is the first entry that stands for a number above √2.
const upper = 27

// powers returns the functions of powers: for float32 by power.
func powers[T Float]() (Binary[T], Scalar[T]) {
	f := func(x, y T) T { return T(elementary.Pow(float64(x), float64(y))) }
	if g, ok := any(power).(func(x, y T) T); ok {
		f = g
	}
	return mapBinary(f), mapScalar(f)
}

// power is elementary.Pow rounded to a float32, up to 0.501 ulp from x to the power of
// y. A positive x goes by 2^(y*log2(x)) in float64.
func power(x, y float32) float32 {
	wide := float64(x)
	switch y {
	case 2:
		return float32(wide * wide)
	case 3:
		return float32(wide * wide * wide)
	case -1:
		return 1 / x
	}
	b := math.Float32bits(x)
	// positive and normal; y is a number
	if b-0x00800000 >= 0x7f000000 || y-y != 0 {
		return float32(elementary.Pow(wide, float64(y)))
	}
	m := b & (1<<23 - 1)
	i := (m + 1<<(22-powerBits)) >> (23 - powerBits)
	k := int(b>>23) - 127
	if i >= upper {
		k++
	}
	r := float64(1<<23|m)*0x1p-23*powerTables.inverse[i] - 1
	// ln(1+r) for |r| of at most 1/128
	ln := r - r*r*(1.0/2-r*(1.0/3-r*(1.0/4-r*(1.0/5-r*(1.0/6)))))
	t := float64(y) * (float64(k) + powerTables.log[i] + ln*math.Log2E)
	switch {
	case t >= 128:
		return float32(math.Inf(1))
	case t < -151:
		return 0
	}
	const bias = 256 << powerBits // keeps the number that is cut positive
	n := int(t*(1<<powerBits)+(bias+0.5)) - bias
	u := (t - float64(n)/(1<<powerBits)) * math.Ln2
	e := powerTables.exp[n&(1<<powerBits-1)]
	e += e * u * (1 + u*(1.0/2+u*(1.0/6+u*(1.0/24+u*(1.0/120)))))
	return float32(e * math.Float64frombits(uint64(1023+n>>powerBits)<<52))
}
