package cuda_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// operands makes the operands of a kind of step: the same numbers on every device.
type operands struct {
	s    *tensor.Session
	made int
}

// of returns a tensor whose elements are small multiples of 1/8, none of them twice in a
// row.
func (o *operands) of(d tensor.DType, shape ...int) *tensor.Tensor {
	x := make([]float32, tensor.Shape(shape).Elems())
	for i := range x {
		o.made = (o.made*1103515245 + 12345) & 0x7fffffff
		x[i] = float32(o.made>>16%33-16) / 8
	}
	t := tensor.From(o.s, x, shape...)
	if !d.IsFloat() {
		t = t.MulS(8)
	}
	return t.Cast(d)
}

// reals returns f for f32 and for f64.
func reals(f func(o *operands, d tensor.DType) []*tensor.Tensor) func(o *operands) []*tensor.Tensor {
	return func(o *operands) []*tensor.Tensor { return append(f(o, tensor.F32), f(o, tensor.F64)...) }
}

// kinds are steps that must not run on the host. Each returns its results.
var kinds = []struct {
	name string
	f    func(o *operands) []*tensor.Tensor
}{
	{"product", func(o *operands) []*tensor.Tensor {
		return []*tensor.Tensor{o.of(tensor.F32, 70, 20).Matmul(o.of(tensor.F32, 20, 65))}
	}},
	{"product of transposed matrices", func(o *operands) []*tensor.Tensor {
		return []*tensor.Tensor{o.of(tensor.F32, 20, 70).T().Matmul(o.of(tensor.F32, 65, 20).T())}
	}},
	{"products of broadcast matrices", func(o *operands) []*tensor.Tensor {
		a := o.of(tensor.F32, 2, 3, 5, 4)
		return []*tensor.Tensor{
			a.Matmul(o.of(tensor.F32, 4, 6)), a.Matmul(o.of(tensor.F32, 3, 4, 6)), a.Matmul(o.of(tensor.F32, 2, 1, 4, 6)),
			a.Permute(1, 0, 2, 3).Matmul(o.of(tensor.F32, 3, 2, 4, 6)),
		}
	}},
	{"products of other dtypes", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range []tensor.DType{tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
			out = append(out, o.of(d, 5, 7).Matmul(o.of(d, 7, 3)), o.of(d, 17, 7).Matmul(o.of(d, 7, 300)))
		}
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			out = append(out, o.of(d, 5, 7).Cast(tensor.F32).Matmul(o.of(d, 3, 7).T().Cast(tensor.F32)))
		}
		return out
	}},
	{"sums", func(o *operands) []*tensor.Tensor {
		x := o.of(tensor.F32, 3, 50, 7)
		return []*tensor.Tensor{
			x.Sum(), x.Sum(0), x.Sum(1), x.Sum(2), x.Mean(0, 2), x.Mean(-1), x.Permute(2, 0, 1).Sum(1), o.of(tensor.F32, 2100, 3).Mean(0),
		}
	}},
	{"long rows", func(o *operands) []*tensor.Tensor {
		x := o.of(tensor.F32, 2, 9000)
		return []*tensor.Tensor{x.Mean(1), x.Max(1), x.Sum()}
	}},
	{"reductions of other dtypes", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
			x := o.of(d, 4, 9)
			out = append(out, x.Sum(0), x.Mean(1), x.Max(1), x.Min(0), x.Prod(1))
		}
		x := o.of(tensor.F32, 4, 9).GtS(0)
		return append(out, x.Any(0), x.All(1), x.Sum(), x.Prod(0))
	}},
	{"places of the largest", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
			x := o.of(d, 4, 9)
			out = append(out, x.Argmax(1), x.Argmax(0), x.Argmin(1))
		}
		least := tensor.From(o.s, []int64{3, math.MaxInt64, math.MinInt64, 5, math.MinInt64, math.MaxInt64})
		return append(out, least.Argmin(0), least.Argmax(0))
	}},
	{"other dtypes by index", func(o *operands) (out []*tensor.Tensor) {
		idx, at := tensor.From(o.s, []int64{4, 0, 2, 2, 1, 0}, 2, 3), tensor.From(o.s, []int64{1, 4, 1, -5})
		for _, d := range tensor.DTypes() {
			x := o.of(d, 5, 3)
			out = append(out, x.Gather(0, idx), x.IndexSelect(0, at), x.T().IndexSelect(1, at))
			if d != tensor.Bool && !d.IsStorage() {
				out = append(out, x.ScatterAdd(0, idx, o.of(d, 2, 3)), x.IndexAdd(0, at, o.of(d, 4, 3)))
			}
			if !d.IsStorage() {
				out = append(out, x.Cumsum(0))
			}
		}
		return out
	}},
	{"chain and reduction", func(o *operands) []*tensor.Tensor {
		x := o.of(tensor.F32, 4, 9)
		return []*tensor.Tensor{x.Exp().MulS(2).Sum(1), x.Mul(x).Sum(), x.Neg().Exp().Max(0, 1)}
	}},
	{"moves", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range tensor.DTypes() {
			x := o.of(d, 3, 4)
			out = append(out, tensor.Full(o.s, d, 1, 2, 3), x.Pad(1, [2]int{1, 0}, [2]int{2, 3}), tensor.Concat(1, x, x.T().Reshape(3, 4), x), x.T())
		}
		return out
	}},
	{"transposes", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range tensor.DTypes() {
			for _, n := range [][2]int{{8, 8}, {31, 33}, {32, 64}, {45, 70}, {7, 40}} {
				x := o.of(d, n[0], n[1])
				out = append(out, x.T(), x.Cast(tensor.F64).T().Cast(d))
			}
			x := o.of(d, 3, 11, 2, 13)
			out = append(out, x.Permute(3, 2, 0, 1), x.Permute(2, 3, 0, 1), x.Permute(0, 3, 2, 1), x.Permute(3, 1, 0, 2), x.Permute(0, 2, 1, 3))
			y := o.of(d, 20, 30)
			out = append(out, y.Narrow(0, 3, 14).Narrow(1, 5, 19).T(), y.Narrow(0, 1, 19).T().Expand(2, 30, 19), y.T().Flip(1), y.Flip(0, 1).T(),
				tensor.Concat(1, y.T(), x.Reshape(2, 429).Narrow(1, 1, 30).T()),
				y.T().Pad(0, [2]int{1, 2}, [2]int{3, 0}), o.of(d, 2, 1, 2, 1, 2, 9, 8).Permute(1, 4, 2, 0, 3, 6, 5), o.of(d, 2, 3, 2, 3, 2, 9, 8).Permute(3, 4, 2, 1, 0, 6, 5))
		}
		return out
	}},
	{"chains of transposed operands", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range some(tensor.F32, tensor.U8, tensor.I64, tensor.BF16) {
			x, y := o.of(d, 131, 129), o.of(d, 129, 131)
			out = append(out, x.T().Add(y).Mul(y), x.T().Mul(x.T()).Add(y), y.Add(x.T().Maximum(y)).Sum(1), x.Narrow(1, 1, 126).T().Add(y.Narrow(0, 0, 126)),
				x.T().Gt(y), o.of(d, 3, 90, 80).T().Add(o.of(d, 80, 90)))
		}
		return out
	}},
	{"large transposed views", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range some(tensor.F64, tensor.U8, tensor.I32, tensor.F16) {
			x := o.of(d, 301, 259)
			out = append(out, x.T(), x.Narrow(0, 5, 270).Narrow(1, 3, 250).T(), o.of(d, 2, 17, 300).T(), o.of(d, 300, 17).T(), tensor.Concat(1, x.T(), x.Narrow(0, 1, 259)))
		}
		return out
	}},
	{"rows by index", func(o *operands) []*tensor.Tensor {
		idx := tensor.From(o.s, []int64{6, 0, 3, -4, 1, 0, -1, 2, 3, -7}, 2, 5)
		x := o.of(tensor.F32, 7, 8)
		return []*tensor.Tensor{
			x.IndexSelect(0, idx), x.T().IndexSelect(0, idx.Cast(tensor.I32)), o.of(tensor.F16, 3, 7, 2).IndexSelect(1, idx),
			x.IndexAdd(0, idx, o.of(tensor.F32, 2, 5, 8)), o.of(tensor.F32, 2, 7, 3).IndexAdd(1, idx.Reshape(10), o.of(tensor.F32, 2, 10, 3)),
		}
	}},
	{"elements by index", func(o *operands) (out []*tensor.Tensor) {
		idx := tensor.From(o.s, []int64{4, 0, 2, 2, 1, 0, 3, 4, 4, 1, 1, 3, 0, 2, 2, 2, 4, 0}, 2, 3, 3)
		for _, shape := range [][]int{{5, 3, 3}, {2, 5, 3}, {2, 3, 5}, {5, 4, 6}, {3, 5, 7}, {4, 6, 5}} {
			dim := slices.Index(shape, 5)
			x, from := o.of(tensor.F32, shape...), o.of(tensor.F32, 2, 3, 3)
			out = append(out, x.Gather(dim, idx), o.of(tensor.I32, shape...).Gather(dim, idx.Cast(tensor.I32)),
				x.ScatterAdd(dim, idx, from), x.MulS(2).ScatterAdd(dim, idx, from.Transpose(1, 2)))
		}
		x := o.of(tensor.F32, 5, 9).RequireGrad()
		y := x.T().Gather(0, tensor.From(o.s, []int32{3, 0, 8, 8, 3}, 1, 5))
		grads, err := autograd.Grad(y.Square().Sum(), x)
		if err != nil {
			panic(err)
		}
		return append(append(out, y), grads...)
	}},
	{"running sums", func(o *operands) (out []*tensor.Tensor) {
		for dim := range 3 {
			x := o.of(tensor.F32, 3, 4, 5).RequireGrad()
			y := x.Cumsum(dim)
			grads, err := autograd.Grad(y.Square().Sum(), x)
			if err != nil {
				panic(err)
			}
			out = append(append(out, y), grads...)
		}
		return append(out, o.of(tensor.F32, 2, 700).Cumsum(1), o.of(tensor.F32, 4, 3).T().Cumsum(-1))
	}},
	{"softmax", reals(func(o *operands, d tensor.DType) []*tensor.Tensor {
		x, y := o.of(d, 3, 5, 7).RequireGrad(), o.of(d, 3, 5, 7)
		a, b, c := x.Softmax(2), x.Softmax(1), x.LogSoftmax(0)
		grads, err := autograd.Grad(a.Mul(y).Sum().Add(b.Mul(y).Sum()).Add(c.Mul(y).Sum()), x)
		if err != nil {
			panic(err)
		}
		return []*tensor.Tensor{a, b, c, grads[0], o.of(d, 2, 4, 6).CausalSoftmax(0.5), o.of(d, 4, 4).CausalSoftmax(-1)}
	})},
	{"attention", reals(func(o *operands, d tensor.DType) (out []*tensor.Tensor) {
		for _, causal := range []bool{false, true} {
			q, key, value := o.of(d, 2, 2, 3, 5, 4), o.of(d, 2, 2, 1, 5, 4), o.of(d, 2, 2, 1, 5, 6)
			for _, x := range []*tensor.Tensor{q, key, value} {
				x.RequireGrad()
			}
			scores := q.Matmul(key.T())
			p := scores.MulS(0.5).Softmax(-1)
			if causal {
				p = scores.CausalSoftmax(0.5)
			}
			y := p.Matmul(value)
			grads, err := autograd.Grad(y.Mul(o.of(d, 2, 2, 3, 5, 6)).Sum(), q, key, value)
			if err != nil {
				panic(err)
			}
			out = append(append(out, y), grads...)
		}
		return out
	})},
	{"rotary embedding", func(o *operands) []*tensor.Tensor {
		cos, sin := o.of(tensor.F32, 5, 3), o.of(tensor.F32, 5, 3)
		x := o.of(tensor.F32, 5, 2, 6).RequireGrad()
		y := x.Permute(1, 0, 2).Rope(cos, sin)
		grads, err := autograd.Grad(y.Square().Sum(), x)
		if err != nil {
			panic(err)
		}
		return append(grads, y, o.of(tensor.F64, 5, 6).Rope(cos.Cast(tensor.F64), sin.Cast(tensor.F64)))
	}},
	{"pools", reals(func(o *operands, d tensor.DType) []*tensor.Tensor {
		x := o.of(d, 2, 3, 7, 6).RequireGrad()
		a, b := x.MaxPool2D(3, 2, 1), x.AvgPool2D(2, 2, 0)
		grads, err := autograd.Grad(a.Square().Sum().Add(b.Square().Sum()), x)
		if err != nil {
			panic(err)
		}
		return append(grads, a, b)
	})},
	{"convolutions", reals(func(o *operands, d tensor.DType) (out []*tensor.Tensor) {
		for _, g := range []tensor.ConvOptions{
			{}, {Pad: [2]int{2, 1}, Stride: [2]int{2, 3}}, {Groups: 2, Pad: [2]int{1, 1}}, {Groups: 4, Dilation: [2]int{2, 1}, Pad: [2]int{0, 2}},
		} {
			x, w := o.of(d, 2, 4, 7, 17).RequireGrad(), o.of(d, 8, 4/max(g.Groups, 1), 3, 2).RequireGrad()
			y := x.Conv2D(w, nil, g)
			grads, err := autograd.Grad(y.Square().Sum(), x, w)
			if err != nil {
				panic(err)
			}
			out = append(append(out, grads...), y)
		}
		y := o.of(d, 4, 2, 5, 5).Permute(1, 0, 3, 2).Conv2D(o.of(d, 3, 3, 2, 4).Permute(2, 3, 0, 1), nil, tensor.ConvOptions{})
		return append(out, y)
	})},
	{"norms", reals(func(o *operands, d tensor.DType) []*tensor.Tensor {
		x, y := o.of(d, 3, 5, 7).RequireGrad(), o.of(d, 3, 5, 7)
		w, b := o.of(d, 7).RequireGrad(), o.of(d, 7).RequireGrad()
		l, r := x.LayerNorm(w, b, 1e-5, 1), x.RMSNorm(w, 1e-5)
		plain := x.LayerNorm(nil, nil, 1e-3, 1)
		grads, err := autograd.Grad(l.Mul(y).Sum().Add(r.Mul(y).Sum()).Add(plain.Mul(y).Sum()), x, w, b)
		if err != nil {
			panic(err)
		}
		return append(grads, l, r, plain)
	})},
	{"normal numbers", reals(func(o *operands, d tensor.DType) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.RandN(o.s, d, 8, 10), tensor.RandN(o.s, d, 23)}
	})},
	{"places", func(o *operands) (out []*tensor.Tensor) {
		idx := tensor.From(o.s, []int64{2, 0, 3, 1}, 2, 2)
		for i, d := range tensor.DTypes() {
			x := o.of(d, 2, 4, 3)
			out = append(out, x.Tril(i-4), x.T().Triu(i-4), idx.OneHot(d, 4))
			if d != tensor.Bool {
				out = append(out, tensor.Arange(o.s, d, -1.5, 1.25, 7), tensor.Arange(o.s, d, 3, -1, 8))
			}
		}
		return out
	}},
	{"functions of f64", func(o *operands) (out []*tensor.Tensor) {
		x := o.of(tensor.F64, 5, 7).RequireGrad()
		for _, y := range []*tensor.Tensor{
			x.Exp(), x.Sin(), x.Cos(), x.Tanh(), x.Erf(), x.Sigmoid(), x.GELU(), x.GELUTanh(), x.SiLU(), x.Square().AddS(1).Log(),
		} {
			grads, err := autograd.Grad(y.Square().Sum(), x)
			if err != nil {
				panic(err)
			}
			out = append(append(out, y), grads...)
		}
		return out
	}},
	{"powers", func(o *operands) (out []*tensor.Tensor) {
		for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.I32, tensor.I64, tensor.U8} {
			x, y := o.of(d, 5, 7), o.of(d, 5, 7)
			out = append(out, x.Pow(y), x.T().Pow(y.T()), x.PowS(3))
		}
		return append(out, tensor.From(o.s, []int64{-1, -1, 1, 3, 0, -7}).Pow(tensor.From(o.s, []int64{-3, -2, -5, -1, 0, 63})))
	}},
	{"gradients of products", reals(func(o *operands, d tensor.DType) (out []*tensor.Tensor) {
		x := o.of(d, 3, 4, 5).RequireGrad()
		for _, y := range []*tensor.Tensor{x.Prod(2), x.Prod(0), x.Prod(0, 2), x.T().Prod(1), x.MulS(0.25).Prod()} {
			grads, err := autograd.Grad(y.Square().Sum(), x)
			if err != nil {
				panic(err)
			}
			out = append(append(out, y), grads...)
		}
		long := o.of(d, 2, 700).MulS(0.125).AddS(1.01).RequireGrad()
		grads, err := autograd.Grad(long.Prod(1).Sum(), long)
		if err != nil {
			panic(err)
		}
		return append(out, grads...)
	})},
	{"cross entropy", reals(func(o *operands, d tensor.DType) []*tensor.Tensor {
		x := o.of(d, 5, 9).RequireGrad()
		y := tensor.From(o.s, []int64{3, 0, -100, 8, 3})
		loss := x.CrossEntropy(y, -100)
		grad, err := autograd.Grad(loss.MulS(3), x)
		if err != nil {
			panic(err)
		}
		return []*tensor.Tensor{loss, grad[0], o.of(d, 5, 9).CrossEntropy(y.Cast(tensor.I32), -100)}
	})},
}

// some returns the dtypes, or the first of them in a short test. Kinds with them move
// large values, and the kind of copies has all dtypes.
func some(dtypes ...tensor.DType) []tensor.DType {
	if testing.Short() {
		return dtypes[:1]
	}
	return dtypes
}

// TestKinds checks that no part of a kind runs on the host, fused or not, that the
// results are those of the cpu engine, and that they have the same bits in another order
// of blocks and warps.
func TestKinds(t *testing.T) {
	orders := []uint64{1, 2}
	if testing.Short() {
		orders = orders[:1]
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			want := onCPU(t, k.f)
			for _, noFuse := range []bool{false, true} {
				opt := small
				opt.Host.NoFuse = noFuse
				var first [][]float64
				for _, seed := range orders {
					s, d := session(t, seed, opt)
					results := compute(t, s, k.f)
					if first == nil {
						first = results
					}
					for i, got := range results {
						compare(t, i, got, want[i])
						if !slices.EqualFunc(got, first[i], func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }) {
							t.Errorf("without fusion %v: result %d has other bits in another order", noFuse, i)
						}
					}
					if c := d.Counters(); len(c.HostSteps) > 0 {
						t.Errorf("without fusion %v: on the host ran %v", noFuse, c.HostSteps)
					}
				}
			}
		})
	}
}

// TestRandom checks that random numbers and the masks of dropout have the bits that the
// cpu engine gives them, at every place of a block of random words.
func TestRandom(t *testing.T) {
	f := func(o *operands) (out []*tensor.Tensor) {
		o.s.Seed(1<<53 - 1)
		for _, stream := range []uint64{0, 1<<32 - 1, 1 << 40, 1<<53 - 1, 1<<53 + 1, 1<<63 + 12345} {
			o.s.AtStream(stream, func() {
				for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
					x := o.of(d, 4, 9)
					out = append(out, tensor.Rand(o.s, d, 4, 9), tensor.Rand(o.s, d, 7), x.Dropout(0.3), x.T().Dropout(0.75), o.of(d, 7).Dropout(0))
				}
				out = append(out, o.of(tensor.F16, 3, 5).Dropout(0.5))
			})
		}
		return out
	}
	want := onCPU(t, f)
	s, d := session(t, 1, small)
	for i, got := range compute(t, s, f) {
		if !slices.Equal(got, want[i]) {
			t.Errorf("result %d is %v, want %v", i, got, want[i])
		}
	}
	if c := d.Counters(); len(c.HostSteps) > 0 {
		t.Errorf("on the host ran %v", c.HostSteps)
	}
}

// TestIndexRange checks that kernels refuse an index which the cpu engine refuses, in the
// same words. Indices of gather and scatter_add don't count from the end.
func TestIndexRange(t *testing.T) {
	host, err := cpu.New(&cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	onHost := tensor.NewSession(device.NewOwner(host), nil)
	defer onHost.Close()
	for _, noFuse := range []bool{false, true} {
		opt := small
		opt.Host.NoFuse = noFuse
		s, d := session(t, 1, opt)
		for _, v := range []int64{-1, 3, 1 << 40, math.MinInt64} {
			for name, f := range map[string]func(s *tensor.Session) *tensor.Tensor{
				"gather": func(s *tensor.Session) *tensor.Tensor {
					return tensor.Full(s, tensor.F32, 1, 3, 4).Gather(0, tensor.From(s, []int64{0, 2, v, -7}, 1, 4))
				},
				"one_hot": func(s *tensor.Session) *tensor.Tensor {
					return tensor.From(s, []int64{0, 2, v, -7}, 4).OneHot(tensor.F32, 3)
				},
				"scatter_add": func(s *tensor.Session) *tensor.Tensor {
					idx := tensor.From(s, []int64{0, 2, v, -7}, 2, 2)
					return tensor.Full(s, tensor.F32, 1, 3, 4).ScatterAdd(0, idx, tensor.Full(s, tensor.F32, 1, 2, 2))
				},
			} {
				_, want := tensor.Data[float32](f(onHost))
				_, got := tensor.Data[float32](f(s))
				if !errors.Is(want, tensor.ErrIndex) || !errors.Is(got, tensor.ErrIndex) || got.Error() != want.Error() {
					t.Errorf("%s with index %d: %v, want %v", name, v, got, want)
				}
				_, _ = onHost.ClearErr(), s.ClearErr()
			}
		}
		if c := d.Counters(); len(c.HostSteps) > 0 {
			t.Errorf("without fusion %v: on the host ran %v", noFuse, c.HostSteps)
		}
	}
}

// onCPU returns the results of the cpu engine.
func onCPU(t *testing.T, f func(o *operands) []*tensor.Tensor) [][]float64 {
	t.Helper()
	d, err := cpu.New(&cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(device.NewOwner(d), nil)
	defer s.Close()
	return compute(t, s, f)
}

// compute returns the results of f as numbers.
func compute(t *testing.T, s *tensor.Session, f func(o *operands) []*tensor.Tensor) (out [][]float64) {
	t.Helper()
	var results []*tensor.Tensor
	o := &operands{s: s, made: 1}
	s.Scope(func(sc *tensor.Scope) {
		for _, x := range f(o) {
			results = append(results, sc.Keep(x.Cast(tensor.F64)))
		}
	})
	for _, x := range results {
		v, err := tensor.Data[float64](x)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func compare(t *testing.T, i int, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("result %d has %d elements, want %d", i, len(got), len(want))
	}
	for k, v := range got {
		if e := math.Abs(v - want[k]); !(e <= 1e-5*max(1, math.Abs(want[k]))) && v != want[k] && (v == v || want[k] == want[k]) {
			t.Fatalf("element %d of result %d: %g, want %g", k, i, v, want[k])
		}
	}
}
