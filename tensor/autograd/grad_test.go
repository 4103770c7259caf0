package autograd_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// spy counts the programs, operations and results that go to an engine.
type spy struct {
	tensor.Engine
	programs, kept int
}

func (e *spy) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		e.programs++
		for _, in := range b.Program.Instrs {
			if in.Keep {
				e.kept++
			}
		}
	}
	return e.Engine.Submit(ctx, b)
}

func spied(t *devicetest.T) (*tensor.Session, *spy) {
	t.Helper()
	e := &spy{Engine: device.NewEngine(t.Device())}
	s := tensor.NewSession(e, nil)
	t.Cleanup(func() { s.Close() })
	return s, e
}

func leaf(s *tensor.Session, x ...float64) *tensor.Tensor { return tensor.From(s, x).RequireGrad() }

func want(t testing.TB, what string, x *tensor.Tensor, v ...float64) {
	t.Helper()
	if x == nil {
		t.Fatalf("%s: none, expected %v", what, v)
	}
	got, err := tensor.Data[float64](x)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !slices.EqualFunc(got, v, func(a, b float64) bool { return a == b || a != a && b != b }) {
		t.Errorf("%s: %v, expected %v", what, got, v)
	}
}

func grad(t testing.TB, loss *tensor.Tensor, xs ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	g, err := autograd.Grad(loss, xs...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func backward(t testing.TB, loss *tensor.Tensor) {
	t.Helper()
	if err := autograd.Backward(loss); err != nil {
		t.Fatal(err)
	}
}

func TestGradOfIntermediate(t *testing.T) { devicetest.Each(t, testGradOfIntermediate) }

func testGradOfIntermediate(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 1, 2)
	h := x.MulS(3)
	y := h.Square()
	g := grad(t, y.Sum(), h, y, x)
	want(t, "d loss / d h", g[0], 6, 12)
	want(t, "d loss / d y", g[1], 1, 1)
	want(t, "d loss / d x", g[2], 18, 36)
	if x.Grad() != nil {
		t.Error("Grad left something at the leaf")
	}
}

func TestLeafIsItsOwnLoss(t *testing.T) { devicetest.Each(t, testLeafIsItsOwnLoss) }

func testLeafIsItsOwnLoss(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 5)
	want(t, "d x / d x", grad(t, x, x)[0], 1)
	backward(t, x)
	want(t, "x.Grad()", x.Grad(), 1)
}

func TestGradsAreHandlesOfTheirOwn(t *testing.T) { devicetest.Each(t, testGradsAreHandlesOfTheirOwn) }

func testGradsAreHandlesOfTheirOwn(t *devicetest.T) {
	s := newSession(t)
	a, b := leaf(s, 1), leaf(s, 2)
	g := grad(t, a.Add(b), a, b)
	if err := g[0].Assign(g[0].MulS(10)); err != nil {
		t.Fatal(err)
	}
	want(t, "the other gradient", g[1], 1)
	g[0].Free()
	want(t, "the other gradient after Free", g[1], 1)
}

func TestGradOutput(t *testing.T) { devicetest.Each(t, testGradOutput) }

func testGradOutput(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 1, 2)
	y := x.Square()
	dy := tensor.From(s, []float64{1, 10})
	g, err := autograd.GradWith(&autograd.Options{GradOutput: dy}, y, x)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "gradient", g[0], 2, 40)
	if g, err = autograd.GradWith(&autograd.Options{GradOutput: dy}, y, y); err != nil {
		t.Fatal(err)
	}
	g[0].Free()
	want(t, "the GradOutput after what came of it was freed", dy, 1, 10)
	if err := autograd.BackwardWith(&autograd.Options{GradOutput: dy}, y); err != nil {
		t.Fatal(err)
	}
	want(t, "x.Grad()", x.Grad(), 2, 40)
}

func TestErrors(t *testing.T) { devicetest.Each(t, testErrors) }

func testErrors(t *devicetest.T) {
	s := newSession(t)
	x, other := leaf(s, 1, 2), leaf(s, 3)
	plain := tensor.From(s, []float64{1, 2})
	loss := x.Square().Sum()
	first, err := autograd.GradWith(&autograd.Options{CreateGraph: true}, x.LayerNorm(nil, nil, 1e-5, 1).Square().Sum(), x)
	if err != nil {
		t.Fatal(err)
	}
	var hidden *tensor.Tensor
	s.NoGrad(func() { hidden = x.Square().Sum() })
	for _, c := range []struct {
		name string
		err  error
		kind error
		says string
	}{
		{"x that the loss doesn't depend on", second(autograd.Grad(loss, x, other)), tensor.ErrNoGrad, "xs[1], f64[1]"},
		{"x outside of the graph", second(autograd.Grad(loss, plain)), tensor.ErrNoGrad, "xs[0], f64[2], requires no gradient (RequireGrad;"},
		{"loss outside of the graph", autograd.Backward(plain.Sum()), tensor.ErrNoGrad, "the loss (f64[])"},
		{"loss made under NoGrad", autograd.Backward(hidden), tensor.ErrNoGrad, "the loss"},
		{"loss detached", autograd.Backward(loss.Detach()), tensor.ErrNoGrad, "the loss"},
		{"loss of two elements", autograd.Backward(x.Square()), tensor.ErrShape, "GradOutput"},
		{"GradOutput of another shape", autograd.BackwardWith(&autograd.Options{GradOutput: plain}, loss), tensor.ErrShape, "f64[2]"},
		{"a second time through layer_norm", autograd.Backward(first[0].Sum()), tensor.ErrNoGrad, "layer_norm_grad_x"},
	} {
		if !errors.Is(c.err, c.kind) || !strings.Contains(c.err.Error(), c.says) || !strings.Contains(c.err.Error(), "grad_test.go:") {
			t.Errorf("%s: %v, expected %q and the line of the call", c.name, c.err, c.says)
		}
	}
	if x.Grad() != nil {
		t.Error("a failed Backward left a gradient")
	}
	if err := s.Err(); err != nil {
		t.Errorf("the session has the error %v", err)
	}
}

func second(_ []*tensor.Tensor, err error) error { return err }

func TestZeros(t *testing.T) { devicetest.Each(t, testZeros) }

func testZeros(t *devicetest.T) {
	s := newSession(t)
	x, other := leaf(s, 1, 2), leaf(s, 3, 4, 5)
	g, err := autograd.GradWith(&autograd.Options{Zeros: true}, x.Sum(), other)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "gradient of nothing", g[0], 0, 0, 0)
}

// TestReleasedIntermediate: to differentiate a result of a scope that has ended is an
// error that says so.
func TestReleasedIntermediate(t *testing.T) { devicetest.Each(t, testReleasedIntermediate) }

func testReleasedIntermediate(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 1, 2)
	var loss *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) { loss = sc.Keep(x.Exp().Sum()) })
	_, err := autograd.Grad(loss, x)
	if !errors.Is(err, tensor.ErrReleased) || !strings.Contains(err.Error(), "gradient of exp") || !strings.Contains(err.Error(), "grad_test.go:") {
		t.Errorf("error %v", err)
	}
	if err := s.ClearErr(); !errors.Is(err, tensor.ErrReleased) {
		t.Errorf("the session has the error %v", err)
	}
	want(t, "the session goes on", grad(t, x.Square().Sum(), x)[0], 2, 4)
}

// TestDeepGraph: a graph can be as deep as the loop that made it, since the walk is not
// recursive.
func TestDeepGraph(t *testing.T) { devicetest.Each(t, testDeepGraph) }

func testDeepGraph(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 1)
	h := x
	const n = 50_000
	for range n {
		h = h.AddS(1)
	}
	want(t, "gradient", grad(t, h, x)[0], 1)
}

// TestManyWays: a graph with 2^60 paths from the loss to the leaf is walked once.
func TestManyWays(t *testing.T) { devicetest.Each(t, testManyWays) }

func testManyWays(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 1)
	h := x
	for range 60 {
		h = h.Add(h)
	}
	want(t, "gradient", grad(t, h, x)[0], 1<<60)
}

// TestOnlyWhatIsAskedFor: the walk computes nothing for tensors that are not requested.
func TestOnlyWhatIsAskedFor(t *testing.T) { devicetest.Each(t, testOnlyWhatIsAskedFor) }

func testOnlyWhatIsAskedFor(t *devicetest.T) {
	s := newSession(t)
	x, w := leaf(s, 1, 2), leaf(s, 3, 4)
	loss := x.Exp().Exp().Exp().Mul(w).Sum()
	before := s.Stats().Ops
	grad(t, loss, w)
	few := s.Stats().Ops - before
	grad(t, loss, x)
	if all := s.Stats().Ops - before - few; few >= all {
		t.Errorf("%d operations for the near leaf, %d for the far one", few, all)
	}
}

// TestOneProgram: both passes are one program, and none of their intermediates is kept.
func TestOneProgram(t *testing.T) { devicetest.Each(t, testOneProgram) }

func testOneProgram(t *devicetest.T) {
	s, e := spied(t)
	x := leaf(s, 1, 2)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	var g *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) {
		loss := x.Exp().Mul(x).Tanh().Sum()
		g = sc.Keep(grad(t, loss, x)[0])
	})
	if _, err := tensor.Data[float64](g); err != nil {
		t.Fatal(err)
	}
	if e.programs != 1 || e.kept != 1 {
		t.Errorf("%d programs, %d results kept; expected 1 and 1", e.programs, e.kept)
	}
}

func TestBroadcastAndDTypes(t *testing.T) { devicetest.Each(t, testBroadcastAndDTypes) }

func testBroadcastAndDTypes(t *devicetest.T) {
	s := newSession(t)
	a := tensor.From(s, []float32{1, 2, 3}, 3, 1).RequireGrad()
	b := tensor.From(s, []float64{10, 20}, 1, 2).RequireGrad()
	n := tensor.From(s, []int32{1, 2}, 2)
	g := grad(t, a.Mul(b).Mul(n).Sum(), a, b)
	if g[0].DType() != tensor.F32 || g[1].DType() != tensor.F64 {
		t.Errorf("gradients %v and %v of %v and %v", g[0], g[1], a, b)
	}
	want(t, "f32 operand", g[0].Cast(tensor.F64), 50, 50, 50)
	want(t, "f64 operand", g[1], 6, 12)
}

// TestTies: equal values share the gradient: two operands get half each, a reduction's
// extremes share evenly.
func TestTies(t *testing.T) { devicetest.Each(t, testTies) }

func testTies(t *devicetest.T) {
	s := newSession(t)
	a, b := leaf(s, 1, 2, 3), leaf(s, 1, 5, 0)
	g := grad(t, a.Maximum(b).Sum(), a, b)
	want(t, "left of a maximum", g[0], 0.5, 0, 1)
	want(t, "right of a maximum", g[1], 0.5, 1, 0)
	x := leaf(s, 4, 1, 4, 4)
	third := 1.0 / 3
	want(t, "maximum of all", grad(t, x.Max(), x)[0], third, 0, third, third)
	z := leaf(s, 0, -2, 2)
	want(t, "relu", grad(t, z.ReLU().Sum(), z)[0], 0, 0, 1)
	want(t, "abs", grad(t, z.Abs().Sum(), z)[0], 0, -1, 1)
	want(t, "clamp at its bounds", grad(t, z.Clamp(-2, 0).Sum(), z)[0], 1, 1, 0)
	want(t, "a power of 0", grad(t, z.Pow(tensor.From(s, []float64{0})).Sum(), z)[0], 0, 0, 0)
	p := leaf(s, 2, 1, 0)
	want(t, "the exponent of 0", grad(t, tensor.From(s, []float64{0}).Pow(p).Sum(), p)[0], 0, 0, 0)
	want(t, "the exponent of the number 0", grad(t, p.RPowS(0).Sum(), p)[0], 0, 0, 0)
}

// TestNaN: gradients don't hide a NaN.
func TestNaN(t *testing.T) { devicetest.Each(t, testNaN) }

func testNaN(t *devicetest.T) {
	s := newSession(t)
	nan := math.NaN()
	x := leaf(s, nan, 1, -3)
	want(t, "maximum of all", grad(t, x.Max(), x)[0], nan, nan, nan)
	want(t, "minimum along a dim", grad(t, x.Reshape(1, 3).Min(1).Sum(), x)[0], nan, nan, nan)
	want(t, "relu", grad(t, x.ReLU().Sum(), x)[0], 1, 1, 0)
	twice, err := autograd.GradWith(&autograd.Options{CreateGraph: true}, x.ReLU().Sum(), x)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "relu with a graph", twice[0], 1, 1, 0)
}

// TestDropoutMask: a dropout's gradient has the same mask, even if the forward pass was
// flushed long before.
func TestDropoutMask(t *testing.T) { devicetest.Each(t, testDropoutMask) }

func testDropoutMask(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, slices.Repeat([]float64{1}, 64)...)
	y := x.Dropout(0.5)
	got, err := tensor.Data[float64](y)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(x float64) bool { return x == 0 })); n == 0 || n == len(got) {
		t.Fatalf("%d of %d dropped", n, len(got))
	}
	tensor.Rand(s, tensor.F64, 3)
	want(t, "gradient", grad(t, y.Sum(), x)[0], got...)
}

func TestThreads(t *testing.T) { devicetest.Each(t, testThreads) }

func testThreads(t *devicetest.T) {
	var group sync.WaitGroup
	for k := range 3 {
		s := newSession(t)
		group.Go(func() {
			for i := range 150 {
				v := float64(k*1000 + i)
				x := leaf(s, v, 1)
				g, err := autograd.Grad(x.Square().Mul(x).Sum(), x)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := tensor.Data[float64](g[0])
				if err != nil || math.Abs(got[0]-3*v*v) > 1e-9*v*v || got[1] != 3 {
					t.Errorf("session %d, pass %d: %v, %v", k, i, got, err)
				}
			}
		})
	}
	group.Wait()
}
