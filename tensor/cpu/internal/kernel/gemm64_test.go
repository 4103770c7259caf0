package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// eachDoubles is each for tables of float64.
func eachDoubles(t *testing.T, f func(t *testing.T, k *Table[float64], r *rand.Rand)) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) { f(t, Doubles(k.Level), r) })
}

// strides returns those of a rows×cols matrix: row by row, column by column, or with gaps
// in both directions.
func strides(r *rand.Rand, rows, cols, layout int) (rs, cs int) {
	switch layout {
	case 0:
		return cols + r.IntN(3), 1
	case 1:
		return 1, rows + r.IntN(3)
	}
	return 2, 2*rows + 1
}

// TestGemmDoubles multiplies whole numbers, whose products are exact, with operands that
// end where the next byte can't be read, and compares with portable Go.
func TestGemmDoubles(t *testing.T) {
	eachDoubles(t, func(t *testing.T, k *Table[float64], r *rand.Rand) {
		edges := [3][]float64{newEdge(t).doubles(), newEdge(t).doubles(), newEdge(t).doubles()}
		sizes := [][3]int{{29, 33, depthMax + 1}, {rowsMax + 1, 40, 17}, {9, 130, 512}, {60, 100, 66}, {15, 65, 1040}, {1, 100, 400}, {70, 24, 256}}
		for range 300 {
			sizes = append(sizes, [3]int{1 + r.IntN(70), 1 + r.IntN(70), 1 + r.IntN(70)})
		}
		for i, s := range sizes {
			for layouts := range 9 {
				if testsize.Sampled() && (i+layouts)%9 != 0 {
					continue
				}
				m, n, depth := s[0], s[1], s[2]
				ars, acs := strides(r, m, depth, layouts/3)
				brs, bcs := strides(r, depth, n, layouts%3)
				ldc := n + r.IntN(4)
				last := func(e []float64, n int) []float64 {
					if n > len(e) {
						return make([]float64, n)
					}
					return e[len(e)-n:]
				}
				a := Matrix[float64]{last(edges[0], (m-1)*ars+(depth-1)*acs+1), ars, acs}
				b := Matrix[float64]{last(edges[1], (depth-1)*brs+(n-1)*bcs+1), brs, bcs}
				c := last(edges[2], (m-1)*ldc+n)
				for _, x := range [][]float64{a.Data, b.Data, c} {
					for i := range x {
						x[i] = float64(r.IntN(200) - 100)
					}
				}
				alpha, accumulate := float64(1+r.IntN(2)), r.IntN(2) == 0
				want := slices.Clone(c)
				Gemm(m, n, depth, alpha, a, b, accumulate, want, ldc, nil)
				scratch := slices.Repeat([]float64{math.NaN()}, GemmScratch(m, n, depth))
				what := fmt.Sprintf("%d×%d×%d, layouts %d", m, n, depth, layouts)
				faultless(t, what, func() { k.Gemm(m, n, depth, alpha, a, b, accumulate, c, ldc, scratch, nil) })
				if !slices.Equal(c, want) {
					t.Fatalf("%s: other results than portable Go", what)
				}
			}
		}
	})
}

// TestGemmDoublesSplit computes products whole and in rectangles, and wants the same
// bits.
func TestGemmDoublesSplit(t *testing.T) {
	eachDoubles(t, func(t *testing.T, k *Table[float64], r *rand.Rand) {
		for range 30 {
			m, n, depth := 1+r.IntN(60), 1+r.IntN(150), 1+r.IntN(700)
			ars, acs := strides(r, m, depth, r.IntN(2))
			brs, bcs := strides(r, depth, n, r.IntN(2))
			a := Matrix[float64]{make([]float64, (m-1)*ars+(depth-1)*acs+1), ars, acs}
			b := Matrix[float64]{make([]float64, (depth-1)*brs+(n-1)*bcs+1), brs, bcs}
			for _, x := range [][]float64{a.Data, b.Data} {
				for i := range x {
					x[i] = r.NormFloat64()
				}
			}
			whole, scratch := make([]float64, m*n), make([]float64, GemmScratch(m, n, depth))
			k.Gemm(m, n, depth, 1, a, b, false, whole, n, scratch, nil)
			for parts := 2; parts <= 4; parts++ {
				got := make([]float64, m*n)
				for w := range parts {
					if i0, i1, j0, j1 := Split(m, n, parts, w); i0 < i1 && j0 < j1 {
						k.Gemm(i1-i0, j1-j0, depth, 1, a.Sub(i0, 0), b.Sub(0, j0), false, got[i0*n+j0:], n, scratch, nil)
					}
				}
				if !slices.Equal(got, whole) {
					t.Fatalf("%d×%d×%d in %d parts: other bits than whole", m, n, depth, parts)
				}
			}
		}
	})
}
