package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// lengths returns the sizes to try: all small ones, and both sides of the lengths at
// which slices are cut.
func lengths() []int {
	var ls []int
	for i := range 71 {
		ls = append(ls, i)
	}
	return append(ls, 127, 128, 129, 1<<13+1, 1<<15+21)
}

// ulps returns the distance of got from want in units in the last place of want, with a
// floor below which absolute error counts. Equal infinities and two NaN are at distance
// 0.
func ulps(got float32, want, floor float64) float64 {
	w := float32(want)
	if identical(got, w) || got == w {
		return 0
	}
	if math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0) || w != w || got != got {
		return math.Inf(1)
	}
	size := max(math.Abs(want), floor, 0x1p-126)
	return math.Abs(float64(got)-want) / math.Ldexp(1, math.Ilogb(size)-23)
}

// elementwise is one kernel of up to three inputs and a scalar, with its reference.
type elementwise struct {
	name   string
	inputs int
	run    func(k *Table[float32], dst []float32, in [3][]float32, s float32)
	want   func(a, b, c, s float64) float64
	lo, hi float64 // where random inputs are drawn from
	bound  float64 // greatest error in ulps, on any level
	floor  float64 // magnitude below which errors count absolutely
	// special reports that the reference is right for zeros, infinities and NaN as well.
	special bool
	// everywhere reports that the bound holds for every number as the first input.
	everywhere bool
}

func un(name string, f func(k *Table[float32]) Unary[float32], want func(a float64) float64, lo, hi, bound, floor float64) elementwise {
	return elementwise{name, 1, func(k *Table[float32], dst []float32, in [3][]float32, _ float32) { f(k)(dst, in[0]) },
		func(a, _, _, _ float64) float64 { return want(a) }, lo, hi, bound, floor, true, true}
}

func bin(name string, f func(k *Table[float32]) Binary[float32], want func(a, b float64) float64, bound, floor float64) elementwise {
	return elementwise{name, 2, func(k *Table[float32], dst []float32, in [3][]float32, _ float32) { f(k)(dst, in[0], in[1]) },
		func(a, b, _, _ float64) float64 { return want(a, b) }, -10, 10, bound, floor, true, false}
}

func sca(name string, f func(k *Table[float32]) Scalar[float32], want func(a, s float64) float64) elementwise {
	return elementwise{name, 1, func(k *Table[float32], dst []float32, in [3][]float32, s float32) { f(k)(dst, in[0], s) },
		func(a, _, _, s float64) float64 { return want(a, s) }, -10, 10, 0.5, 0, true, false}
}

// grad returns a gradient kernel, which multiplies a number that was rounded before.
func grad(name string, f func(k *Table[float32]) Binary[float32], want func(a, b float64) float64) elementwise {
	e := bin(name, f, want, 6, 1)
	e.special, e.everywhere = false, true
	return e
}

// largest and smallest are the builtins, which keep NaN, unlike math.Max for infinities.
func largest(a, b float64) float64  { return max(a, b) }
func smallest(a, b float64) float64 { return min(a, b) }

func elementwises() []elementwise {
	s := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	cdf := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	th := func(x float64) float64 { return math.Tanh(math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)) }
	silu := func(x, dy float64) float64 { return dy * (s(x) + x*s(x)*(1-s(x))) }
	return []elementwise{
		bin("Add", func(k *Table[float32]) Binary[float32] { return k.Add }, func(a, b float64) float64 { return a + b }, 0.5, 0),
		bin("Sub", func(k *Table[float32]) Binary[float32] { return k.Sub }, func(a, b float64) float64 { return a - b }, 0.5, 0),
		bin("Mul", func(k *Table[float32]) Binary[float32] { return k.Mul }, func(a, b float64) float64 { return a * b }, 0.5, 0),
		bin("Div", func(k *Table[float32]) Binary[float32] { return k.Div }, func(a, b float64) float64 { return a / b }, 0.5, 0),
		bin("Max", func(k *Table[float32]) Binary[float32] { return k.Max }, largest, 0, 0),
		bin("Min", func(k *Table[float32]) Binary[float32] { return k.Min }, smallest, 0, 0),
		bin("Pow", func(k *Table[float32]) Binary[float32] { return k.Pow }, math.Pow, 0.501, 0),

		sca("AddS", func(k *Table[float32]) Scalar[float32] { return k.AddS }, func(a, s float64) float64 { return a + s }),
		sca("RSubS", func(k *Table[float32]) Scalar[float32] { return k.RSubS }, func(a, s float64) float64 { return s - a }),
		sca("MulS", func(k *Table[float32]) Scalar[float32] { return k.MulS }, func(a, s float64) float64 { return a * s }),
		sca("RDivS", func(k *Table[float32]) Scalar[float32] { return k.RDivS }, func(a, s float64) float64 { return s / a }),
		sca("MaxS", func(k *Table[float32]) Scalar[float32] { return k.MaxS }, largest),
		sca("MinS", func(k *Table[float32]) Scalar[float32] { return k.MinS }, smallest),
		{"PowS", 1, func(k *Table[float32], dst []float32, in [3][]float32, s float32) { k.PowS(dst, in[0], s) },
			func(a, _, _, s float64) float64 { return math.Pow(a, s) }, -10, 10, 0.501, 0, true, false},

		{"Axpy", 2, func(k *Table[float32], dst []float32, in [3][]float32, s float32) { k.Axpy(dst, in[0], in[1], s) },
			func(a, b, _, s float64) float64 { return s*a + b }, -10, 10, 0.51, 0, true, false},
		{"Fill", 1, func(k *Table[float32], dst []float32, in [3][]float32, s float32) { k.Fill(dst, s) },
			func(_, _, _, s float64) float64 { return s }, -10, 10, 0, 0, true, false},

		un("Neg", func(k *Table[float32]) Unary[float32] { return k.Neg }, func(x float64) float64 { return -x }, -10, 10, 0, 0),
		un("Sign", func(k *Table[float32]) Unary[float32] { return k.Sign }, func(x float64) float64 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		}, -10, 10, 0, 0),
		un("Floor", func(k *Table[float32]) Unary[float32] { return k.Floor }, math.Floor, -10, 10, 0, 0),
		un("Ceil", func(k *Table[float32]) Unary[float32] { return k.Ceil }, math.Ceil, -10, 10, 0, 0),
		un("Abs", func(k *Table[float32]) Unary[float32] { return k.Abs }, math.Abs, -10, 10, 0, 0),
		un("Square", func(k *Table[float32]) Unary[float32] { return k.Square }, func(x float64) float64 { return x * x }, -10, 10, 0.5, 0),
		un("Sqrt", func(k *Table[float32]) Unary[float32] { return k.Sqrt }, math.Sqrt, -1, 100, 0.5, 0),
		un("Rsqrt", func(k *Table[float32]) Unary[float32] { return k.Rsqrt }, func(x float64) float64 { return 1 / math.Sqrt(x) }, 0, 100, 1.5, 0),
		un("Recip", func(k *Table[float32]) Unary[float32] { return k.Recip }, func(x float64) float64 { return 1 / x }, -10, 10, 0.5, 0),
		un("Exp", func(k *Table[float32]) Unary[float32] { return k.Exp }, math.Exp, -104, 89, 1.5, 0),
		un("Exp near 0", func(k *Table[float32]) Unary[float32] { return k.Exp }, math.Exp, -1, 1, 1.5, 0),
		un("Log", func(k *Table[float32]) Unary[float32] { return k.Log }, math.Log, 0, 100, 1, 0),
		un("Sin", func(k *Table[float32]) Unary[float32] { return k.Sin }, math.Sin, -100, 100, 2, 0),
		un("Cos", func(k *Table[float32]) Unary[float32] { return k.Cos }, math.Cos, -100, 100, 2, 0),
		un("Erf", func(k *Table[float32]) Unary[float32] { return k.Erf }, math.Erf, -5, 5, 2, 0),
		un("Tanh", func(k *Table[float32]) Unary[float32] { return k.Tanh }, math.Tanh, -10, 10, 2, 0),
		un("Tanh near 0", func(k *Table[float32]) Unary[float32] { return k.Tanh }, math.Tanh, -0.7, 0.7, 2, 0),
		// e⁸⁹ is infinite, so these fall to 0 a little early on the left.
		un("Sigmoid", func(k *Table[float32]) Unary[float32] { return k.Sigmoid }, s, -87, 40, 2.5, 0x1p-100),
		un("ReLU", func(k *Table[float32]) Unary[float32] { return k.ReLU }, func(x float64) float64 { return math.Max(x, 0) }, -10, 10, 0, 0),
		un("SiLU", func(k *Table[float32]) Unary[float32] { return k.SiLU }, func(x float64) float64 { return x * s(x) }, -80, 40, 3, 0x1p-100),
		un("GELU", func(k *Table[float32]) Unary[float32] { return k.GELU }, func(x float64) float64 { return x * cdf(x) }, -10, 10, 2, 1),
		un("GELUTanh", func(k *Table[float32]) Unary[float32] { return k.GELUTanh }, func(x float64) float64 { return x * (1 + th(x)) / 2 }, -10, 10, 2, 1),

		grad("SigmoidGrad", func(k *Table[float32]) Binary[float32] { return k.SigmoidGrad }, func(y, dy float64) float64 { return dy * y * (1 - y) }),
		grad("TanhGrad", func(k *Table[float32]) Binary[float32] { return k.TanhGrad }, func(y, dy float64) float64 { return dy * (1 - y*y) }),
		grad("ReLUGrad", func(k *Table[float32]) Binary[float32] { return k.ReLUGrad }, func(x, dy float64) float64 {
			if x <= 0 {
				return 0
			}
			return dy
		}),
		grad("SiLUGrad", func(k *Table[float32]) Binary[float32] { return k.SiLUGrad }, silu),
		grad("GELUGrad", func(k *Table[float32]) Binary[float32] { return k.GELUGrad }, func(x, dy float64) float64 {
			return dy * (cdf(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi))
		}),
		grad("GELUTanhGrad", func(k *Table[float32]) Binary[float32] { return k.GELUTanhGrad }, func(x, dy float64) float64 {
			t := th(x)
			return dy * ((1+t)/2 + x/2*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x))
		}),
	}
}

// specials returns values at which formulas break.
func specials() []float32 {
	inf := float32(math.Inf(1))
	return []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 1, -1, math.MaxFloat32, -math.MaxFloat32,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, 88.7, 88.8, -87.3, -88, -103.9, -104.1, 1e20, -1e20, 4, -4, 0.6, -0.6}
}

func TestElementwise(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, e := range elementwises() {
			worst := 0.0
			random := func() float32 { return float32(e.lo + (e.hi-e.lo)*r.Float64()) }
			for _, n := range lengths() {
				// In place of no input, or of each.
				for place := -1; place < e.inputs; place++ {
					if place >= 0 && n > 100 {
						continue
					}
					var in [3]fenced
					var args, old [3][]float32
					for i := range in {
						in[i] = newFenced(n, r.IntN(17), random)
						args[i], old[i] = in[i].v, append([]float32(nil), in[i].v...)
					}
					dst := newFenced(n, r.IntN(17), random)
					if place >= 0 {
						dst = in[place]
					}
					s := random()
					e.run(k, dst.v, args, s)
					what := fmt.Sprintf("%s of %d in place of %d", e.name, n, place)
					for i := range in {
						in[i].intact(t, what)
						for j := range in[i].v {
							if i != place && !identical(in[i].v[j], old[i][j]) {
								t.Fatalf("%s: input %d changed at %d", what, i, j)
							}
						}
					}
					dst.intact(t, what)
					for i, got := range dst.v {
						want := e.want(float64(old[0][i]), float64(old[1][i]), float64(old[2][i]), float64(s))
						u := ulps(got, want, e.floor)
						worst = max(worst, u)
						if !(u <= e.bound) {
							t.Fatalf("%s: f(%v, %v, %v, scalar %v) = %v, want %v: %.3g ulp, allowed %v", what, old[0][i], old[1][i], old[2][i], s, got, want, u, e.bound)
						}
					}
				}
			}
			t.Logf("%-12s at most %.3f ulp", e.name, worst)
		}
	})
}

func TestElementwiseSpecials(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, e := range elementwises() {
			if !e.special {
				continue
			}
			failed := false
			for _, s := range specials() {
				// All pairs, at every place of a vector and of a tail.
				var in [3][]float32
				for _, a := range specials() {
					for _, b := range specials() {
						in[0], in[1], in[2] = append(in[0], a), append(in[1], b), append(in[2], s)
					}
				}
				in[0], in[1], in[2] = in[0][r.IntN(16):], in[1][r.IntN(16):], in[2][r.IntN(16):]
				dst := make([]float32, min(len(in[0]), len(in[1]), len(in[2])))
				e.run(k, dst, in, s)
				for i, got := range dst {
					want := e.want(float64(in[0][i]), float64(in[1][i]), float64(in[2][i]), float64(s))
					if u := ulps(got, want, e.floor); !(u <= e.bound) && !failed {
						failed = true
						t.Errorf("%s: f(%v, %v, %v, scalar %v) = %v, want %v", e.name, in[0][i], in[1][i], in[2][i], s, got, want)
					}
				}
			}
		}
	})
}

func TestElementwisePanics(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, e := range elementwises() {
			for short := range e.inputs {
				if e.name == "Fill" {
					continue
				}
				var in [3][]float32
				for i := range in {
					in[i] = make([]float32, 20)
				}
				in[short] = in[short][:19:19]
				dst := newFenced(20, 0, func() float32 { return 7 })
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("%s: no panic when input %d is short", e.name, short)
						}
					}()
					e.run(k, dst.v, in, 1)
				}()
				for i, v := range dst.v {
					if v != 7 {
						t.Fatalf("%s: wrote element %d before the panic", e.name, i)
					}
				}
			}
		}
	})
}

// TestAlignment wants the same bits from the same values at every address.
func TestAlignment(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		x := newFenced(1003, 0, func() float32 { return r.Float32() - 0.3 })
		reductions := map[string]Reduction[float32]{"Sum": k.Sum, "RowMax": k.RowMax, "CrossEntropy": func(x []float32) float32 { return k.CrossEntropy(nil, x, 3, 1) },
			"Dot":      func(x []float32) float32 { return k.Dot(x, x) },
			"SumSqDev": func(x []float32) float32 { return k.SumSqDev(x, 0.1) },
			"Softmax":  func(x []float32) float32 { k.Softmax(x, x, 1.5); return x[len(x)-1] },
		}
		for name, f := range reductions {
			want := f(append([]float32(nil), x.v...))
			for off := range 20 {
				y := newFenced(len(x.v), off, func() float32 { return 0 })
				copy(y.v, x.v)
				if got := f(y.v); !identical(got, want) {
					t.Errorf("%s: %v at offset %d, %v at 0", name, got, off, want)
				}
			}
		}
	})
}

func TestAllocs(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		x, y, z := make([]float32, 4096), make([]float32, 4096), make([]float32, 4096)
		scratch := make([]float32, GemmScratch(64, 64, 64))
		step := newAdamWStep(1e-3, 0.9, 0.999, 1e-8, 0.01, 1)
		for name, f := range map[string]func(){
			"Gemm": func() {
				k.Gemm(64, 64, 64, 1, Matrix[float32]{x, 64, 1}, Matrix[float32]{y, 64, 1}, false, z, 64, scratch, nil)
			},
			"Add":           func() { k.Add(x, y, z) },
			"Sum":           func() { k.Sum(x) },
			"CrossEntropy":  func() { k.CrossEntropy(y, x, 3, 1) },
			"LayerNorm":     func() { k.LayerNorm(y, x, z, z, 1e-5) },
			"LayerNormGrad": func() { k.LayerNormGrad(y, z, z, x, x, x, 0, 1) },
			"AdamW":         func() { k.AdamW(x, y, z, x, y, z, z, step) },
		} {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	})
}

func BenchmarkVector(b *testing.B) {
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{1 << 10, 1 << 20} {
			x, y, z := make([]float32, n), make([]float32, n), make([]float32, n)
			m, v := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], y[i] = float32(i%11)-5, 1
			}
			step := newAdamWStep(1e-3, 0.9, 0.999, 1e-8, 0.01, 1)
			for _, f := range []struct {
				name  string
				bytes int
				run   func()
			}{
				{"Add", 12, func() { k.Add(z, x, y) }}, {"Exp", 8, func() { k.Exp(z, x) }}, {"Tanh", 8, func() { k.Tanh(z, x) }},
				{"GELU", 8, func() { k.GELU(z, x) }}, {"Sum", 4, func() { k.Sum(x) }}, {"Dot", 8, func() { k.Dot(x, y) }},
				{"RowMax", 4, func() { k.RowMax(x) }}, {"Softmax", 8, func() { k.Softmax(z, x, 1) }},
				{"AdamW", 28, func() { k.AdamW(y, m, v, y, m, v, x, step) }},
			} {
				b.Run(fmt.Sprintf("%v/%s/%d", l, f.name, n), func(b *testing.B) {
					b.SetBytes(int64(f.bytes * n))
					for b.Loop() {
						f.run()
					}
				})
			}
		}
	}
}
