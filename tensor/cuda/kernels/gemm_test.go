package kernels

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// TestGEMM multiplies batches of matrices, plain and transposed. Each element has the
// bits of a loop of fused steps over k.
func TestGEMM(t *testing.T) {
	for _, c := range []struct{ batch, m, n, k int }{{1, 64, 64, 32}, {2, 70, 33, 19}, {1, 1, 128, 16}, {1, 5, 3, 0}} {
		for turned := range 4 {
			t.Run(fmt.Sprintf("%+v %d", c, turned), func(t *testing.T) {
				a, b := random(c.batch*c.m*c.k, 1), random(c.batch*c.k*c.n, 2)
				am, ak, bk, bn := c.k, 1, c.n, 1
				if turned&1 != 0 {
					am, ak = 1, c.m
				}
				if turned&2 != 0 {
					bk, bn = 1, c.k
				}
				want := make([]float32, c.batch*c.m*c.n)
				for at := range want {
					i, j, z := at/c.n%c.m, at%c.n, at/c.n/c.m
					for k := range c.k {
						x, y := a[z*c.m*c.k+i*am+k*ak], b[z*c.k*c.n+k*bk+j*bn]
						want[at] = fused(x, y, want[at])
					}
				}
				g := cudatest.New(t, 2, os.Getenv)
				out := g.Floats(t, make([]float32, len(want)))
				args := new(driver.Args).Pointer(g.Floats(t, a)).Pointer(g.Floats(t, b)).Pointer(out).
					Uint32(uint32(c.m)).Uint32(uint32(c.n)).Uint32(uint32(c.k))
				for _, stride := range []int{am, ak, c.m * c.k, bk, bn, c.k * c.n} {
					args.Uint64(uint64(stride))
				}
				grid(t, g, "gemm", "gemm_small_f32", (c.m*c.n+255)/256, 1, c.batch, args)
				if got := g.ReadFloats(t, out, len(want)); !slices.Equal(got, want) {
					t.Error("other values of a thread an element")
				}
				did := grid(t, g, "gemm", "gemm_f32", (c.n+63)/64, (c.m+63)/64, c.batch, args)
				if got := g.ReadFloats(t, out, len(want)); !slices.Equal(got, want) {
					t.Error("other values")
				}
				if did.Conflicts != 0 {
					t.Errorf("%d bank conflicts", did.Conflicts)
				}
				if c.m%64 == 0 {
					coalesced(t, did)
				}
			})
		}
	}
}

// fused is x*y + s, rounded once. The product of two float32 is exact as a float64; of
// the sum, the error decides where the float64 lies between two float32.
func fused(x, y, s float32) float32 {
	p := float64(x) * float64(y)
	sum := p + float64(s)
	// TwoSum: sum + rest is exactly p + s.
	v := sum - p
	rest := (p - (sum - v)) + (float64(s) - v)
	if rest != 0 && math.Float64bits(sum)&1 == 0 { // round to odd
		sum = math.Nextafter(sum, math.Copysign(math.Inf(1), rest))
	}
	return float32(sum)
}
