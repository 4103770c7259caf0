package enginetest

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
)

// behaviour tests what people's programs rely on, through sessions as they write them.
func (s *suite) behaviour(t *testing.T) {
	t.Run("making tensors", s.making)
	t.Run("random numbers", s.randomNumbers)
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

func (s *suite) making(t *testing.T) {
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

func (s *suite) randomNumbers(t *testing.T) {
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
		if diff := differs(again[k], x, nil); diff != "" {
			t.Errorf("draw %d with the same seed %s", k, diff)
		}
		if diff := differs(parts[k], x, nil); diff != "" {
			t.Errorf("draw %d in a program of its own %s", k, diff)
		}
		if differs(other[k], x, nil) == "" {
			t.Errorf("draw %d is the same with another seed", k)
		}
		for j := range k {
			if a[j].sh.Equal(x.sh) && a[j].dt == x.dt && differs(a[j], x, nil) == "" {
				t.Errorf("draws %d and %d are the same", j, k)
			}
		}
		tol := make([]float64, x.len())
		for i := range tol {
			tol[i] = 32 * ulp(x.dt)
		}
		if diff := differs(x, ref[k], tol); diff != "" {
			t.Errorf("draw %d, compared with the reference's: %s", k, diff)
		}
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

// twoOperands spells out broadcasting in loops of its own.
func (s *suite) twoOperands(t *testing.T) {
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
	tol := make([]float64, 24)
	for k := range tol {
		tol[k] = 1e-6
	}
	if diff := differs(fused, byHand, tol); diff != "" {
		t.Errorf("softmax, compared with one written out: %s", diff)
	}
}

// chainPrograms are expressions as people write them, on a [4 6], b [6 5] and c [5].
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

func (s *suite) chains(t *testing.T) {
	run := func(e tensor.Engine, read bool) []*array {
		sess := tensor.NewSession(e, nil)
		defer sess.Close()
		a, b, c := tensor.RandN(sess, tensor.F32, 4, 6), tensor.RandN(sess, tensor.F32, 6, 5), tensor.RandN(sess, tensor.F32, 5)
		var made []*tensor.Tensor
		var got []*array
		for _, f := range chainPrograms {
			y := f(a, b, c)
			made = append(made, y)
			if read { // the values in between, as somebody who prints everything would
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
	var noisy [disturbed][]*array
	for k := range noisy {
		noisy[k] = run(newReference(noiseOf(1, k)), false)
	}
	var n tally
	for i := range want {
		var spread [disturbed]*array
		for k := range spread {
			spread[k] = noisy[k][i]
		}
		if diff := n.compare(got[i], want[i], spread[:]); diff != "" {
			t.Errorf("chain %d %s", i, diff)
		}
		if diff := n.compare(between[i], want[i], spread[:]); diff != "" {
			t.Errorf("chain %d with reads in between %s", i, diff)
		}
	}
	n.check(t)
}

func (s *suite) interleaved(t *testing.T) {
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

func (s *suite) longChain(t *testing.T) {
	sess := s.session(t)
	x := put(sess, ramp(0, 4, 4))
	for k := range 1000 {
		y := x.AddS(float64(k % 3))
		x.Free()
		x = y
	}
	got := mustRead(t, x)
	if diff := differs(got, ramp(999, 4, 4), nil); diff != "" {
		t.Error(diff)
	}
	if n := sess.Stats().Programs; n != 1 {
		t.Errorf("1000 operations were %d programs, expected 1", n)
	}
}

func (s *suite) manyKept(t *testing.T) {
	sess := s.session(t)
	xs := []*tensor.Tensor{put(sess, ramp(0, 4, 4))}
	for k := range 3000 {
		xs = append(xs, xs[k].AddS(1))
	}
	for k := 0; k < len(xs); k += 250 {
		if diff := differs(mustRead(t, xs[k]), ramp(float64(k), 4, 4), nil); diff != "" {
			t.Errorf("result %d %s", k, diff)
		}
	}
	for k, x := range xs {
		if k%2 == 0 {
			x.Free()
		}
	}
	for k := 1; k < len(xs); k += 250 {
		if diff := differs(mustRead(t, xs[k].MulS(2)), mustRead(t, xs[k].Add(xs[k])), nil); diff != "" {
			t.Errorf("result %d after its neighbours were freed: %s", k, diff)
		}
	}
}

// updates: a name that is assigned shows the new value from then on; what was computed before keeps the old one.
func (s *suite) updates(t *testing.T) {
	sess := s.session(t)
	w := put(sess, ramp(10, 3))
	before := w.MulS(2)
	view := w.Reshape(3, 1)
	old := w.Detach()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.SubAssign(put(sess, ramp(1, 3))))
	after := w.MulS(2)
	want(t, "w -= x", w, 0, 9, 9, 9)
	want(t, "what was computed before", before, 0, 20, 22, 24)
	want(t, "a view taken before", view, 0, 10, 11, 12)
	want(t, "another name of the old value", old, 0, 10, 11, 12)
	want(t, "what was computed after", after, 0, 18, 18, 18)
	must(w.Assign(w.SubS(5)))
	must(w.MulAssign(w))
	must(w.AddAssign(w.Sum().Expand(3)))
	want(t, "a sequence of updates", w, 0, 64, 64, 64)
	for k := range 200 {
		sess.Scope(func(*tensor.Scope) {
			g := w.MulS(0).AddS(1)
			must(w.SubAssign(g))
		})
		if k%3 == 0 {
			must(sess.Flush())
		}
	}
	want(t, "200 updates in scopes", w, 0, 64-200, 64-200, 64-200)
	want(t, "still what was computed before", before, 0, 20, 22, 24)
	must(w.ZeroAssign())
	want(t, "zero", w, 0, 0, 0, 0)
	if err := w.Assign(put(sess, ramp(0, 4))); !errors.Is(err, tensor.ErrShape) {
		t.Errorf("assigning another shape gave %v", err)
	}
	sess.ClearErr()
}

func (s *suite) leastSquares(t *testing.T) {
	sess := s.session(t)
	const rows, cols = 40, 3
	x := newArray(tensor.F32, tensor.Shape{rows, cols})
	for k := range x.f {
		x.f[k] = float64(data.Unit(data.Key("least squares"), uint64(k)))
	}
	truth := []float64{1.5, -2, 0.25}
	y := newArray(tensor.F32, tensor.Shape{rows, 1})
	for r := range rows {
		for c := range cols {
			y.f[r] += x.f[r*cols+c] * truth[c]
		}
	}
	y.settle()
	xt, yt, w := put(sess, x), put(sess, y), tensor.Zeros(sess, tensor.F32, cols, 1)
	if err := sess.Sync(); err != nil {
		t.Fatal(err)
	}
	hits, live := s.hits(sess.Engine()), sess.Stats().Live
	const steps = 400
	for range steps {
		sess.Scope(func(*tensor.Scope) {
			g := xt.T().Matmul(xt.Matmul(w).Sub(yt)).MulS(2. / rows)
			if err := w.SubAssign(g.MulS(0.5)); err != nil {
				t.Fatal(err)
			}
		})
		if err := sess.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "the solution", w, 1e-4, truth...)
	if n := sess.Stats().Live; n != live {
		t.Errorf("%d values are alive after the loop, %d before", n, live)
	}
	if n := s.hits(sess.Engine()) - hits; s.o.PlanHits != nil && n < steps-2 {
		t.Errorf("%d of %d equal steps were run by a plan that was there", n, steps)
	}
}

// xor trains a network with one hidden layer, its gradients written out, for 2,000 steps.
func (s *suite) xor(t *testing.T) {
	sess := tensor.NewSession(s.start(t), &tensor.SessionOptions{Seed: 3})
	defer sess.Close()
	x := put(sess, floats(tensor.Shape{4, 2}, 0, 0, 0, 1, 1, 0, 1, 1))
	y := put(sess, floats(tensor.Shape{4, 1}, 0, 1, 1, 0))
	w1, b1 := tensor.RandN(sess, tensor.F32, 2, 8), tensor.Zeros(sess, tensor.F32, 8)
	w2, b2 := tensor.RandN(sess, tensor.F32, 8, 1), tensor.Zeros(sess, tensor.F32, 1)
	forward := func() (h, p *tensor.Tensor) {
		h = x.Matmul(w1).Add(b1).Tanh()
		return h, h.Matmul(w2).Add(b2).Sigmoid()
	}
	loss := func() float64 {
		_, p := forward()
		v, err := p.Sub(y).Square().Mean().Item()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := loss()
	for range 2000 {
		sess.Scope(func(*tensor.Scope) {
			h, p := forward()
			dz := p.Sub(y).MulS(0.25) // of the cross-entropy
			da := sess.Apply(tensor.OpTanhGrad, nil, tensor.T(h), tensor.T(dz.Matmul(w2.T())))
			for _, u := range []struct{ p, g *tensor.Tensor }{
				{w2, h.T().Matmul(dz)}, {b2, dz.Sum(0)}, {w1, x.T().Matmul(da)}, {b1, da.Sum(0)},
			} {
				if err := u.p.SubAssign(u.g.MulS(0.5)); err != nil {
					t.Fatal(err)
				}
			}
		})
		if err := sess.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	_, p := forward()
	want(t, "what the network says", p.GtS(0.5), 0, 0, 1, 1, 0)
	if last := loss(); !(last < 0.01 && last < first/10) {
		t.Errorf("the loss went from %v to %v", first, last)
	}
}

// mistakes are errors that say what was mixed up, and the session goes on.
func (s *suite) mistakes(t *testing.T) {
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
		t.Errorf("an error travels with what is computed from it: got %v, expected one of sum", err)
	}
	check("a dim that isn't there", err, tensor.ErrShape, "5")
}

// alike: programs of the same operations that are wired or parametrised differently are different programs.
func (s *suite) alike(t *testing.T) {
	sess := s.session(t)
	x := put(sess, ramp(0, 12))
	one := put(sess, floats(tensor.Shape{}, 1))
	ten := put(sess, floats(tensor.Shape{}, 10))
	programs := []struct {
		f    func() *tensor.Tensor
		want []float64
	}{
		{func() *tensor.Tensor { a, _ := one.Add(ten), one.Add(one); return a }, []float64{11}},
		{func() *tensor.Tensor { a, b := one.Add(ten), one.Add(ten); return a.Add(b) }, []float64{22}},
		{func() *tensor.Tensor { a, b := one.Add(ten), ten.Add(ten); return a.Add(b) }, []float64{31}},
		{func() *tensor.Tensor { a := one.Add(ten); b := a.Add(ten); return b.Add(ten) }, []float64{31}},
		{func() *tensor.Tensor { a := one.Add(ten); b := a.Add(a); return b.Add(ten) }, []float64{32}},
		{func() *tensor.Tensor { a := one.Add(ten); b := a.Add(a); return b.Add(a) }, []float64{33}},
		{func() *tensor.Tensor { return x.Reshape(2, 6).Sum(0) }, []float64{6, 8, 10, 12, 14, 16}},
		{func() *tensor.Tensor { return x.Reshape(6, 2).Sum(0) }, []float64{30, 36}},
		{func() *tensor.Tensor { return x.Reshape(3, 4).Sum(0) }, []float64{12, 15, 18, 21}},
		{func() *tensor.Tensor { return x.Reshape(3, 4).Sum(1) }, []float64{6, 22, 38}},
		{func() *tensor.Tensor { return x.Slice(tensor.To(0, 3)).MulS(2) }, []float64{0, 2, 4}},
		{func() *tensor.Tensor { return x.Slice(tensor.To(3, 6)).MulS(2) }, []float64{6, 8, 10}},
		{func() *tensor.Tensor { return x.Slice(tensor.By(0, 6, 2)).MulS(2) }, []float64{0, 4, 8}},
		{func() *tensor.Tensor { return x.Slice(tensor.To(0, 3)).MulS(3) }, []float64{0, 3, 6}},
		{func() *tensor.Tensor { return one.Sub(ten) }, []float64{-9}},
		{func() *tensor.Tensor { return ten.Sub(one) }, []float64{9}},
		{func() *tensor.Tensor { return one.SubS(4) }, []float64{-3}},
		{func() *tensor.Tensor { return one.RSubS(4) }, []float64{3}},
		{func() *tensor.Tensor { return x.Cast(tensor.I32).Max() }, []float64{11}},
		{func() *tensor.Tensor { return x.Cast(tensor.I64).Max() }, []float64{11}},
	}
	start := s.hits(sess.Engine())
	for round := range 4 {
		for k, p := range programs {
			var y *tensor.Tensor
			sess.Scope(func(sc *tensor.Scope) { y = sc.Keep(p.f()) })
			want(t, "program", y, 0, p.want...)
			if t.Failed() {
				t.Fatalf("in round %d of program %d", round, k)
			}
			y.Free()
		}
	}
	if n := s.hits(sess.Engine()) - start; s.o.PlanHits != nil && n < uint64(2*len(programs)) {
		t.Errorf("%d programs ran four times, and %d runs found their plan", len(programs), n)
	}
}

// oneOrMany runs the same loop with a program a step, and with a program an operation: equal bits. Its shapes change
// from step to step and come back.
func (s *suite) oneOrMany(t *testing.T) {
	run := func(flush bool) []*array {
		sess := tensor.NewSession(s.start(t), &tensor.SessionOptions{Seed: 5})
		defer sess.Close()
		op := func(x *tensor.Tensor) *tensor.Tensor {
			if flush {
				if err := sess.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			return x
		}
		var got []*array
		total := op(tensor.Zeros(sess, tensor.F32))
		for k, sh := range [][2]int{{4, 4}, {4, 4}, {2, 8}, {4, 4}, {3, 5}, {2, 8}, {16, 33}, {4, 4}} {
			x := op(tensor.RandN(sess, tensor.F32, sh[0], sh[1]))
			h := op(x.AddS(float64(k)))
			h = op(op(h.Mul(x)).Sub(op(x.MeanKeep(1)))) // a name used again
			left, right := op(h.ReLU()), op(h.Neg().Exp())
			y := op(op(left.Add(right)).Matmul(op(x.T()))) // a branch comes together
			z := op(op(y.Reshape(sh[0] * sh[0])).Sum())
			total = op(total.Add(op(z.MulS(0.01))))
			if k%2 == 1 {
				got = append(got, mustRead(t, total), mustRead(t, y))
			}
		}
		n := sess.Stats().Programs
		if flush && n < 50 || !flush && n > 8 {
			t.Errorf("%d programs ran with flush %v", n, flush)
		}
		return append(got, mustRead(t, total))
	}
	one, many := run(false), run(true)
	for k := range one {
		if diff := differs(one[k], many[k], nil); diff != "" {
			t.Errorf("read %d, in few programs against many: %s", k, diff)
		}
	}
}
