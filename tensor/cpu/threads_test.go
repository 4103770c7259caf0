package cpu_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// threaded computes every operation that threads share, on sizes that don't divide
// evenly.
func threaded(t *testing.T, d *cpu.Device) map[string][]byte {
	t.Helper()
	s := tensor.NewSession(device.NewEngine(d), nil)
	defer s.Close()
	out := map[string][]byte{}
	some := func(x *tensor.Tensor, n int) *tensor.Tensor { // indices below n
		return x.Sigmoid().MulS(float64(n) - 0.5).Cast(tensor.I64)
	}
	for _, n := range [][2]int{{1, 5000}, {7, 1500}, {67, 130}, {300, 3}} {
		x := tensor.RandN(s, tensor.F32, n[0], n[1])
		dy := tensor.RandN(s, tensor.F32, n[0], n[1])
		b := tensor.RandN(s, tensor.F32, 3, n[1], 21)
		long := tensor.RandN(s, tensor.F32, 150_001)
		few := long.Narrow(0, 0, 150_000).Reshape(30_000, 5)
		img := tensor.RandN(s, tensor.F32, 5, 4, 9, 11)
		w := tensor.RandN(s, tensor.F32, 6, 4, 3, 3)
		T, S := tensor.T, tensor.S
		for name, f := range map[string]func() *tensor.Tensor{
			"exp": x.Exp, "gelu": x.GELU, "tanh": x.Tanh, "sigmoid": x.Sigmoid,
			"log":                     func() *tensor.Tensor { return x.Abs().Log() },
			"add rows":                func() *tensor.Tensor { return x.Add(x.Slice(tensor.At(0))) },
			"times column":            func() *tensor.Tensor { return x.Mul(x.Narrow(1, 0, 1)) },
			"scalar":                  func() *tensor.Tensor { return x.MulS(1.5).AddS(0.25) },
			"f64":                     func() *tensor.Tensor { return x.Cast(tensor.F64).Exp().Mul(dy.Cast(tensor.F64)) },
			"transposed":              func() *tensor.Tensor { return x.T().Add(dy.T().Exp()) },
			"softmax":                 func() *tensor.Tensor { return x.Softmax(-1) },
			"sum over rows":           func() *tensor.Tensor { return x.Sum(0) },
			"sum of few columns":      func() *tensor.Tensor { return few.Sum(0) },
			"bf16 mean of few":        func() *tensor.Tensor { return few.Cast(tensor.BF16).Mean(0) },
			"max over rows":           func() *tensor.Tensor { return x.Max(0) },
			"sum over the middle":     func() *tensor.Tensor { return b.Sum(1) },
			"f64 sum over the middle": func() *tensor.Tensor { return b.Cast(tensor.F64).Sum(1) },
			"argmax over the middle":  func() *tensor.Tensor { return b.Argmax(1) },
			"argmax of rows":          func() *tensor.Tensor { return x.Argmax(1) },
			"i32 sum":                 func() *tensor.Tensor { return x.MulS(100).Cast(tensor.I32).Sum(1) },
			"softmax over rows":       func() *tensor.Tensor { return x.Softmax(0) },
			"softmax over the middle": func() *tensor.Tensor { return b.Softmax(1) },
			"log_softmax_grad over the middle": func() *tensor.Tensor {
				return s.Apply(tensor.OpLogSoftmaxGrad, []int64{1}, T(b.LogSoftmax(1)), T(b))
			},
			"copy of a transpose": func() *tensor.Tensor {
				return s.Apply(tensor.OpCast, []int64{int64(tensor.F32)}, T(x.T()))
			},
			"cumsum":              func() *tensor.Tensor { return x.Cumsum(1) },
			"sum of all":          func() *tensor.Tensor { return long.Sum() },
			"max of all":          func() *tensor.Tensor { return long.Max() },
			"prod of all":         func() *tensor.Tensor { return long.MulS(0.001).AddS(1).Prod() },
			"f64 sum of all":      func() *tensor.Tensor { return long.Cast(tensor.F64).Sum() },
			"f64 min of all":      func() *tensor.Tensor { return long.Cast(tensor.F64).Min() },
			"f64 argmax of rows":  func() *tensor.Tensor { return x.Cast(tensor.F64).Argmax(1) },
			"f64 mean of rows":    func() *tensor.Tensor { return x.Cast(tensor.F64).Mean(1) },
			"i64 sum of all":      func() *tensor.Tensor { return long.MulS(100).Cast(tensor.I64).Sum() },
			"cumsum of rows":      func() *tensor.Tensor { return x.Cumsum(0) },
			"cumsum from the end": func() *tensor.Tensor { return s.Apply(tensor.OpCumsum, []int64{1, 1}, T(b)) },
			"prod_grad":           func() *tensor.Tensor { return s.Apply(tensor.OpProdGrad, []int64{1}, T(b), T(b.SumKeep(1))) },
			"concat":              func() *tensor.Tensor { return tensor.Concat(1, x, dy, x) },
			"pad":                 func() *tensor.Tensor { return x.Pad(2, [2]int{1, 2}, [2]int{3, 1}) },
			"randn": func() *tensor.Tensor {
				return s.Apply(tensor.OpRandN, []int64{int64(tensor.F32), 0, int64(n[0]), int64(n[1])}, S(1), S(7))
			},
			"rand": func() *tensor.Tensor {
				return s.Apply(tensor.OpRand, []int64{int64(tensor.F64), 0, int64(n[0]), int64(n[1])}, S(1), S(7))
			},
			"dropout":      func() *tensor.Tensor { return s.Apply(tensor.OpDropout, []int64{0}, T(x), S(0.3), S(1), S(7)) },
			"index_select": func() *tensor.Tensor { return x.IndexSelect(1, some(dy.Slice(tensor.At(0)), n[1])) },
			"gather":       func() *tensor.Tensor { return x.Gather(1, some(dy, n[1])) },
			"scatter_add":  func() *tensor.Tensor { return x.ScatterAdd(1, some(dy, n[1]), dy) },
			"rms_norm":     func() *tensor.Tensor { return x.RMSNorm(x.Slice(tensor.At(0)), 1e-6) },
			"layer_norm":   func() *tensor.Tensor { return x.LayerNorm(nil, nil, 1e-6, 1) },
			"rms_norm_grad_x": func() *tensor.Tensor {
				return s.Apply(tensor.OpRMSNormGradX, []int64{1}, T(x), T(dy), S(1e-6))
			},
			"rms_norm_grad_w": func() *tensor.Tensor {
				return s.Apply(tensor.OpRMSNormGradW, []int64{1}, T(x), T(dy), S(1e-6))
			},
			"matmul":         func() *tensor.Tensor { return x.Matmul(dy.T()) },
			"batched matmul": func() *tensor.Tensor { return x.Matmul(b) },
			"many matmul":    func() *tensor.Tensor { return b.T().Matmul(b) },
			"f64 matmul":     func() *tensor.Tensor { return x.Cast(tensor.F64).Matmul(dy.Cast(tensor.F64).T()) },
			"conv":           func() *tensor.Tensor { return img.Conv2D(w, nil, tensor.ConvOptions{Pad: [2]int{1, 1}}) },
			"conv_grad_x": func() *tensor.Tensor {
				return s.Apply(tensor.OpConv2DGradX, []int64{1, 1, 1, 1, 1, 1, 1, 9, 11}, T(img.Conv2D(w, nil, tensor.ConvOptions{Pad: [2]int{1, 1}})), T(w))
			},
			"conv_grad_w": func() *tensor.Tensor {
				return s.Apply(tensor.OpConv2DGradW, []int64{1, 1, 1, 1, 1, 1, 1, 3, 3}, T(img), T(img.Conv2D(w, nil, tensor.ConvOptions{Pad: [2]int{1, 1}})))
			},
			"adamw": func() *tensor.Tensor {
				m, v := s.Apply(tensor.OpAdamM, nil, T(x), T(dy), S(0.9)), s.Apply(tensor.OpAdamV, nil, T(x.Square()), T(dy), S(0.99))
				return s.Apply(tensor.OpAdamW, nil, T(x), T(m), T(v), S(0.1), S(0.1), S(1e-8), S(0.1), S(0.01))
			},
		} {
			var y *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) { y = sc.Keep(f()) })
			if err := y.ViewBytes(func(b []byte) error {
				out[fmt.Sprintf("%s of %v", name, n)] = bytes.Clone(b)
				return nil
			}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	return out
}

// TestThreadsChangeNothing wants results to have the same bits for any number of threads.
func TestThreadsChangeNothing(t *testing.T) {
	for _, level := range levels() {
		one, err := cpu.New(&cpu.Options{Level: &level})
		if err != nil {
			t.Fatal(err)
		}
		want := threaded(t, one)
		one.Close()
		for _, n := range []int{2, 3, 5} {
			d, err := cpu.NewEager(&cpu.Options{Level: &level, Threads: n})
			if err != nil {
				t.Fatal(err)
			}
			for name, got := range threaded(t, d) {
				if !bytes.Equal(got, want[name]) {
					t.Errorf("%s on %s: %d threads give other bits than one", name, level, n)
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestThreadsGoOn wants the threads to run the next program after an error, and after
// they have parked.
func TestThreadsGoOn(t *testing.T) {
	d, err := cpu.NewEager(&cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := tensor.NewSession(device.NewEngine(d), nil)
	defer s.Close()
	x := tensor.Ones(s, tensor.F32, 64, 64)
	for i := range 200 {
		var y *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			y = sc.Keep(x.Matmul(x).Exp().MulS(0).AddS(float64(i)).Max())
			if i%50 == 25 {
				sc.Keep(x.IndexSelect(0, tensor.From(s, []int32{64})))
			}
		})
		got, err := y.Item()
		if i%50 == 25 {
			if !errors.Is(err, tensor.ErrIndex) {
				t.Fatalf("an index out of range gave %v", err)
			}
			s.ClearErr()
		} else if err != nil || got != got || got != float64(i) {
			t.Fatalf("run %d gave %v, %v", i, got, err)
		}
	}
}
