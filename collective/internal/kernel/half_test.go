package kernel

import (
	"math"
	"testing"
)

// value returns the number that 16 bits encode by the definition: sign, exponent of the
// given width, fraction.
func value(h uint16, exponent, fraction int) float64 {
	e := int(h>>fraction) & (1<<exponent - 1)
	f := float64(h & (1<<fraction - 1))
	bias, top := 1<<(exponent-1)-1, 1<<exponent-1
	x := math.Ldexp(f, 1-bias-fraction)
	switch {
	case e == top && f != 0:
		return math.NaN()
	case e == top:
		x = math.Inf(1)
	case e > 0:
		x = math.Ldexp(1+math.Ldexp(f, -fraction), e-bias)
	}
	if h&0x8000 != 0 {
		x = -x
	}
	return x
}

// TestConversions checks each of the 65,536 values of both formats against the
// definition, and rounding at each value, halfway to the next, and just beside.
func TestConversions(t *testing.T) {
	for _, f := range []struct {
		name               string
		exponent, fraction int
		widen              func(uint16) float32
		narrow             func(float32) uint16
	}{{"f16", 5, 10, halfToFloat, floatToHalf}, {"bf16", 8, 7, brainToFloat, floatToBrain}} {
		inf := uint16(1<<f.exponent-1) << f.fraction
		for h := range 1 << 16 {
			h := uint16(h)
			want := value(h, f.exponent, f.fraction)
			got := f.widen(h)
			if math.IsNaN(want) {
				if !math.IsNaN(float64(got)) || !math.IsNaN(value(f.narrow(got), f.exponent, f.fraction)) {
					t.Fatalf("%s %#x: a NaN became %v, then %#x", f.name, h, got, f.narrow(got))
				}
				continue
			}
			if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
				t.Fatalf("%s %#x is %v, want %v", f.name, h, got, want)
			}
			if back := f.narrow(got); back != h {
				t.Fatalf("%s %#x became %#x", f.name, h, back)
			}
			if h&0x7fff >= inf {
				continue
			}
			// The next value away from zero; beyond the largest, the value of one more
			// step.
			next := value(h+1, f.exponent, f.fraction)
			if h&0x7fff == inf-1 {
				next = want + (want - value(h-1, f.exponent, f.fraction))
			}
			half := float32((want + next) / 2)
			even := h + h&1
			if float64(half) != (want+next)/2 {
				continue // bf16 subnormals: halfway is no float32
			}
			away := math.Float32frombits(math.Float32bits(half) + 1)
			toward := math.Float32frombits(math.Float32bits(half) - 1)
			for x, want := range map[float32]uint16{half: even, away: h + 1, toward: h} {
				if got := f.narrow(x); got != want {
					t.Fatalf("%s: %v between %#x and the next rounds to %#x, want %#x", f.name, x, h, got, want)
				}
			}
		}
	}
}
