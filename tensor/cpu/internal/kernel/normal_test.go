package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// TestNormal compares with package math, at random words and at the ends of all
// intervals.
func TestNormal(t *testing.T) {
	words := []uint32{0, 1 << 8, 2 << 8, math.MaxUint32, math.MaxUint32 - 1<<8}
	for i := range uint32(64) {
		for d := range uint32(3) {
			words = append(words, i<<26+(d-1)<<8, 1<<31+i<<25+(d-1)<<8)
		}
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	more := 400
	if testsize.Sampled() {
		more = 50
	}
	for range more {
		words = append(words, r.Uint32())
	}
	for _, u := range words {
		for _, v := range words {
			radius := math.Sqrt(-2 * math.Log(float64(u>>8+1)*0x1p-24))
			sin, cos := math.Sincos(2 * math.Pi * (float64(v>>8) * 0x1p-24))
			c, s := Normal(u, v)
			for _, x := range [][2]float64{{float64(c), radius * cos}, {float64(s), radius * sin}} {
				// 2π in float64 leaves 1e-15 at the zeros of both
				ulp := max(math.Abs(x[1])*0x1p-23, 0x1p-149)
				if !(math.Abs(x[0]-x[1]) <= 0.501*ulp+1e-14) {
					t.Fatalf("seed %d: Normal(%#x, %#x): %v, expected %v", seed, u, v, x[0], x[1])
				}
			}
		}
	}
}
