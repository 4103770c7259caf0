package enginetest

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// behaviours are the tests of the properties that users' programs rely on, through
// sessions as users write them.
type behaviours struct{ *suite }

func (s behaviours) all(t *testing.T) {
	t.Run("making tensors", s.making)
	t.Run("random numbers", s.randomNumbers)
	t.Run("random numbers far on", s.farStreams)
	t.Run("two operands", s.twoOperands)
	t.Run("chains", s.chains)
	t.Run("reads between operations", s.interleaved)
	t.Run("a thousand operations are one program", s.longChain)
	t.Run("many kept results", s.manyKept)
	t.Run("updates in place", s.updates)
	t.Run("least squares by gradient descent", s.leastSquares)
	t.Run("XOR", s.xor)
	t.Run("mistakes", s.mistakes)
	t.Run("programs that look alike", s.alike)
	t.Run("one program or many", s.oneOrMany)
}

func (s behaviours) making(t *testing.T) {
	sess := s.session(t)
	want(t, "a list", tensor.From(sess, []float32{1, 2, 3, 4, 5, 6}, 2, 3), 0, 1, 2, 3, 4, 5, 6)
	want(t, "a number", tensor.Scalar(sess, 2.5), 0, 2.5)
	want(t, "bools", tensor.From(sess, []bool{true, false}), 0, 1, 0)
	want(t, "zeros", tensor.Zeros(sess, tensor.F32, 2, 2), 0, 0, 0, 0, 0)
	want(t, "arange", tensor.Arange(sess, tensor.I64, 10, -3, 4), 0, 10, 7, 4, 1)
	want(t, "arange of floats", tensor.Arange(sess, tensor.F32, 0, 0.25, 3), 0, 0, 0.25, 0.5)
	for _, d := range tensor.DTypes() {
		want(t, "ones of "+d.String(), tensor.Ones(sess, d, 3), 0, 1, 1, 1)
		want(t, "full of "+d.String(), tensor.Full(sess, d, 2.75), 0, map[bool]float64{true: 2.75, false: map[bool]float64{true: 1, false: 2}[d == tensor.Bool]}[d.IsFloat()])
	}
	x := tensor.Zeros(sess, tensor.F64, 2, 0, 5)
	if got := mustRead(t, x); !got.sh.Equal(tensor.Shape{2, 0, 5}) || got.dt != tensor.F64 {
		t.Errorf("zeros of f64[2 0 5] are %v%v", got.dt, got.sh)
	}
}

func (s behaviours) randomNumbers(t *testing.T) {
	draw := func(e tensor.Engine, seed uint64, flush bool) []*array {
		sess := tensor.NewSession(e, &tensor.SessionOptions{Seed: seed})
		defer sess.Close()
		var out []*tensor.Tensor
		for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
			for _, x := range []*tensor.Tensor{tensor.Rand(sess, d, 101, 99), tensor.RandN(sess, d, 10000), tensor.Ones(sess, d, 10000).Dropout(0.25)} {
				out = append(out, x)
				if flush {
					if err := sess.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		var got []*array
		for _, x := range out {
			got = append(got, mustRead(t, x))
		}
		return got
	}
	a := draw(s.start(t), 42, false)
	again, parts, other, ref := draw(s.start(t), 42, false), draw(s.start(t), 42, true), draw(s.start(t), 43, false), draw(Reference(), 42, false)
	for k, x := range a {
		equal(t, again[k], x, nil, "draw %d with the same seed", k)
		equal(t, parts[k], x, nil, "draw %d in a program of its own", k)
		if differs(other[k], x, nil) == "" {
			t.Errorf("draw %d is the same with another seed", k)
		}
		for j := range k {
			if a[j].sh.Equal(x.sh) && a[j].dt == x.dt && differs(a[j], x, nil) == "" {
				t.Errorf("draws %d and %d are the same", j, k)
			}
		}
		tol := slices.Repeat([]float64{32 * ulp(x.dt)}, x.len())
		equal(t, x, ref[k], tol, "draw %d, compared with the reference's:", k)
		mean, dev, low, high := moments(x)
		switch k % 3 {
		case 0:
			if math.Abs(mean-0.5) > 0.02 || math.Abs(dev-math.Sqrt(1./12)) > 0.02 || low < 0 || high >= 1 {
				t.Errorf("uniform numbers have mean %v, deviation %v and lie in %v to %v", mean, dev, low, high)
			}
		case 1:
			if math.Abs(mean) > 0.05 || math.Abs(dev-1) > 0.05 || low < -7 || high > 7 {
				t.Errorf("normal numbers have mean %v, deviation %v and lie in %v to %v", mean, dev, low, high)
			}
		case 2:
			if math.Abs(mean-1) > 0.05 || low != 0 || math.Abs(high-1/0.75) > 1e-6 {
				t.Errorf("dropout of ones has mean %v and lies in %v to %v", mean, low, high)
			}
		}
	}
}

// farStreams checks that streams with numbers that a float64 can't hold are different,
// and each the same wherever it is in a program.
func (s behaviours) farStreams(t *testing.T) {
	sess := s.session(t)
	for _, n := range []uint64{1<<53 - 1, 1 << 53, 1<<60 + 12345, 1<<63 + 1, math.MaxUint64 - 4} {
		draw := func(n uint64) (first, second *array) {
			var a, b *tensor.Tensor
			sess.AtStream(n, func() { a, b = tensor.Rand(sess, tensor.F32, 9), tensor.Ones(sess, tensor.F32, 40).Dropout(0.5) })
			return mustRead(t, a), mustRead(t, b)
		}
		x, mask := draw(n)
		y, other := draw(n + 1)
		var again *tensor.Tensor
		sess.AtStream(n, func() { _, again = tensor.Rand(sess, tensor.F32, 2), tensor.Rand(sess, tensor.F32, 9) })
		equal(t, mustRead(t, again), y, nil, "stream %d, as the second of a program", n+1)
		if differs(x, y, nil) == "" || differs(mask, other, nil) == "" {
			t.Errorf("streams %d and %d are the same", n, n+1)
		}
	}
}

func moments(x *array) (mean, dev, low, high float64) {
	low, high = inf, -inf
	for _, v := range x.f {
		mean += v / float64(len(x.f))
		low, high = min(low, v), max(high, v)
	}
	for _, v := range x.f {
		dev += (v - mean) * (v - mean) / float64(len(x.f))
	}
	return mean, math.Sqrt(dev), low, high
}

// twoOperands computes broadcasting by loops of its own.
func (s behaviours) twoOperands(t *testing.T) {
	sess := s.session(t)
	val := func(k int) float64 { return float64(k%7) + 0.5 }
	make3 := func(n ...int) *tensor.Tensor {
		a := newArray(tensor.F32, n)
		for k := range a.f {
			a.f[k] = val(k)
		}
		return put(sess, a)
	}
	ops := []struct {
		name   string
		t      func(a, b *tensor.Tensor) *tensor.Tensor
		right  func(a *tensor.Tensor, x float64) *tensor.Tensor
		left   func(a *tensor.Tensor, x float64) *tensor.Tensor // x op a
		scalar func(a, b float64) float64
	}{
		{"add", (*tensor.Tensor).Add, (*tensor.Tensor).AddS, (*tensor.Tensor).AddS, func(a, b float64) float64 { return a + b }},
		{"sub", (*tensor.Tensor).Sub, (*tensor.Tensor).SubS, (*tensor.Tensor).RSubS, func(a, b float64) float64 { return a - b }},
		{"mul", (*tensor.Tensor).Mul, (*tensor.Tensor).MulS, (*tensor.Tensor).MulS, func(a, b float64) float64 { return a * b }},
		{"div", (*tensor.Tensor).Div, (*tensor.Tensor).DivS, (*tensor.Tensor).RDivS, func(a, b float64) float64 { return a / b }},
		{"pow", (*tensor.Tensor).Pow, (*tensor.Tensor).PowS, (*tensor.Tensor).RPowS, math.Pow},
		{"maximum", (*tensor.Tensor).Maximum, (*tensor.Tensor).MaximumS, (*tensor.Tensor).MaximumS, math.Max},
		{"minimum", (*tensor.Tensor).Minimum, (*tensor.Tensor).MinimumS, (*tensor.Tensor).MinimumS, math.Min},
	}
	for _, op := range ops {
		check := func(what string, y *tensor.Tensor, n int, f func(k int) float64) {
			t.Helper()
			w := make([]float64, n)
			for k := range w {
				w[k] = f(k)
			}
			want(t, op.name+" of "+what, y, 1e-5, w...)
		}
		check("equal shapes", op.t(make3(3, 4), make3(3, 4)), 12, func(k int) float64 { return op.scalar(val(k), val(k)) })
		check("a number on the right", op.right(make3(3, 4), 2.5), 12, func(k int) float64 { return op.scalar(val(k), 2.5) })
		check("a number on the left", op.left(make3(3, 4), 2.5), 12, func(k int) float64 { return op.scalar(2.5, val(k)) })
		check("[3 1] and [1 4]", op.t(make3(3, 1), make3(1, 4)), 12, func(k int) float64 { return op.scalar(val(k/4), val(k%4)) })
		check("[4] and [3 4]", op.t(make3(4), make3(3, 4)), 12, func(k int) float64 { return op.scalar(val(k%4), val(k)) })
		check("[2 3 4] and [4]", op.t(make3(2, 3, 4), make3(4)), 24, func(k int) float64 { return op.scalar(val(k), val(k%4)) })
		check("[2 3 4] and [3 1]", op.t(make3(2, 3, 4), make3(3, 1)), 24, func(k int) float64 { return op.scalar(val(k), val(k/4%3)) })
		check("[5 16] and [16]", op.t(make3(5, 16), make3(16)), 80, func(k int) float64 { return op.scalar(val(k), val(k%16)) })
		check("[5 16] and [5 1]", op.t(make3(5, 16), make3(5, 1)), 80, func(k int) float64 { return op.scalar(val(k), val(k/16)) })
		check("[] and [5 16]", op.t(make3(), make3(5, 16)), 80, func(k int) float64 { return op.scalar(val(0), val(k)) })
	}
	x := make3(4, 6)
	want(t, "rows over their sums add up to 1", x.Div(x.SumKeep(1)).Sum(1), 1e-6, 1, 1, 1, 1)
	e := x.Sub(x.MaxKeep(1)).Exp()
	byHand, fused := mustRead(t, e.Div(e.SumKeep(1))), mustRead(t, x.Softmax(1))
	equal(t, fused, byHand, slices.Repeat([]float64{1e-6}, 24), "softmax, compared with one written out:")
}

// chainPrograms are expressions as users write them, on a [4 6], b [6 5] and c [5].
var chainPrograms = []func(a, b, c *tensor.Tensor) *tensor.Tensor{
	func(a, b, c *tensor.Tensor) *tensor.Tensor { return a.Matmul(b).Add(c).ReLU().Sum() },
	func(a, b, c *tensor.Tensor) *tensor.Tensor { return a.Matmul(b).Add(c).ReLU().Mean(0) },
	func(a, b, c *tensor.Tensor) *tensor.Tensor { return a.Matmul(b).Add(c).Tanh().Sum(-1) },
	func(a, b, c *tensor.Tensor) *tensor.Tensor { return a.Matmul(b).Mul(c).Sigmoid().MaxKeep(1) },
	func(a, b, _ *tensor.Tensor) *tensor.Tensor { return a.T().Matmul(a).Sub(b.Matmul(b.T())) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Sub(a.MeanKeep(1)).Square().Mean(1).Sqrt() },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Exp().Div(a.Exp().SumKeep(0)) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Softmax(-1).Log().Neg().Mean() },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Reshape(2, 12).T().Reshape(4, 6).Add(a) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Reshape(2, 2, 6).Permute(2, 0, 1).Sum(1) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor {
		return a.Slice(tensor.Every(), tensor.By(0, 6, 2)).Mul(a.Slice(tensor.Every(), tensor.By(1, 6, 2)))
	},
	func(a, _, _ *tensor.Tensor) *tensor.Tensor {
		return tensor.Concat(1, a.Narrow(1, 3, 3), a.Narrow(1, 0, 3)).Sub(a)
	},
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return tensor.Stack(0, a, a.MulS(2), a.Neg()).Sum(0) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return tensor.Where(a.GtS(0), a, a.MulS(0.1)).Sum(0) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Clamp(-1, 1).Add(a.Abs()).Sqrt().Max(0) },
	func(a, b, c *tensor.Tensor) *tensor.Tensor {
		h := a.Matmul(b).Add(c)
		return h.Mul(h.Sigmoid()).Sub(h.SiLU())
	},
	func(a, b, _ *tensor.Tensor) *tensor.Tensor { return a.Matmul(b).T().Flatten().Cumsum(0).Reshape(5, 4) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Argmax(1).OneHot(tensor.F32, 6).Matmul(a.T()) },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.LogSumExp(1).Sub(a.Max(1)).Exp().Reciprocal() },
	func(a, _, _ *tensor.Tensor) *tensor.Tensor {
		return a.Pad(0, [2]int{1, 1}, [2]int{0, 2}).Tril(1).Sum(1)
	},
	func(a, b, _ *tensor.Tensor) *tensor.Tensor {
		return a.Unsqueeze(0).Expand(3, 4, 6).Matmul(b).Transpose(0, 2).Mean(2)
	},
	func(a, _, _ *tensor.Tensor) *tensor.Tensor { return a.Var(1, 0).AddS(1e-3).Rsqrt().Mul(a) },
}

func (s behaviours) chains(t *testing.T) {
	run := func(e tensor.Engine, read bool) []*array {
		sess := tensor.NewSession(e, nil)
		defer sess.Close()
		a, b, c := tensor.RandN(sess, tensor.F32, 4, 6), tensor.RandN(sess, tensor.F32, 6, 5), tensor.RandN(sess, tensor.F32, 5)
		var made []*tensor.Tensor
		var got []*array
		for _, f := range chainPrograms {
			y := f(a, b, c)
			made = append(made, y)
			if read { // the values in between, as a program that prints everything would
				mustRead(t, a)
				mustRead(t, y)
			}
		}
		if n := sess.Stats().Programs; !read && n != 0 {
			t.Errorf("%d programs ran before anything was read", n)
		}
		for _, y := range made {
			got = append(got, mustRead(t, y))
		}
		if n := sess.Stats().Programs; !read && n != 1 {
			t.Errorf("%d programs ran for one sync, expected 1", n)
		}
		return got
	}
	got, between, want := run(s.start(t), false), run(s.start(t), true), run(Reference(), false)
	noisy := noisyRuns(1, func(n *noise) []*array { return run(newReference(n), false) })
	var n tally
	for i := range want {
		n.equal(t, got[i], want[i], noisy, i, "chain %d", i)
		n.equal(t, between[i], want[i], noisy, i, "chain %d with reads in between", i)
	}
	n.check(t)
}

func (s behaviours) interleaved(t *testing.T) {
	sess := s.session(t)
	x := put(sess, ramp(0, 4))
	sum := 0.0
	for k := range 50 {
		y := x.AddS(1)
		got := mustRead(t, y.Sum())
		if sum = float64(4*(k+1) + 6); got.f[0] != sum {
			t.Fatalf("after %d steps the sum is %v, expected %v", k+1, got.f[0], sum)
		}
		x.Free()
		x = y
	}
	if n := sess.Stats().Programs; n != 50 {
		t.Errorf("%d programs for 50 reads", n)
	}
}

// mistakes wants errors that name the mistake, after which the session goes on.
func (s behaviours) mistakes(t *testing.T) {
	sess, other := s.session(t), s.session(t)
	x := put(sess, ramp(0, 2, 3))
	check := func(what string, err, target error, words ...string) {
		t.Helper()
		if !errors.Is(err, target) {
			t.Errorf("%s: error is %v, expected one that unwraps to %v", what, err, target)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error doesn't say %q: %v", what, w, err)
			}
		}
		if sticky := sess.ClearErr(); !errors.Is(sticky, target) {
			t.Errorf("%s: the session's error is %v", what, sticky)
		}
		want(t, "the session after "+what, x.Sum(), 0, 15)
	}
	_, err := read(x.Add(put(sess, ramp(0, 2, 4))))
	check("a shape mismatch", err, tensor.ErrShape, "[2 3]", "[2 4]")
	_, err = read(x.Matmul(x))
	check("a product that doesn't fit", err, tensor.ErrShape, "[2 3]", "matmul")
	_, err = read(x.Add(put(other, ramp(0, 2, 3))))
	check("a tensor of another session", err, tensor.ErrOtherSession, sess.Engine().Name(), other.Engine().Name())
	freed := x.AddS(1)
	want(t, "a tensor before it is freed", freed.Sum(), 0, 21)
	freed.Free()
	_, err = read(freed)
	check("reading a freed tensor", err, tensor.ErrReleased, "f32[2 3]")
	_, err = read(freed.MulS(2))
	check("computing with a freed tensor", err, tensor.ErrReleased, "mul", "f32[2 3]")
	var lost *tensor.Tensor
	sess.Scope(func(*tensor.Scope) { lost = x.MulS(3) })
	_, err = read(lost)
	check("a tensor from a scope that ended", err, tensor.ErrReleased)
	_, err = read(x.IndexSelect(0, put(sess, integers(tensor.I64, 0, 12))).MulS(2))
	check("an index out of range", err, tensor.ErrIndex, "12", "index_select", "f32[2 3]")
	_, err = read(put(sess, ramp(0, 3)).And(x))
	check("logic on floats", err, tensor.ErrDType, "f32")
	var op *tensor.OpError
	_, err = read(x.Sum(5).AddS(1))
	if !errors.As(err, &op) || op.Op != "sum" {
		t.Errorf("an error reaches the results that depend on it: got %v, expected one of sum", err)
	}
	check("a dim that isn't there", err, tensor.ErrShape, "5")
}
