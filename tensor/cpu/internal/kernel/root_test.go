package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// TestRoots wants roots to be rounded correctly: all numbers that differ in more than a
// power of 4, and numbers at the ends of the range that is computed by multiplications
// and far outside of it.
func TestRoots(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		in, out := make([]float32, 1<<16), make([]float32, 1<<16)
		check := func() {
			t.Helper()
			k.Sqrt(out, in)
			for i, x := range in {
				if want := float32(math.Sqrt(float64(x))); !identical(out[i], want) {
					t.Fatalf("√%v (%#08x) is %v, expected %v", x, math.Float32bits(x), out[i], want)
				}
			}
		}
		step := 1
		if testsize.Sampled() {
			step = 16
		}
		for i := 0; i < 1<<24; i += len(in) * step { // mantissas, and two exponents
			first := uint32(126<<23 + i + len(in)*r.IntN(step))
			for j := range in {
				in[j] = math.Float32frombits(first + uint32(j))
			}
			check()
		}
		for _, edge := range []uint32{0, math.Float32bits(0x1p-126), math.Float32bits(0x1p-96), math.Float32bits(0x1p96), math.Float32bits(float32(math.Inf(1)))} {
			for _, sign := range []uint32{0, 1 << 31} {
				for j := range in {
					in[j] = math.Float32frombits(sign | (edge-uint32(len(in)/2)+uint32(j))&math.MaxInt32)
				}
				check()
			}
		}
		for range 16 {
			for j := range in { // of any exponent
				in[j] = math.Float32frombits(r.Uint32())
			}
			check()
		}
	})
}
