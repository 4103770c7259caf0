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

// TestNormals wants every level to have the bits of Normal, for words of all kinds and
// any number of them, and nothing written beyond.
func TestNormals(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		ends := []uint32{0, 1 << 8, math.MaxUint32, 1 << 31, 1<<29 - 1<<8, 1 << 29, 3 << 29}
		for _, n := range append(lengths(), 4001) {
			words := make([]uint32, n+n%2)
			for i := range words {
				words[i] = r.Uint32()
				if r.IntN(4) == 0 {
					words[i] = ends[r.IntN(len(ends))]
				}
			}
			want := make([]float32, n+1)
			for i := range n {
				c, s := Normal(words[i&^1], words[i|1])
				want[i] = c
				if i%2 == 1 {
					want[i] = s
				}
			}
			got := make([]float32, n+1)
			got[n], want[n] = 7, 7
			k.Normals(got[:n], words)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d numbers: %g at %d of words %#x, %#x, expected %g", n, got[i], i, words[i&^1], words[min(i|1, len(words)-1)], want[i])
				}
			}
		}
	})
}
