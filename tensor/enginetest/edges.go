package enginetest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// edges tests methods of several operations on special values, as PyTorch defines them.
// docs/pytorch.md lists the differences.
func (s *suite) edges(t *testing.T) {
	t.Run("log-sum-exp", s.logSumExp)
	t.Run("halves", s.roundedOnce)
	t.Run("fulls", s.fullOfHalves)
	t.Run("losses", s.infiniteLogits)
	t.Run("gradient of a product", s.prodGrad)
	t.Run("integers and bools", s.integersAndBools)
	t.Run("indices from the end", s.indicesFromEnd)
	t.Run("activations of infinities", s.infiniteActivations)
	t.Run("relu of zeros", s.reluOfZeros)
}

func (s *suite) logSumExp(t *testing.T) {
	sess := s.session(t)
	x := put(sess, floats(tensor.Shape{5, 2}, -inf, -inf, inf, 1, inf, -inf, inf, inf, -inf, 1))
	want(t, "log-sum-exp of infinities", x.LogSumExp(1), 0, -inf, inf, inf, inf, 1)
	want(t, "log-sum-exp of NaN", put(sess, floats(tensor.Shape{2}, inf, nan)).LogSumExp(0), 0, nan)
	want(t, "log-sum-exp over a dim of 0", tensor.Zeros(sess, tensor.F32, 2, 0).LogSumExp(-1), 0, -inf, -inf)
	want(t, "log-sum-exp of integers", put(sess, integers(tensor.I64, 0, 0)).LogSumExp(0), 1e-6, 0.6931471805599453)
}

// roundedOnce: what several operations compute of halves is rounded once, at the end.
func (s *suite) roundedOnce(t *testing.T) {
	sess := s.session(t)
	x := put(sess, floats(tensor.Shape{4}, 400, -400, 400, -400)).Cast(tensor.F16)
	want(t, "variance of f16 whose sum of squares overflows", x.MulS(0.5).Var(0, 0), 0, 40000)
	want(t, "log-sum-exp of f16", x.LogSumExp(0), 0, 400.75)
	// The scores of the two keys are 80,000 and 79,600, which f16 doesn't hold.
	q := put(sess, floats(tensor.Shape{1, 1, 1, 2}, 200, 200)).Cast(tensor.F16)
	k := put(sess, floats(tensor.Shape{1, 1, 2, 2}, 200, 200, 199, 199)).Cast(tensor.F16)
	v := put(sess, floats(tensor.Shape{1, 1, 2, 2}, 1, 0, 0, 1)).Cast(tensor.F16)
	y := tensor.Attention(q, k, v, 1./400, false)
	want(t, "attention of f16 with large scores", y, 1e-3, 0.7310585786, 0.2689414214)
	if y.DType() != tensor.F16 {
		t.Errorf("attention of f16 is %v", y)
	}
}

// fullOfHalves: a number is rounded to f32 and then to 16 bits, as PyTorch does, also
// where the result is far from the number: beyond a tie, an overflow, a subnormal.
func (s *suite) fullOfHalves(t *testing.T) {
	sess := s.session(t)
	for _, c := range []struct {
		d       tensor.DType
		x, want float64
	}{
		{tensor.F16, 1 + 1./(1<<11) + 1./(1<<40), 1}, {tensor.BF16, 1 + 1./(1<<8) + 1./(1<<40), 1},
		{tensor.F16, 1e300, inf}, {tensor.BF16, -1e300, -inf}, {tensor.F16, 65520, inf}, {tensor.BF16, nan, nan},
		{tensor.F16, 6e-8, 1. / (1 << 24)}, {tensor.BF16, 1e-50, 0}, {tensor.F16, -2.5, -2.5},
	} {
		for _, shape := range [][]int{{}, {3}, {70, 33}, {0, 4}} {
			x := tensor.Full(sess, c.d, c.x, shape...)
			values := make([]float64, tensor.Shape(shape).Elems())
			for i := range values {
				values[i] = c.want
			}
			want(t, fmt.Sprintf("full of %v %v", c.d, c.x), x, 0, values...)
			for i := range values {
				values[i] = c.want + c.want
			}
			want(t, fmt.Sprintf("full of %v %v with itself", c.d, c.x), x.Add(x).Cast(tensor.F64), 0, values...)
		}
	}
}

// infiniteLogits: a loss does not depend on whether its gradient is computed too.
func (s *suite) infiniteLogits(t *testing.T) {
	sess := s.session(t)
	target := put(sess, integers(tensor.I64, 0))
	for _, c := range []struct {
		x, y []float64
		loss float64
	}{
		{[]float64{inf, 1}, []float64{nan, nan}, nan},
		{[]float64{1, inf}, []float64{nan, nan}, nan},
		{[]float64{-inf, 1}, []float64{-inf, 0}, inf},
		{[]float64{1, -inf}, []float64{0, -inf}, 0},
		{[]float64{-inf, -inf}, []float64{nan, nan}, nan},
	} {
		x := put(sess, floats(tensor.Shape{1, 2}, c.x...))
		loss := x.CrossEntropy(target, tensor.IgnoreNone)
		want(t, fmt.Sprint("loss of ", c.x), loss, 0, c.loss)
		again := x.CrossEntropy(target, tensor.IgnoreNone)
		grad := sess.Apply(tensor.OpCrossEntropyGrad, []int64{tensor.IgnoreNone}, tensor.T(x), tensor.T(target), tensor.T(tensor.Ones(sess, tensor.F32)))
		both := mustRead(t, tensor.Concat(0, again.Reshape(1), grad.Flatten()))
		if got := both.f[0]; got != c.loss && !(got != got && c.loss != c.loss) {
			t.Errorf("loss of %v with its gradient is %v, expected %v", c.x, got, c.loss)
		}
		want(t, fmt.Sprint("log softmax of ", c.x), x.LogSoftmax(1), 0, c.y...)
	}
}

// prodGrad: the gradient of a product is the product of all others, whatever they are.
func (s *suite) prodGrad(t *testing.T) {
	sess := s.session(t)
	for _, c := range []struct{ x, want []float64 }{
		{[]float64{inf, 2, 3}, []float64{6, inf, inf}},
		{[]float64{inf, 0, 3}, []float64{0, inf, nan}},
		{[]float64{inf, inf, -2}, []float64{-inf, -inf, inf}},
		{[]float64{nan, 2, 3}, []float64{6, nan, nan}},
		{[]float64{nan, 0, 3}, []float64{0, nan, nan}},
		{[]float64{0, 2, 3}, []float64{6, 0, 0}},
		{[]float64{0, 0, 3}, []float64{0, 0, 0}},
		{[]float64{2, 4, 8}, []float64{32, 16, 8}},
		{[]float64{1e-200, 1e-200, 1}, []float64{1e-200, 1e-200, 0}},
		{[]float64{1e200, 1e200, 1e-200}, []float64{1, 1, inf}},
	} {
		for _, inner := range []int{1, 3} { // along the last dim, and before another
			x := put(sess, &array{dt: tensor.F64, sh: tensor.Shape{3}, f: c.x}).Unsqueeze(1).Expand(3, inner)
			dy := tensor.Ones(sess, tensor.F64, 1, inner)
			got := sess.Apply(tensor.OpProdGrad, []int64{0}, tensor.T(x), tensor.T(dy)).Narrow(1, inner-1, 1)
			want(t, fmt.Sprintf("gradient of the product of %v", c.x), got, 1e-15, c.want...)
		}
	}
}

// integersAndBools: values of the rules of dtypes.
func (s *suite) integersAndBools(t *testing.T) {
	sess := s.session(t)
	a, b := put(sess, integers(tensor.Bool, 1, 1, 0, 0)), put(sess, integers(tensor.Bool, 1, 0, 1, 0))
	want(t, "bool + bool", a.Add(b), 0, 1, 1, 1, 0)
	want(t, "bool * bool", a.Mul(b), 0, 1, 0, 0, 0)
	want(t, "maximum of bools", a.Maximum(b), 0, 1, 1, 1, 0)
	want(t, "minimum of bools", a.Minimum(b), 0, 1, 0, 0, 0)
	want(t, "bool + 2", a.AddS(2), 0, 3, 3, 2, 2)
	want(t, "bool * -0.5", a.MulS(-0.5), 0, -0.5, -0.5, 0, 0)
	want(t, "largest of bools", a.Reshape(2, 2).Max(1), 0, 1, 0)
	want(t, "smallest of bools", b.Min(), 0, 0)
	want(t, "bools filled with 1", a.MaskedFill(b, 2), 0, 1, 1, 1, 0)
	want(t, "bools filled with 0", a.MaskedFill(b, 0), 0, 0, 1, 0, 0)
	want(t, "clamp of bools", a.Clamp(2, 3), 0, 2, 2, 2, 2)
	for _, x := range []float64{0.5, 2, -1, 300, nan} {
		want(t, fmt.Sprintf("bools full of %v, and their opposites", x), tensor.Concat(0, tensor.Full(sess, tensor.Bool, x, 2), tensor.Full(sess, tensor.Bool, x, 2).Not()), 0, 1, 1, 0, 0)
	}
	i := put(sess, integers(tensor.I32, 1, -2, 3, 1<<24+1))
	want(t, "integers filled with a fraction", i.MaskedFill(b, -1.5), 0, -1, -2, -1, 1<<24+1)
	want(t, "floor of integers", i.Floor(), 0, 1, -2, 3, 1<<24+1)
	want(t, "clamp of integers", i.Clamp(-inf, 2), 0, 1, -2, 2, 2)
	want(t, "clamp of integers at fractions", i.Clamp(-1.5, 2.5), 0, 1, -1.5, 2.5, 2.5)
	u := put(sess, integers(tensor.U8, 1, 2, 3, 250))
	want(t, "u8 + i64 without dims wraps", u.Add(put(sess, &array{dt: tensor.I64, sh: tensor.Shape{}, i: []int64{300}})), 0, 45, 46, 47, 38)
	want(t, "f32 + f64 without dims", put(sess, floats(tensor.Shape{2}, 1, 1<<24)).Add(put(sess, &array{dt: tensor.F64, sh: tensor.Shape{}, f: []float64{1}})), 0, 2, 1<<24)
}

// indicesFromEnd: negative indices of IndexSelect and IndexAdd count from the end.
func (s *suite) indicesFromEnd(t *testing.T) {
	sess := s.session(t)
	x := put(sess, floats(tensor.Shape{3, 2}, 1, 2, 3, 4, 5, 6))
	for _, d := range []tensor.DType{tensor.I32, tensor.I64} {
		idx := put(sess, integers(d, -1, 0, -3, 1))
		want(t, "rows", x.IndexSelect(0, idx), 0, 5, 6, 1, 2, 1, 2, 3, 4)
		want(t, "columns", x.IndexSelect(1, put(sess, integers(d, -2, -1, -1))), 0, 1, 2, 2, 3, 4, 4, 5, 6, 6)
		want(t, "added rows", x.IndexAdd(0, idx, tensor.Ones(sess, tensor.F32, 4, 2)), 0, 3, 4, 4, 5, 6, 7)
		if s.o.Grad != nil {
			leaf := put(sess, floats(tensor.Shape{3}, 1, 2, 3)).RequireGrad()
			g, err := s.o.Grad(leaf.IndexSelect(0, idx).Sum(), leaf)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "gradient of rows", g[0], 0, 2, 1, 1)
		}
		for _, bad := range []int64{-4, 3} {
			y := x.IndexSelect(0, put(sess, integers(d, bad)))
			if _, err := read(y); !errors.Is(err, tensor.ErrIndex) {
				t.Errorf("index %d of 3 gave error %v, expected ErrIndex", bad, err)
			}
			sess.ClearErr()
		}
	}
	one := put(sess, integers(tensor.I64, -1))
	for name, f := range map[string]func() *tensor.Tensor{
		"gather": func() *tensor.Tensor { return x.Slice(tensor.At(0)).Gather(0, one) }, "one-hot": func() *tensor.Tensor { return one.OneHot(tensor.F32, 3) },
	} {
		if _, err := read(f()); !errors.Is(err, tensor.ErrIndex) {
			t.Errorf("%s of index -1 gave error %v, expected ErrIndex", name, err)
		}
		sess.ClearErr()
	}
}

// infiniteActivations: x times a factor that vanishes is NaN at -Inf, whatever the number
// of elements, alone and as a part of a chain; a gated layer likewise.
func (s *suite) infiniteActivations(t *testing.T) {
	sess := s.session(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		for _, wide := range []int{1, 100} {
			repeat := func(v ...float64) *tensor.Tensor {
				a := newArray(d, tensor.Shape{wide, len(v)})
				for k := range a.f {
					a.f[k] = v[k%len(v)]
				}
				return put(sess, a)
			}
			x, u := repeat(inf, -inf, nan, 0), repeat(1, 1, 1, 1)
			for name, f := range map[string]func(*tensor.Tensor) *tensor.Tensor{
				"silu": (*tensor.Tensor).SiLU, "gelu": (*tensor.Tensor).GELU, "gelu_tanh": (*tensor.Tensor).GELUTanh,
				"gated": func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(0).SiLU().Mul(u) },
			} {
				got := mustRead(t, f(x))
				for k, g := range got.f {
					if w := []float64{inf, nan, nan, 0}[k%4]; g != w && !(g != g && w != w) {
						t.Errorf("%s of %d rows of %v: element %d is %v, expected %v", name, wide, d, k, g, w)
						break
					}
				}
			}
			for _, op := range []tensor.Op{tensor.OpSiluGrad, tensor.OpGeluGrad, tensor.OpGeluTanhGrad} {
				got := mustRead(t, sess.Apply(op, nil, tensor.T(x), tensor.T(u)))
				for k, g := range got.f {
					if k%4 < 3 && g == g {
						t.Errorf("%v of %d rows of %v: element %d is %v, expected NaN", op, wide, d, k, g)
						break
					}
				}
			}
		}
	}
}

// reluOfZeros: a zero keeps its sign in every type and at every place of a vector, alone
// and in a chain of operations, as in PyTorch.
func (s *suite) reluOfZeros(t *testing.T) {
	sess := s.session(t)
	for _, d := range tensor.DTypes() {
		if !d.IsFloat() {
			continue
		}
		for _, n := range []int{1, 3, 64, 1001} {
			zeros := newArray(d, tensor.Shape{n})
			for i := range zeros.f {
				zeros.f[i] = math.Copysign(0, float64(i%2)-1)
			}
			x := put(sess, zeros)
			for what, y := range map[string]*tensor.Tensor{"relu": x.ReLU(), "relu in a chain": x.MulS(2).ReLU().MulS(0.5)} {
				got := mustRead(t, y)
				for i, v := range got.f {
					if v != 0 || math.Signbit(v) != math.Signbit(zeros.f[i]) {
						t.Errorf("%s of %v %v is %v (element %d of %d)", what, d, zeros.f[i], v, i, n)
						break
					}
				}
			}
		}
	}
}
