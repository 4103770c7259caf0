package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/isa/isatest"
)

// brainTable returns the products of the best table, and skips the test where the machine
// has no instructions for them.
func brainTable(t *testing.T) (*BrainProducts, *rand.Rand) {
	t.Helper()
	isatest.NeedBrainFloat(t)
	k := Best()
	if k.Brain == nil {
		t.Fatalf("the table of %v has no products of bfloat16", k.Level)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return k.Brain, rand.New(rand.NewPCG(seed, 0))
}

// brainNumber returns a whole number of bfloat16, whose sums of products are exact.
func brainNumber(r *rand.Rand) uint16 {
	return uint16(math.Float32bits(float32(r.IntN(31)-15)) >> 16)
}

func brainValue(x uint16) float64 { return float64(math.Float32frombits(uint32(x) << 16)) }

// TestBrainGemm multiplies pairs in all layouts, in sizes that take every tile and with
// that every register of the encoded instruction.
func TestBrainGemm(t *testing.T) {
	b, r := brainTable(t)
	sizes := [][3]int{{29, 33, depthMax + 1}, {rowsMax + 1, 40, 17}, {9, 130, 512}, {3, 64, 1040}, {4, 48, 64}}
	for m := 1; m <= 30; m++ {
		for _, n := range []int{3, 16, 31, 40, 48, 70} {
			sizes = append(sizes, [3]int{m, n, 1 + r.IntN(40)})
		}
	}
	for i, s := range sizes {
		for layouts := range 9 {
			m, n, k := s[0], s[1], s[2]
			x, y := brainMatrix(r, m, k, layouts/3), brainMatrix(r, k, n, layouts%3)
			c := make([]float32, m*n)
			b.Gemm(m, n, k, x, y, c, n, make([]float32, GemmScratch(m, n, k)), nil)
			for q, got := range c {
				want := 0.0
				for l := range k {
					u, v := math.Float32bits(x.Data[q/n*x.RS+l*x.CS]), math.Float32bits(y.Data[l*y.RS+q%n*y.CS])
					want += brainValue(uint16(u))*brainValue(uint16(v)) + brainValue(uint16(u>>16))*brainValue(uint16(v>>16))
				}
				if float64(got) != want {
					t.Fatalf("size %d, %v, layouts %d: element %d is %v, want %v", i, s, layouts, q, got, want)
				}
			}
		}
	}
}

func brainMatrix(r *rand.Rand, rows, cols, layout int) Matrix[float32] {
	rs, cs := strides(r, rows, cols, layout)
	data := make([]float32, (rows-1)*rs+(cols-1)*cs+1)
	for i := range data {
		data[i] = PairOf(brainNumber(r), brainNumber(r))
	}
	return Matrix[float32]{data, rs, cs}
}

// TestBrainFew multiplies up to all rows that Few takes, with operands that end where the
// next byte can't be read.
func TestBrainFew(t *testing.T) {
	p, r := brainTable(t)
	left, right, results := edgeOf[uint16](t), edgeOf[uint16](t), edgeOf[float32](t)
	for m := 1; m <= BrainRows; m++ {
		for _, n := range []int{BrainColumns, 3 * BrainColumns, brainCols + BrainColumns} {
			for _, k := range []int{2, 2 * fewPairs, 2*fewPairs + 6} {
				rsA, rsB, ldc := k+r.IntN(3), n+r.IntN(3), n+r.IntN(3)
				a, b := left[len(left)-(m-1)*rsA-k:], right[len(right)-(k-1)*rsB-n:]
				c := results[len(results)-(m-1)*ldc-n:]
				for _, x := range [][]uint16{a, b} {
					for i := range x {
						x[i] = brainNumber(r)
					}
				}
				what := fmt.Sprintf("%d×%d×%d", m, n, k)
				faultless(t, what, func() { p.Few(m, n, k, a, rsA, b, rsB, c, ldc, nil) })
				for i := range m {
					for j := range n {
						want := 0.0
						for l := range k {
							want += brainValue(a[i*rsA+l]) * brainValue(b[l*rsB+j])
						}
						if float64(c[i*ldc+j]) != want {
							t.Fatalf("%s: element %d,%d is %v, want %v", what, i, j, c[i*ldc+j], want)
						}
					}
				}
			}
		}
	}
}

func TestBrainPair(t *testing.T) {
	p, r := brainTable(t)
	mem, results := edgeOf[uint16](t), edgeOf[float32](t)
	for n := range 100 {
		x, y, dst := mem[len(mem)-2*n:len(mem)-n], mem[len(mem)-n:], results[len(results)-n:]
		for i := range n {
			x[i], y[i] = uint16(r.Uint32()), uint16(r.Uint32())
		}
		faultless(t, "Pair", func() { p.Pair(dst, x, y) })
		for i, v := range dst {
			if want := uint32(x[i]) | uint32(y[i])<<16; math.Float32bits(v) != want {
				t.Fatalf("pair %d of %d is %#x, want %#x", i, n, math.Float32bits(v), want)
			}
		}
	}
}
