package elementary_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/tensor/internal/elementary"
)

// TestEnds compares with values of more digits, rounded: of numbers at which package math
// is right, of those at which its assembly is not, and of the special ones.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       func(float64) float64
		x, want float64
	}{
		{"exp", elementary.Exp, 1, math.E},
		{"exp", elementary.Exp, 709, 8.218407461554972e307},
		{"exp", elementary.Exp, 709.5, 1.3549863193146328e308},
		{"exp", elementary.Exp, 709.75, 1.7398368732641605e+308},
		{"exp", elementary.Exp, 709.78, 1.7928227943945155e+308},
		{"exp", elementary.Exp, 709.79, math.Inf(1)},
		{"exp", elementary.Exp, 710, math.Inf(1)},
		{"exp", elementary.Exp, 1000, math.Inf(1)},
		{"exp", elementary.Exp, -745, 5e-324},
		{"exp", elementary.Exp, math.Inf(-1), 0},
		{"log", elementary.Log, math.E, 1},
		{"log", elementary.Log, 5e-324, -744.4400719213812},
		{"log", elementary.Log, 1e-310, -713.8013788281542},
		{"log", elementary.Log, 0x1p-1022, -708.3964185322641},
		{"log", elementary.Log, 0, math.Inf(-1)},
		{"log", elementary.Log, math.Inf(1), math.Inf(1)},
	} {
		got := c.f(c.x)
		if got != c.want && !(math.Abs(got-c.want) <= 0x1p-51*math.Abs(c.want)) {
			t.Errorf("%s(%v) is %v, expected %v", c.name, c.x, got, c.want)
		}
	}
	if x := elementary.Exp(math.NaN()); x == x {
		t.Errorf("exp(NaN) is %v", x)
	}
	if x := elementary.Log(-1); x == x {
		t.Errorf("log(-1) is %v", x)
	}
}

// TestPow compares with exact products and roots, and with package math where a result is
// special.
func TestPow(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		x := math.Float64frombits(r.Uint64N(0x7ff0 << 48))
		if r.IntN(2) == 0 {
			x = math.Abs(1 + r.NormFloat64()*math.Exp2(-float64(r.IntN(40))))
		}
		n := int((2*r.Float64() - 1) * min(8*746/max(math.Abs(math.Log(x)), 1e-3), 1<<20))
		near(t, x, float64(n)/8, rounded(x, n))
		if n&7 == 0 {
			near(t, -x, float64(n/8), math.Copysign(rounded(x, n), 1-2*float64(n/8&1)))
		}
	}
	for n := 1; n < 2000; n += 7 { // the largest powers that are finite, less 4 ulp
		for _, n := range []int{n, -n} {
			x := math.Pow(math.MaxFloat64, 8/float64(n))
			for rounded(x, n) > math.MaxFloat64*(1-0x1p-51) {
				x = math.Nextafter(x, 1)
			}
			near(t, x, float64(n)/8, rounded(x, n))
		}
	}
	near(t, 1+0x1p-52, 0x1p53, 7.389056098930649)
	near(t, 0x1p-1074, -0.5, 0x1p537)
	for _, x := range []float64{0, 1, 2, 0.5, math.Inf(1), math.NaN(), 0x1p-1060, math.MaxFloat64} {
		for _, y := range []float64{0, 1, 2, 3, 0.5, 2.5, 1e300, math.Inf(1), math.NaN()} {
			for _, sx := range []float64{1, -1} {
				for _, sy := range []float64{1, -1} {
					x, y := math.Copysign(x, sx), math.Copysign(y, sy)
					if want := math.Pow(x, y); want == 0 || want-want != 0 {
						near(t, x, y, want)
					}
				}
			}
		}
	}
}

func near(t *testing.T, x, y, want float64) {
	t.Helper()
	got := elementary.Pow(x, y)
	same := got == want && math.Signbit(got) == math.Signbit(want) || got != got && want != want
	if !same && !(math.Abs(got-want) <= max(2*math.Ldexp(1, math.Ilogb(want)-52), 0x1p-1073)) {
		t.Errorf("%v to the power of %v is %v, expected %v", x, y, got, want)
	}
}

// rounded returns x to the power of n/8.
func rounded(x float64, n int) float64 {
	f := new(big.Float).SetPrec(300).SetFloat64(x)
	f.Sqrt(f).Sqrt(f).Sqrt(f)
	y := new(big.Float).SetPrec(300).SetInt64(1)
	for m := max(n, -n); m > 0; m >>= 1 {
		if m&1 != 0 {
			y.Mul(y, f)
		}
		f.Mul(f, f)
	}
	if n < 0 {
		y.Quo(big.NewFloat(1), y)
	}
	z, _ := y.Float64()
	return z
}
