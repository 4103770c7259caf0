package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestGemmTaps wants products whose rows of b lie anywhere to agree with the loop that
// they stand for, and to write only c.
func TestGemmTaps(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for range 400 {
			m, n, depth := 1+r.IntN(20), 1+r.IntN(70), r.IntN(40)
			ldc := n + r.IntN(5)
			a := newFenced(m*depth, 3, r.Float32)
			am := Matrix[float32]{a.v, depth, 1}
			if r.IntN(2) == 0 {
				am = Matrix[float32]{a.v, 1, m}
			}
			b := newFenced(200+n+TapsPad, 1, r.Float32)
			at := make([]int, depth)
			for i := range at {
				at[i] = r.IntN(200)
			}
			c := newFenced((m-1)*ldc+n, 5, r.Float32)
			before := clone(c.v)
			add := r.IntN(2) == 0
			k.GemmTaps(m, n, depth, am, b.v, at, add, c.v, ldc)
			what := fmt.Sprintf("%dx%dx%d", m, n, depth)
			c.intact(t, what)
			for i := range m {
				for j := range ldc {
					if i*ldc+j >= len(c.v) {
						break
					}
					want := float64(before[i*ldc+j])
					if j < n {
						if !add {
							want = 0
						}
						for q, off := range at {
							want += float64(a.v[i*am.RS+q*am.CS]) * float64(b.v[off+j])
						}
					}
					scalarNear(t, fmt.Sprintf("%s at %d, %d", what, i, j), c.v[i*ldc+j], want, 1e-5)
				}
			}
		}
	})
}
