package cpu_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestColumns compares reductions over dims that are not the last with the same in Go, on
// every level of kernels. The shapes are more than one tile and don't divide evenly.
func TestColumns(t *testing.T) {
	for _, level := range levels() {
		d, err := cpu.NewEager(&cpu.Options{Level: &level, Threads: 3, Arena: small})
		if err != nil {
			t.Fatal(err)
		}
		s := tensor.NewSession(device.NewEngine(d), nil)
		for _, c := range []struct {
			shape [3]int
			dims  []int // that are folded
		}{
			{[3]int{1, 70, 2100}, []int{1}}, {[3]int{3, 37, 9}, []int{1}}, {[3]int{5, 300, 17}, []int{1}},
			{[3]int{2, 3, 2049}, []int{0, 1}}, {[3]int{70, 5, 41}, []int{0}}, {[3]int{7, 5, 3}, []int{1}}, {[3]int{4, 6, 1}, []int{0}},
			// few columns, several pieces of them
			{[3]int{1, 23_457, 7}, []int{1}}, {[3]int{2, 33_000, 3}, []int{1}}, {[3]int{1, 2500, 64}, []int{1}}, {[3]int{9, 11, 7}, []int{1}},
		} {
			t.Run(fmt.Sprint(level, c), func(t *testing.T) {
				s.Scope(func(*tensor.Scope) { testColumns(t, s, c.shape, c.dims) })
			})
		}
		s.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testColumns(t *testing.T, s *tensor.Session, shape [3]int, dims []int) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := make([]float64, shape[0]*shape[1]*shape[2])
	for i := range in {
		in[i] = float64(rng.IntN(2001)-1000) / 8 // exact in every dtype of floats
		if i%1001 == 1000 {
			in[i] = math.NaN()
		}
	}
	x := tensor.From(s, in, shape[:]...)
	whole := make([]float64, len(in)) // without NaN
	for i, v := range in {
		if whole[i] = math.Floor(v); v != v {
			whole[i] = 3
		}
	}
	w := tensor.From(s, whole, shape[:]...)
	for _, dt := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64} {
		y, from := w.Cast(dt), whole
		if dt.IsFloat() {
			y, from = x.Cast(dt), in
		}
		check := func(name string, got *tensor.Tensor, from []float64, f func(x []float64) float64) {
			t.Helper()
			out, err := tensor.Data[float64](got.Cast(tensor.F64))
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range groups(from, shape, dims) {
				if want := f(x); out[i] != want && !(out[i] != out[i] && want != want) {
					t.Fatalf("%v %s: result %d is %v; expected %v", dt, name, i, out[i], want)
				}
			}
		}
		check("max", y.Max(dims...), from, func(x []float64) float64 { return x[place(x, 1)] })
		check("min", y.Min(dims...), from, func(x []float64) float64 { return x[place(x, -1)] })
		check("any", y.GtS(120).Any(dims...), from, func(x []float64) float64 {
			return btof(slices.ContainsFunc(x, func(v float64) bool { return v > 120 }))
		})
		check("all", y.GtS(-120).All(dims...), from, func(x []float64) float64 {
			return btof(!slices.ContainsFunc(x, func(v float64) bool { return !(v > -120) }))
		})
		check("sum", w.Cast(dt).Sum(dims...), whole, func(x []float64) (sum float64) {
			for _, v := range x {
				sum += v
			}
			return sum
		})
		check("prod", w.Cast(dt).Sign().Prod(dims...), whole, func(x []float64) float64 {
			p := 1.0
			for _, v := range x {
				p *= float64(cmp.Compare(v, 0))
			}
			return p
		})
		if len(dims) == 1 {
			check("argmax", y.Argmax(dims[0]), from, func(x []float64) float64 { return float64(place(x, 1)) })
			check("argmin", y.Argmin(dims[0]), from, func(x []float64) float64 { return float64(place(x, -1)) })
		}
	}
	// Rows along the last dim of the same elements.
	if len(dims) == 1 {
		order := []int{0, 2, 1}
		if dims[0] == 0 {
			order = []int{1, 2, 0}
		}
		x, dy := w.MulS(1.0/64).Cast(tensor.F32), w.Sin().Cast(tensor.F32)
		back := []int{0, 2, 1}
		if dims[0] == 0 {
			back = []int{2, 0, 1}
		}
		for name, f := range map[string]func(x, dy *tensor.Tensor, dim int) *tensor.Tensor{
			"softmax":     func(x, _ *tensor.Tensor, dim int) *tensor.Tensor { return x.Softmax(dim) },
			"log softmax": func(x, _ *tensor.Tensor, dim int) *tensor.Tensor { return x.LogSoftmax(dim) },
			"softmax grad": func(x, dy *tensor.Tensor, dim int) *tensor.Tensor {
				return s.Apply(tensor.OpSoftmaxGrad, []int64{int64(dim)}, tensor.T(x.Softmax(dim)), tensor.T(dy))
			},
			"log softmax grad": func(x, dy *tensor.Tensor, dim int) *tensor.Tensor {
				return s.Apply(tensor.OpLogSoftmaxGrad, []int64{int64(dim)}, tensor.T(x.LogSoftmax(dim)), tensor.T(dy))
			},
		} {
			want := f(x.Permute(order...), dy.Permute(order...), 2).Permute(back...)
			off, err := f(x, dy, dims[0]).Sub(want).Abs().Max().Item()
			if err != nil || !(off < 2e-5) {
				t.Errorf("%s is off by %v, %v", name, off, err)
			}
		}
	}
}

func btof(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// place returns the place of the first largest element, or least if sign is -1; a NaN is
// beyond all.
func place(x []float64, sign float64) int {
	at := 0
	for i, v := range x {
		if x[at] == x[at] && (v != v || v*sign > x[at]*sign) {
			at = i
		}
	}
	return at
}

// groups returns the elements that fold into each result.
func groups(x []float64, shape [3]int, dims []int) (out [][]float64) {
	at := map[[3]int]int{}
	for i, v := range x {
		key := [3]int{i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]}
		for _, d := range dims {
			key[d] = 0
		}
		if _, ok := at[key]; !ok {
			at[key] = len(out)
			out = append(out, nil)
		}
		out[at[key]] = append(out[at[key]], v)
	}
	return out
}
