package element

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// Every value survives the way to float32 and back; a signalling NaN becomes quiet.
func TestRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := Float16(i)
		want := h
		if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
			want |= 0x200
		}
		if got := ToFloat16(h.Float32()); got != want {
			t.Fatalf("F16 %#04x comes back as %#04x, expected %#04x", i, got, want)
		}
		b := BFloat16(i)
		wantB := b
		if b&0x7f80 == 0x7f80 && b&0x7f != 0 {
			wantB |= 0x40
		}
		if got := ToBFloat16(b.Float32()); got != wantB {
			t.Fatalf("BF16 %#04x comes back as %#04x, expected %#04x", i, got, wantB)
		}
	}
}

// value is sign, exponent and fraction as the formats' definition has them.
func value(bits, exponent, fraction int) float64 {
	e, f := bits>>fraction&(1<<exponent-1), bits&(1<<fraction-1)
	bias := 1<<(exponent-1) - 1
	v := math.Ldexp(float64(f), 1-bias-fraction)
	if e == 1<<exponent-1 {
		v = math.Inf(1)
		if f != 0 {
			return math.NaN()
		}
	} else if e > 0 {
		v = math.Ldexp(float64(f+1<<fraction), e-bias-fraction)
	}
	if bits>>(exponent+fraction) != 0 {
		v = -v
	}
	return v
}

func TestValues(t *testing.T) {
	for i := range 1 << 16 {
		for _, c := range []struct {
			name string
			got  float32
			want float64
		}{{"F16", Float16(i).Float32(), value(i, 5, 10)}, {"BF16", BFloat16(i).Float32(), value(i, 8, 7)}} {
			if float64(c.got) != c.want && !(c.got != c.got && c.want != c.want) || math.Signbit(float64(c.got)) != (i>>15 != 0) {
				t.Fatalf("%s %#04x is %v, expected %v", c.name, i, c.got, c.want)
			}
		}
	}
}

// nearest rounds to fraction bits below the leading one, in big arithmetic, with emin the
// exponent of the smallest normal number.
func nearest(x float32, fraction, emin int, most float64) float64 {
	if x == 0 || x != x || math.IsInf(float64(x), 0) {
		return float64(x)
	}
	_, e := math.Frexp(math.Abs(float64(x)))
	unit := math.Ldexp(1, max(e-1, emin)-fraction)
	q, _ := new(big.Float).SetPrec(200).Quo(big.NewFloat(float64(x)), big.NewFloat(unit)).Float64()
	if v := math.RoundToEven(q) * unit; math.Abs(v) <= most {
		return v
	}
	return math.Inf(int(math.Copysign(1, float64(x))))
}

func TestRounding(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	n, stride := 200_000, 1
	if testsize.Sampled() {
		n, stride = 10_000, 37
	}
	check := func(x float32) {
		t.Helper()
		if x != x {
			if h, b := ToFloat16(x).Float32(), ToBFloat16(x).Float32(); h == h || b == b {
				t.Errorf("NaN %#08x became %v and %v", math.Float32bits(x), h, b)
			}
			return
		}
		if got, want := float64(ToFloat16(x).Float32()), nearest(x, 10, -14, 65504); got != want {
			t.Errorf("F16 of %v (%#08x) is %v, expected %v", x, math.Float32bits(x), got, want)
		}
		if got, want := float64(ToBFloat16(x).Float32()), nearest(x, 7, -126, 0x1.fep127); got != want {
			t.Errorf("BF16 of %v (%#08x) is %v, expected %v", x, math.Float32bits(x), got, want)
		}
	}
	for range n {
		check(math.Float32frombits(r.Uint32()))
	}
	for range n { // F16's range, its subnormals included
		check(math.Float32frombits(r.Uint32()&0x807fffff | (100+r.Uint32N(45))<<23))
	}
	// the middle between two neighbours, and what lies beside it
	for i := 0; i < 1<<16-1; i += stride {
		a, b := Float16(i).Float32(), Float16(i+1).Float32()
		c, d := BFloat16(i).Float32(), BFloat16(i+1).Float32()
		for _, mid := range []float32{a + (b-a)/2, c + (d-c)/2} {
			check(mid)
			check(math.Nextafter32(mid, 1e38))
			check(math.Nextafter32(mid, -1e38))
		}
	}
	for _, x := range []float32{65504, 65519.996, 65520, 65536, math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-25, 0x1.000002p-25, float32(math.Inf(-1))} {
		check(x)
		check(-x)
	}
}
