package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGemmInts compares with Gemm: all layouts of a and b, few rows and many, more
// columns than are added up at a time, and what lies between the rows of c.
func TestGemmInts(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	checkGemmInts(t, r, func() uint8 { return uint8(r.Uint32()) })
	checkGemmInts(t, r, func() int32 { return int32(r.Uint32()) })
	checkGemmInts(t, r, func() int64 { return int64(r.Uint64()) })
}

func checkGemmInts[T Integer](t *testing.T, r *rand.Rand, draw func() T) {
	t.Helper()
	matrix := func(rows, cols, layout int) Matrix[T] {
		data := make([]T, 3*max(rows*cols, 1))
		for i := range data {
			data[i] = draw()
		}
		switch layout {
		case 0:
			return Matrix[T]{data, max(cols, 1), 1}
		case 1:
			return Matrix[T]{data, 1, max(rows, 1)}
		}
		return Matrix[T]{data, 3 * max(cols, 1), 3}
	}
	for _, m := range []int{0, 1, 2, fewInts, fewInts + 1} {
		for _, n := range []int{0, 1, 5, intCols + 3} {
			for _, k := range []int{0, 1, 3, 4, 9, 37} {
				for layouts := range 9 {
					a, b := matrix(m, k, layouts/3), matrix(k, n, layouts%3)
					got := make([]T, m*(n+2)+1)
					for i := range got {
						got[i] = draw()
					}
					want, accumulate := slices.Clone(got), r.IntN(2) == 0
					GemmInts(m, n, k, a, b, accumulate, got, n+2, nil)
					Gemm(m, n, k, 1, a, b, accumulate, want, n+2, nil)
					if !slices.Equal(got, want) {
						t.Fatalf("%d×%d×%d, layouts %d, accumulate %v: another product", m, n, k, layouts, accumulate)
					}
				}
			}
		}
	}
}
