package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// problem is one product with its operands between guards.
type problem struct {
	m, n, k    int
	alpha      float32
	accumulate bool
	ldc        int
	a, b       Matrix[float32]
	c          fenced
	ops        [2]fenced
	scratch    fenced
}

func (p *problem) String() string {
	return fmt.Sprintf("%d×%d×%d a(%d,%d) b(%d,%d) ldc %d alpha %v accumulate %v", p.m, p.n, p.k, p.a.RS, p.a.CS, p.b.RS, p.b.CS, p.ldc, p.alpha, p.accumulate)
}

// matrix returns a random rows×cols matrix: row by row, column by column, or with gaps in
// both directions.
func matrix(r *rand.Rand, rows, cols, layout int) (fenced, Matrix[float32]) {
	rs, cs := cols+r.IntN(3), 1
	switch layout {
	case 1:
		rs, cs = 1, rows+r.IntN(3)
	case 2:
		rs, cs = 2, 2*rows+1
	}
	size := 0
	if rows > 0 && cols > 0 {
		size = (rows-1)*rs + (cols-1)*cs + 1
	}
	f := newFenced(size, r.IntN(16), func() float32 { return r.Float32() - 0.5 })
	return f, Matrix[float32]{f.v, rs, cs}
}

func newProblem(r *rand.Rand, m, n, k, layoutA, layoutB int) *problem {
	p := &problem{m: m, n: n, k: k, alpha: 1, accumulate: r.IntN(2) == 0, ldc: n + r.IntN(4)}
	if r.IntN(2) == 0 {
		p.alpha = r.Float32() + 0.5
	}
	p.ops[0], p.a = matrix(r, m, k, layoutA)
	p.ops[1], p.b = matrix(r, k, n, layoutB)
	size := 0
	if m > 0 && n > 0 {
		size = (m-1)*p.ldc + n
	}
	p.c = newFenced(size, r.IntN(16), r.Float32)
	if !p.accumulate { // what is there must not matter
		for i := range p.c.v {
			p.c.v[i] = float32(math.NaN())
		}
	}
	p.scratch = newFenced(GemmScratch(m, n, k), r.IntN(16), func() float32 { return float32(math.NaN()) })
	return p
}

// element returns Σ a(row,k)*b(k,col), and the sum of the magnitudes. The race detector
// would spend most of its time here.
//
//go:norace
func (p *problem) element(row, col int) (sum, size float64) {
	for q := range p.k {
		v := float64(p.a.Data[row*p.a.RS+q*p.a.CS]) * float64(p.b.Data[q*p.b.RS+col*p.b.CS])
		sum += v
		size += math.Abs(v)
	}
	return sum, size
}

// check runs the product and compares it with one in double precision.
func (p *problem) check(t *testing.T, k *Table[float32]) {
	t.Helper()
	old := append([]float32(nil), p.c.v...)
	k.Gemm(p.m, p.n, p.k, p.alpha, p.a, p.b, p.accumulate, p.c.v, p.ldc, p.scratch.v, nil)
	for _, f := range []fenced{p.c, p.ops[0], p.ops[1], p.scratch} {
		f.intact(t, p.String())
	}
	for i := range len(p.c.v) {
		row, col := i/p.ldc, i%p.ldc
		if col >= p.n {
			if !identical(p.c.v[i], old[i]) {
				t.Fatalf("%v: wrote between rows, row %d column %d", p, row, col)
			}
			continue
		}
		sum, size := p.element(row, col)
		want := float64(p.alpha) * sum
		if p.accumulate {
			want += float64(old[i])
			size += math.Abs(float64(old[i]))
		}
		// Each of k additions is off by at most half an ulp of a partial sum.
		if bound := (float64(p.k) + 3) * 0x1p-24 * (size + 1); !(math.Abs(float64(p.c.v[i])-want) <= bound) {
			t.Fatalf("%v: row %d column %d is %v, want %v ± %v", p, row, col, p.c.v[i], want, bound)
		}
	}
}

func TestGemm(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for layoutA := range 3 {
			for layoutB := range 3 {
				for i := 0; i <= 70; i++ {
					newProblem(r, i, r.IntN(71), r.IntN(71), layoutA, layoutB).check(t, k)
					newProblem(r, r.IntN(71), i, r.IntN(71), layoutA, layoutB).check(t, k)
					newProblem(r, r.IntN(71), r.IntN(71), i, layoutA, layoutB).check(t, k)
				}
			}
		}
	})
}

// TestGemmBlocks takes sizes on both sides of every limit of the blocking, in all pairs
// of layouts or in one of them.
func TestGemmBlocks(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, s := range [][3]int{
			{29, 33, depthMax - 1}, {29, 33, depthMax}, {29, 33, depthMax + 1}, {15, 65, 3*depthMax + 7},
			{rowsMax - 1, 40, 17}, {rowsMax, 40, 17}, {rowsMax + 1, 40, 17}, {2*rowsMax + 3, 40, 16},
			{2, colsMax, 5}, {2, colsMax + 1, 5}, {15, 2*colsMax + 5, 10}, {28, 64, 100}, {1, 100, 400}, {100, 1, 400},
			{9, 130, 512}, {9, 130, 1024}, {29, 130, shallowMax - 1}, {29, 130, shallowMax}, {29, 130, shallowMax + 1}, {30, 1024, shallowMax},
			// several panels, and blocks of them
			{rowsMax + 1, 230, depthMax}, {30, 430, depthMax/2 + 1}, {15, 100, 2*depthMax + 3},
			// near, and not
			{128, 100, 130}, {512, 100, 130}, {513, 100, 130}, {60, 500, 530},
		} {
			only := r.IntN(9)
			for layouts := range 9 {
				if layouts == only || !testsize.Sampled() {
					newProblem(r, s[0], s[1], s[2], layouts/3, layouts%3).check(t, k)
				}
			}
		}
	})
}

// TestGemmSplit computes products whole and in rectangles, and wants the same bits.
func TestGemmSplit(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for range 30 {
			p := newProblem(r, 1+r.IntN(60), 1+r.IntN(150), 1+r.IntN(700), r.IntN(3), r.IntN(3))
			p.accumulate = r.IntN(2) == 0
			for i := range p.c.v {
				p.c.v[i] = r.Float32()
			}
			whole := append([]float32(nil), p.c.v...)
			k.Gemm(p.m, p.n, p.k, p.alpha, p.a, p.b, p.accumulate, whole, p.ldc, p.scratch.v, nil)
			compare := func(how string, got []float32) {
				t.Helper()
				for i := range got {
					if !identical(got[i], whole[i]) {
						t.Fatalf("%v: %s: row %d column %d is %v, whole %v", p, how, i/p.ldc, i%p.ldc, got[i], whole[i])
					}
				}
			}
			part := func(c []float32, i0, i1, j0, j1 int) {
				if i0 < i1 && j0 < j1 {
					k.Gemm(i1-i0, j1-j0, p.k, p.alpha, p.a.Sub(i0, 0), p.b.Sub(0, j0), p.accumulate, c[i0*p.ldc+j0:], p.ldc, p.scratch.v, nil)
				}
			}
			for parts := 1; parts <= 4; parts++ {
				got := append([]float32(nil), p.c.v...)
				for w := range parts {
					i0, i1, j0, j1 := Split(p.m, p.n, parts, w)
					part(got, i0, i1, j0, j1)
				}
				compare(fmt.Sprint(parts, " parts"), got)
			}
			got := append([]float32(nil), p.c.v...)
			i, j := r.IntN(p.m+1), r.IntN(p.n+1)
			part(got, 0, i, 0, j)
			part(got, 0, i, j, p.n)
			part(got, i, p.m, 0, j)
			part(got, i, p.m, j, p.n)
			compare(fmt.Sprint("cut at ", i, ", ", j), got)
		}
	})
}

// TestSplitCovers wants every element in exactly one rectangle.
func TestSplitCovers(t *testing.T) {
	for parts := 1; parts <= 5; parts++ {
		for m := 0; m < 40; m += 3 {
			for n := 0; n < 200; n += 7 {
				seen := make([]int, m*n)
				for w := range parts {
					i0, i1, j0, j1 := Split(m, n, parts, w)
					for i := i0; i < i1; i++ {
						for j := j0; j < j1; j++ {
							seen[i*n+j]++
						}
					}
				}
				for i, v := range seen {
					if v != 1 {
						t.Fatalf("%d×%d in %d: element %d is in %d parts", m, n, parts, i, v)
					}
				}
			}
		}
	}
}

func testGemmOf[T Number](t *testing.T, tolerance float64) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		m, n, k := r.IntN(20), r.IntN(20), r.IntN(300)
		a := Matrix[T]{make([]T, m*k), k, 1}
		b := Matrix[T]{make([]T, k*n), n, 1}
		if r.IntN(2) == 0 {
			a.RS, a.CS = 1, m
		}
		if r.IntN(2) == 0 {
			b.RS, b.CS = 1, k
		}
		c := make([]T, m*n)
		for _, x := range [][]T{a.Data, b.Data, c} {
			for i := range x {
				x[i] = T(r.IntN(200) - 100)
			}
		}
		accumulate, alpha := r.IntN(2) == 0, T(r.IntN(3)+1)
		old := append([]T(nil), c...)
		Gemm(m, n, k, alpha, a, b, accumulate, c, n, nil)
		for i := range c {
			var want T
			for q := range k {
				want += a.Data[i/n*a.RS+q*a.CS] * b.Data[q*b.RS+i%n*b.CS]
			}
			want *= alpha
			if accumulate {
				want += old[i]
			}
			if math.Abs(float64(c[i])-float64(want)) > tolerance*math.Abs(float64(want)) {
				t.Fatalf("%d×%d×%d: element %d is %v, want %v", m, n, k, i, c[i], want)
			}
		}
	}
}

func TestGemmTypes(t *testing.T) {
	t.Run("float64", func(t *testing.T) { testGemmOf[float64](t, 0) })
	t.Run("int32", func(t *testing.T) { testGemmOf[int32](t, 0) })
	t.Run("int64", func(t *testing.T) { testGemmOf[int64](t, 0) })
}

func TestGemmPanics(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for name, spoil := range map[string]func(p *problem){
			"a short":       func(p *problem) { p.a.Data = p.a.Data[:len(p.a.Data)-1] },
			"b short":       func(p *problem) { p.b.Data = p.b.Data[:len(p.b.Data)-1] },
			"c short":       func(p *problem) { p.c.v = p.c.v[:len(p.c.v)-1] },
			"stride":        func(p *problem) { p.a.RS = -1 },
			"size":          func(p *problem) { p.m = -1 },
			"rows too near": func(p *problem) { p.ldc = p.n - 1 },
		} {
			p := newProblem(r, 5, 6, 7, 0, 0)
			c := p.c
			spoil(p)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				k.Gemm(p.m, p.n, p.k, p.alpha, p.a, p.b, p.accumulate, p.c.v, p.ldc, p.scratch.v, nil)
			}()
			c.intact(t, name)
		}
	})
}

// TestGemmInf wants IEEE behaviour, not shortcuts for zeros.
func TestGemmInf(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		inf := float32(math.Inf(1))
		for _, c := range []struct{ a, b, want float32 }{{inf, 1, inf}, {inf, 0, float32(math.NaN())}, {0, inf, float32(math.NaN())}} {
			got := []float32{5}
			k.Gemm(1, 1, 1, 1, Matrix[float32]{[]float32{c.a}, 1, 1}, Matrix[float32]{[]float32{c.b}, 1, 1}, false, got, 1, make([]float32, GemmScratch(1, 1, 1)), nil)
			if !identical(got[0], c.want) {
				t.Errorf("%v*%v = %v", c.a, c.b, got[0])
			}
		}
	})
}

func BenchmarkGemm(b *testing.B) {
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range []struct {
			m, n, k int
			mode    string
		}{
			{64, 64, 64, "NN"}, {128, 128, 128, "NN"}, {256, 256, 256, "NN"}, {1024, 1024, 1024, "NN"}, {128, 64, 64, "NN"}, {128, 192, 64, "NN"},
			{64, 256, 784, "NN"}, {64, 256, 784, "NT"}, {64, 256, 784, "TN"}, {64, 1536, 384, "NN"},
			{1024, 1536, 384, "NN"}, {1024, 1536, 384, "NT"}, {1024, 1536, 384, "TN"},
		} {
			if l == Go && s.m*s.n*s.k > 1<<26 {
				continue
			}
			b.Run(fmt.Sprintf("%v/%dx%dx%d%s", l, s.m, s.n, s.k, s.mode), func(b *testing.B) {
				x := Matrix[float32]{make([]float32, s.m*s.k), s.k, 1}
				y := Matrix[float32]{make([]float32, s.k*s.n), s.n, 1}
				if s.mode[0] == 'T' {
					x.RS, x.CS = 1, s.m
				}
				if s.mode[1] == 'T' {
					y.RS, y.CS = 1, s.k
				}
				for i := range x.Data {
					x.Data[i] = float32(i%7) - 3
				}
				for i := range y.Data {
					y.Data[i] = float32(i%5) - 2
				}
				c, scratch := make([]float32, s.m*s.n), make([]float32, GemmScratch(s.m, s.n, s.k))
				b.ReportAllocs()
				for b.Loop() {
					k.Gemm(s.m, s.n, s.k, 1, x, y, false, c, s.n, scratch, nil)
				}
				b.ReportMetric(2*float64(s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// TestGemmFewRows wants the first rows of a product, computed by themselves, to have the
// bits that they have in it: also where a few rows have kernels of their own.
func TestGemmFewRows(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		const rows = 20
		for _, c := range []struct{ k, n, layout int }{{16, 16, 1}, {48, 77, 1}, {1040, 33, 1}, {2064, 48, 1}, {520, 1100, 0}, {1033, 300, 0}, {2100, 130, 0}} {
			fa, a := matrix(r, rows, c.k, 0)
			fb, b := matrix(r, c.k, c.n, c.layout)
			if c.layout == 0 { // the rows of b far apart
				b = Matrix[float32]{b.Data[:0], 1100, 1}
				fb = newFenced((c.k-1)*b.RS+c.n, r.IntN(16), func() float32 { return r.Float32() - 0.5 })
				b.Data = fb.v
			}
			scratch := make([]float32, GemmScratch(rows, c.n, c.k))
			all := make([]float32, rows*c.n)
			k.Gemm(rows, c.n, c.k, 1, a, b, false, all, c.n, scratch, nil)
			for m := 1; m < 6; m++ {
				out := newFenced((m-1)*(c.n+1)+c.n, r.IntN(16), func() float32 { return float32(math.NaN()) })
				k.Gemm(m, c.n, c.k, 1, a, b, false, out.v, c.n+1, scratch, nil)
				what := fmt.Sprintf("%d rows of %+v", m, c)
				for _, f := range []fenced{fa, fb, out} {
					f.intact(t, what)
				}
				for i := range m {
					for j := range c.n {
						if got, want := out.v[i*(c.n+1)+j], all[i*c.n+j]; math.Float32bits(got) != math.Float32bits(want) {
							t.Fatalf("%s: element %d, %d is %v, of %d rows %v", what, i, j, got, rows, want)
						}
					}
				}
			}
		}
	})
}

// TestGemmFewRowsStop wants a product of a few rows that is stopped before it begins to
// return.
func TestGemmFewRowsStop(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, c := range []struct{ m, k, n, layout int }{{1, 64, 77, 1}, {4, 1040, 33, 1}, {2, 256, 1100, 0}} {
			_, a := matrix(r, c.m, c.k, 0)
			_, b := matrix(r, c.k, c.n, c.layout)
			var stop atomic.Bool
			stop.Store(true)
			k.Gemm(c.m, c.n, c.k, 1, a, b, false, make([]float32, c.m*c.n), c.n, make([]float32, GemmScratch(c.m, c.n, c.k)), &stop)
		}
	})
}
