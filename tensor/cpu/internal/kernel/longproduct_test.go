package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestLongProduct compares products with those of package big, on every level. The
// factors end where the next byte can't be read.
func TestLongProduct(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		product := NewFolds(k, Doubles(k.Level)).LongProduct
		mem := edgeOf[float64](t)
		for range 200 {
			n, spread := r.IntN([]int{40, 700, 5000}[r.IntN(3)]), []float64{1, 40, 1000}[r.IntN(3)]
			x := mem[len(mem)-n:]
			want, least, most := new(big.Float).SetPrec(200).SetInt64(1), math.MaxInt, math.MinInt
			for i := range x {
				x[i] = math.Ldexp(1+r.Float64(), int(spread*(2*r.Float64()-1))) * float64(1-2*r.IntN(2))
				want.Mul(want, big.NewFloat(x[i]))
				least, most = min(least, exponent(x[i])), max(most, exponent(x[i]))
			}
			got, cut := One(), r.IntN(n+1)
			faultless(t, fmt.Sprint(n, " factors"), func() {
				got = product(product(got, x[:cut]), x[cut:])
			})
			if got.Least != least || got.Most != most || !(math.Abs(got.M) >= 1 && math.Abs(got.M) < 2) {
				t.Fatalf("%d factors of exponents %d to %d: %+v", n, least, most, got)
			}
			had := new(big.Float).SetMantExp(big.NewFloat(got.M), got.E)
			ratio, _ := had.Quo(had, want).Float64()
			if off := math.Abs(ratio - 1); !(off <= float64(n+1)*0x1p-53) {
				t.Fatalf("the product of %d factors is off by a factor of %v from 1", n, off)
			}
		}
	})
}

// TestLongProductOfOthers wants a factor that is no normal number to be seen wherever it
// stands.
func TestLongProductOfOthers(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		product := NewFolds(k, Doubles(k.Level)).LongProduct
		x := make([]float64, 133)
		for i := range x {
			for j := range x {
				x[j] = -3
			}
			if got := product(One(), x); !got.Normal() {
				t.Fatalf("factors of 3 are not normal: %+v", got)
			}
			for _, v := range []float64{0, math.Copysign(0, -1), 5e-324, 0x1p-1022 - 5e-324, math.Inf(1), math.Inf(-1), math.NaN()} {
				x[i] = v
				if got := product(One(), x); got.Normal() {
					t.Fatalf("%v at %d is taken for a normal number: %+v", v, i, got)
				}
			}
		}
	})
}
