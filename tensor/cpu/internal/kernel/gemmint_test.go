package kernel

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

// TestGemmInts compares every level with Gemm: all layouts of a and b, few rows and many,
// more columns than are added up at a time, blocks of bytes, long rows, and what lies
// between the rows of c.
func TestGemmInts(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, l := range Levels() {
		p := IntProductsOf(l, PlainOf(l))
		t.Run(l.String(), func(t *testing.T) {
			checkGemmInts(t, r, p.I32, func() int32 { return int32(r.Uint32()) })
			checkGemmInts(t, r, p.I64, func() int64 { return int64(r.Uint64()) })
			var s BytesScratch
			checkGemmInts(t, r, func(m, n, k int, a, b Matrix[uint8], accumulate bool, c []uint8, ldc int, _ []uint8, stop *atomic.Bool) {
				p.U8(m, n, k, a, b, accumulate, c, ldc, &s, stop)
			}, func() uint8 { return uint8(r.Uint32()) })
		})
	}
}

func checkGemmInts[T Integer](t *testing.T, r *rand.Rand, gemm IntGemm[T], draw func() T) {
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
	sizes := [][3]int{{bytesRows + 3, 7, 20}, {3, 40, bytesDepth + 5}, {2, 5, dotLength + 70}, {1, 70, 77}, {29, 33, depthMax + 1}, {rowsMax + 1, 40, 17}}
	for _, m := range []int{0, 1, 2, 3, 5, fewInts, fewInts + 1, 13, 14, 27} {
		for _, n := range []int{0, 1, 5, 16, 33, 48, intCols + 3} {
			for _, k := range []int{0, 1, 4, 9, 37} {
				sizes = append(sizes, [3]int{m, n, k})
			}
		}
	}
	for _, size := range sizes {
		m, n, k := size[0], size[1], size[2]
		for layouts := range 9 {
			a, b := matrix(m, k, layouts/3), matrix(k, n, layouts%3)
			got := make([]T, m*(n+2)+1)
			for i := range got {
				got[i] = draw()
			}
			want, accumulate := slices.Clone(got), r.IntN(2) == 0
			gemm(m, n, k, a, b, accumulate, got, n+2, make([]T, GemmScratch(m, n, k)), nil)
			Gemm(m, n, k, 1, a, b, accumulate, want, n+2, nil)
			if !slices.Equal(got, want) {
				t.Fatalf("%d×%d×%d, layouts %d, accumulate %v: another product", m, n, k, layouts, accumulate)
			}
		}
	}
}
