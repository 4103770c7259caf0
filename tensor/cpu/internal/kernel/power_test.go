package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPower compares power with math.Pow for bases of all exponents and near 1, where
// logarithms are small, and for the exponents that have a way of their own.
func TestPower(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	try := func(x, y float32) {
		got, want := power(x, y), math.Pow(float64(x), float64(y))
		u := ulps(got, want, 0)
		if !(u <= 0.501) {
			t.Fatalf("%v to the power of %v is %v, %.3g ulp from %v", x, y, got, u, want)
		}
		worst = max(worst, u)
	}
	for range 100_000 {
		x := math.Float32frombits(r.Uint32N(0x7f800000))
		near := math.Float32frombits(0x3f800000 - 1<<20 + r.Uint32N(1<<21))
		y := (r.Float32() - 0.5) * 300 / float32(1+math.Abs(math.Log2(float64(x))))
		try(x, y)
		try(near, (r.Float32()-0.5)*1000)
		try(near, y)
		for _, y := range []float32{2, 3, -1, 0.5, -2, 0, 1, 4, 2.5} {
			try(x, y)
			try(-x, y)
		}
	}
	t.Logf("at most %.4f ulp", worst)
}
