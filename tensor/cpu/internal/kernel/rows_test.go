package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// near fails the test unless every got is within tolerance of want, relative to the
// largest of want or to 0.1.
func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	size := 0.1
	for _, w := range want {
		size = max(size, math.Abs(w))
	}
	for i, g := range got {
		if !(math.Abs(float64(g)-want[i]) <= tolerance*size) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(got), g, want[i])
		}
	}
}

// scalarNear is near for one number, relative to at least 1.
func scalarNear(t *testing.T, what string, got float32, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= tolerance*max(1, math.Abs(want))) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// widen applies f to every index.
func widen(n int, f func(i int) float64) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = f(i)
	}
	return w
}

func total(n int, f func(i int) float64) float64 {
	var s float64
	for i := range n {
		s += f(i)
	}
	return s
}

// row holds random slices of one length, between guards.
type row struct {
	t    *testing.T
	what string
	all  []fenced
}

func newRow(t *testing.T, what string, n, count int, r *rand.Rand) (*row, [][]float32) {
	w := &row{t: t, what: fmt.Sprintf("%s of %d", what, n)}
	var vs [][]float32
	for range count {
		f := newFenced(n, r.IntN(17), func() float32 { return 4*r.Float32() - 2 })
		w.all = append(w.all, f)
		vs = append(vs, f.v)
	}
	return w, vs
}

func (w *row) intact() {
	w.t.Helper()
	for _, f := range w.all {
		f.intact(w.t, w.what)
	}
}

func clone(x []float32) []float32 { return append([]float32(nil), x...) }

func TestReductions(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths() {
			w, v := newRow(t, "reductions", n, 3, r)
			x, y, e := v[0], v[1], v[2]
			old := clone(x)
			size := total(n, func(i int) float64 { return math.Abs(float64(x[i])) }) + 1
			scalarNear(t, w.what+" Sum", k.Sum(x)/float32(size), total(n, func(i int) float64 { return float64(x[i]) })/size, 1e-6)
			scalarNear(t, w.what+" Dot", k.Dot(x, y)/float32(size), total(n, func(i int) float64 { return float64(x[i]) * float64(y[i]) })/size, 2e-6)
			scalarNear(t, w.what+" SumSqDev", k.SumSqDev(x, 0.3), total(n, func(i int) float64 { d := float64(x[i]) - float64(float32(0.3)); return d * d }), 3e-6)
			top, low := math.Inf(-1), math.Inf(1)
			for _, v := range x {
				top, low = max(top, float64(v)), min(low, float64(v))
			}
			if got := k.RowMax(x); float64(got) != top {
				t.Fatalf("%s RowMax: %v, want %v", w.what, got, top)
			}
			if got := k.RowMin(x); float64(got) != low {
				t.Fatalf("%s RowMin: %v, want %v", w.what, got, low)
			}
			want := widen(n, func(i int) float64 { return math.Exp(0.75*float64(x[i]) - 0.5) })
			s := k.ExpSum(e, x, 0.75, -0.5)
			near(t, w.what+" ExpSum", e, want, 3e-7)
			scalarNear(t, w.what+" ExpSum", s, total(n, func(i int) float64 { return want[i] }), 2e-6)
			w.intact()
			near(t, w.what+" input", x, widen(n, func(i int) float64 { return float64(old[i]) }), 0)
		}
	})
}

func TestReductionSpecials(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		inf := float32(math.Inf(1))
		nan := float32(math.NaN())
		for n := 1; n < 150; n++ {
			x := make([]float32, n)
			at := r.IntN(n)
			x[at] = nan
			for name, f := range map[string]Reduction[float32]{"RowMax": k.RowMax, "RowMin": k.RowMin, "Sum": k.Sum,
				"CrossEntropy": func(x []float32) float32 { return k.CrossEntropy(nil, x, 0, 1) }} {
				if got := f(x); got == got {
					t.Fatalf("%s of %d with NaN at %d: %v", name, n, at, got)
				}
			}
			x[at] = inf
			if got := k.RowMax(x); got != inf {
				t.Fatalf("RowMax of %d with Inf at %d: %v", n, at, got)
			}
			y, dx := make([]float32, n), make([]float32, n)
			k.LogSoftmax(y, x)
			if loss, with := k.CrossEntropy(nil, x, (at+1)%n, 1), k.CrossEntropy(dx, x, (at+1)%n, 1); loss == loss || with == with || y[(at+1)%n] == y[(at+1)%n] {
				t.Fatalf("CrossEntropy of %d with Inf at %d: %v, %v with its gradient; LogSoftmax %v", n, at, loss, with, y)
			}
			k.Fill(x, -inf)
			x[at] = 3 // everything else is masked
			k.Softmax(x, x, 1)
			for i, v := range x {
				if want := float32(0); i == at && v != 1 || i != at && v != want {
					t.Fatalf("Softmax of %d, all masked but %d: element %d is %v", n, at, i, v)
				}
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths()[1:] {
			w, v := newRow(t, "softmax", n, 4, r)
			x, p, dp, dx := v[0], v[1], v[2], v[3]
			scale := r.Float64() + 0.5
			scale = float64(float32(scale))
			shift := float32(r.IntN(3)-1) * 1000 // must not overflow
			for i := range x {
				x[i] += shift
			}
			top := float64(k.RowMax(x))
			e := widen(n, func(i int) float64 { return math.Exp(scale * (float64(x[i]) - top)) })
			z := total(n, func(i int) float64 { return e[i] })
			want := widen(n, func(i int) float64 { return e[i] / z })
			k.Softmax(p, x, float32(scale))
			// scale*x and scale*top are rounded, at magnitude |shift| in float32.
			near(t, w.what, p, want, 2e-6+math.Abs(float64(shift))*2e-7)
			in := clone(x)
			k.Softmax(in, in, float32(scale))
			for i := range in {
				if !identical(in[i], p[i]) {
					t.Fatalf("%s in place: %v, want %v", w.what, in[i], p[i])
				}
			}
			dot := total(n, func(i int) float64 { return float64(p[i]) * float64(dp[i]) })
			k.SoftmaxGrad(dx, p, dp, float32(scale))
			near(t, w.what+" grad", dx, widen(n, func(i int) float64 { return scale * float64(p[i]) * (float64(dp[i]) - dot) }), 3e-6)

			y := clone(p)
			k.LogSoftmax(y, x)
			lz := math.Log(total(n, func(i int) float64 { return math.Exp(float64(x[i]) - top) }))
			near(t, w.what+" log", y, widen(n, func(i int) float64 { return float64(x[i]) - top - lz }), 2e-6+math.Abs(float64(shift))*2e-7)
			s := total(n, func(i int) float64 { return float64(dp[i]) })
			k.LogSoftmaxGrad(dx, y, dp)
			near(t, w.what+" log grad", dx, widen(n, func(i int) float64 { return float64(dp[i]) - math.Exp(float64(y[i]))*s }), 3e-6)

			target := r.IntN(n)
			loss := k.CrossEntropy(dx, x, target, 0.25)
			scalarNear(t, w.what+" cross entropy", loss, lz+top-float64(x[target]), 3e-6)
			scalarNear(t, w.what+" cross entropy without gradient", k.CrossEntropy(nil, x, target, 1), lz+top-float64(x[target]), 3e-6+math.Abs(float64(shift))*2e-7)
			near(t, w.what+" cross entropy gradient", dx, widen(n, func(i int) float64 {
				g := 0.25 * math.Exp(float64(x[i])-top-lz)
				if i == target {
					g -= 0.25
				}
				return g
			}), 3e-6)
			w.intact()
		}
	})
}

func TestNorms(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths()[2:] {
			for mode := range 8 {
				row, v := newRow(t, fmt.Sprintf("norm mode %d", mode), n, 8, r)
				x, w, b, dy, y, dx, dw, db := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
				rms := mode&4 != 0
				if mode&1 != 0 {
					w = nil
				}
				if mode&2 != 0 {
					b, dw, db = nil, nil, nil
				}
				weight := func(i int) float64 {
					if w == nil {
						return 1
					}
					return float64(w[i])
				}
				bias := func(i int) float64 {
					if b == nil || rms {
						return 0
					}
					return float64(b[i])
				}
				const eps = 1e-5
				count := float64(n)
				var mean, got, gotMean, tiny float64
				if !rms {
					mean = total(n, func(i int) float64 { return float64(x[i]) }) / count
				}
				rstd := 1 / math.Sqrt(total(n, func(i int) float64 { d := float64(x[i]) - mean; return d * d })/count+eps)
				hat := func(i int) float64 { return (float64(x[i]) - mean) * rstd }
				var m32, r32 float32
				if rms {
					r32 = k.RMSNorm(y, x, w, eps)
				} else {
					m32, r32 = k.LayerNorm(y, x, w, b, eps)
				}
				got, gotMean, tiny = float64(r32), float64(m32), 1e-5*(1+rstd)
				if math.Abs(got-rstd) > tiny*rstd || math.Abs(gotMean-mean) > 1e-6 {
					t.Fatalf("%s: mean %v, rstd %v, want %v, %v", row.what, m32, r32, mean, rstd)
				}
				near(t, row.what, y, widen(n, func(i int) float64 { return hat(i)*weight(i) + bias(i) }), tiny)

				h := func(i int) float64 { return float64(dy[i]) * weight(i) }
				var s1 float64
				if !rms {
					s1 = total(n, h) / count
				}
				s2 := total(n, func(i int) float64 { return h(i) * hat(i) }) / count
				wantDx := widen(n, func(i int) float64 { return rstd * (h(i) - s1 - hat(i)*s2) })
				scale := rstd // the terms of the difference are this large
				for i := range wantDx {
					scale = max(scale, rstd*math.Abs(h(i)))
				}
				oldW, oldB := clone(dw), clone(db)
				if rms {
					k.RMSNormGrad(dx, dw, x, w, dy, r32)
				} else {
					k.LayerNormGrad(dx, dw, db, x, w, dy, m32, r32)
				}
				for i := range dx {
					if !(math.Abs(float64(dx[i])-wantDx[i]) <= 2*tiny*scale) {
						t.Fatalf("%s: dx[%d] = %v, want %v", row.what, i, dx[i], wantDx[i])
					}
				}
				if dw != nil {
					near(t, row.what+" dw", dw, widen(n, func(i int) float64 { return float64(oldW[i]) + float64(dy[i])*hat(i) }), 2*tiny)
				}
				if db != nil && !rms {
					near(t, row.what+" db", db, widen(n, func(i int) float64 { return float64(oldB[i]) + float64(dy[i]) }), 1e-6)
				}
				row.intact()
			}
		}
	})
}

func TestRoPE(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, h := range lengths() {
			w, v := newRow(t, "RoPE", 2*h, 2, r)
			x, y := v[0], v[1]
			a, cs := newRow(t, "RoPE angles", h, 2, r)
			for i := range h {
				cs[0][i], cs[1][i] = float32(math.Cos(float64(i))), float32(math.Sin(float64(i)))
			}
			k.RoPE(y, x, cs[0], cs[1], 1)
			near(t, w.what, y, widen(2*h, func(i int) float64 {
				j := i % max(h, 1)
				c, s := float64(cs[0][j]), float64(cs[1][j])
				if i < h {
					return float64(x[i])*c - float64(x[h+i])*s
				}
				return float64(x[i])*c + float64(x[j])*s
			}), 2e-7)
			k.RoPE(y, y, cs[0], cs[1], -1)
			near(t, w.what+" and back", y, widen(2*h, func(i int) float64 { return float64(x[i]) }), 5e-7)
			w.intact()
			a.intact()
		}
	})
}

func TestAdamW(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		const lr, b1, b2, eps, decay = 1e-2, 0.9, 0.999, 1e-8, 0.1
		for _, n := range lengths() {
			w, x := newRow(t, "AdamW", n, 4, r)
			p, m, v, g := x[0], x[1], x[2], x[3]
			clear(m)
			clear(v)
			p64, m64, v64 := widen(n, func(i int) float64 { return float64(p[i]) }), make([]float64, n), make([]float64, n)
			for step := 1; step <= 3; step++ {
				out, y := newRow(t, "AdamW", n, 3, r)
				if n%2 == 0 {
					y = x[:3]
				}
				k.AdamW(y[0], y[1], y[2], p, m, v, g, newAdamWStep(lr, b1, b2, eps, decay, step))
				p, m, v = y[0], y[1], y[2]
				c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
				for i := range p64 {
					gi := float64(g[i])
					p64[i] *= 1 - lr*decay
					m64[i] = b1*m64[i] + (1-b1)*gi
					v64[i] = b2*v64[i] + (1-b2)*gi*gi
					p64[i] -= lr / c1 * m64[i] / (math.Sqrt(v64[i])/math.Sqrt(c2) + eps)
				}
				near(t, w.what+" p", p, p64, 1e-6)
				near(t, w.what+" m", m, m64, 1e-6)
				near(t, w.what+" v", v, v64, 1e-6)
				out.intact()
			}
			w.intact()
		}
	})
}

// newAdamWStep returns the coefficients of the given step, counted from 1, in the
// convention of PyTorch's AdamW. They are computed in double precision and rounded once.
func newAdamWStep(lr, beta1, beta2, eps, weightDecay float64, step int) AdamWStep[float32] {
	t := float64(step)
	return AdamWStep[float32]{
		Beta1: float32(beta1), Rest1: float32(1 - beta1),
		Beta2: float32(beta2), Rest2: float32(1 - beta2),
		Root:  float32(1 / math.Sqrt(1-math.Pow(beta2, t))),
		Eps:   float32(eps),
		Decay: float32(1 - lr*weightDecay),
		Rate:  float32(lr / (1 - math.Pow(beta1, t))),
	}
}
