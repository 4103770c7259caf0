package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/collective/isa/isatest"
)

// TestGemmWays multiplies matrices whose rows compete for the same cache sets, once for a
// first-level cache of few ways and once for one of many. The first copies rows of a, the
// second reads them in place; the bits are the same.
func TestGemmWays(t *testing.T) {
	isatest.Need(t, isa.AVX2)
	units := []*gemmUnit[float32]{}
	for _, l := range Levels() {
		switch l {
		case isa.AVX2:
			units = append(units, gemmAVX2())
		case isa.AVX512:
			units = append(units, gemmAVX512())
		}
	}
	r := rand.New(rand.NewPCG(3, 5))
	for _, g := range units {
		for _, s := range [][3]int{
			{9, 130, 512}, {rowsMax, 130, 300}, {rowsMax + 1, 130, 600}, {rowsMax + 1, 400, 512}, {rowsMax + 1, colsMax + 9, 66},
		} {
			p := newProblem(r, s[0], s[1], s[2], 0, 0)
			rs := ceil(s[2], 512) * 512
			p.ops[0] = newFenced((s[0]-1)*rs+s[2], 0, func() float32 { return r.Float32() - 0.5 })
			p.a = Matrix[float32]{p.ops[0].v, rs, 1}
			old := append([]float32(nil), p.c.v...)
			var want []float32
			for i, ways := range []int{8, 12} {
				u := *g
				u.ways = ways
				if got := u.readA(p.m, p.n, p.k, g.tallest(len(g.tile)), p.a); (got == byRows) != (ways == 8) {
					t.Fatalf("%v: read as %v with %d ways of %d lanes", p, got, ways, g.lanes)
				}
				copy(p.c.v, old)
				p.check(t, &Table[float32]{Products: Products[float32]{Gemm: u.gemm}})
				if i == 0 {
					want = append(want, p.c.v...)
				}
			}
			for i := range want {
				if !identical(p.c.v[i], want[i]) {
					t.Fatalf("%v: element %d is %v, with 8 ways %v", p, i, p.c.v[i], want[i])
				}
			}
		}
	}
}
