package optim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/optim"
)

// spy keeps the programs of the batches.
type spy struct {
	tensor.Engine
	hashes  []tensor.Hash
	text    []string
	scalars []int
	fetches int
}

func (e *spy) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		e.hashes, e.text = append(e.hashes, b.Hash), append(e.text, b.Program.String())
		e.scalars = append(e.scalars, len(b.Scalars))
	}
	e.fetches += len(b.Fetch)
	return e.Engine.Submit(ctx, b)
}

func spied(t *devicetest.T) (*tensor.Session, *spy) {
	t.Helper()
	e := &spy{Engine: device.NewEngine(t.Device())}
	s := tensor.NewSession(e, nil)
	t.Cleanup(func() { s.Close() })
	return s, e
}

var (
	start = []float64{1, -2, 0.5}
	slope = [][]float64{{0.5, -1, 0}, {0.25, 2, -1}, {-1, 0, 1}, {3, 1, 0.125}}
)

func params(s *tensor.Session) []tensor.Named {
	return []tensor.Named{
		{Name: "w", T: tensor.From(s, start).RequireGrad()},
		{Name: "b", T: tensor.From(s, []float64{4}, 1, 1).RequireGrad()},
	}
}

// grads returns the gradients of step n, the same for both parameters.
func grads(s *tensor.Session, n int) []*tensor.Tensor {
	g := slope[n%len(slope)]
	return []*tensor.Tensor{tensor.From(s, g), tensor.From(s, g[:1], 1, 1)}
}

func read(t testing.TB, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := tensor.Data[float64](x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// update is the rule for one element as in the papers (and PyTorch's documentation); t
// counts from 1.
type update func(p, g float64, t int, m, v *float64) float64

func adam(lr, decay float64, decoupled bool) update {
	const b1, b2, eps = 0.9, 0.999, 1e-8
	return func(p, g float64, t int, m, v *float64) float64 {
		if decoupled {
			p -= lr * decay * p
		} else {
			g += decay * p
		}
		*m = b1**m + (1-b1)*g
		*v = b2**v + (1-b2)*g*g
		mh, vh := *m/(1-math.Pow(b1, float64(t))), *v/(1-math.Pow(b2, float64(t)))
		return p - lr*mh/(math.Sqrt(vh)+eps)
	}
}

func sgd(o optim.SGDOptions) update {
	return func(p, g float64, t int, m, _ *float64) float64 {
		g += o.Decay * p
		if o.Momentum != 0 {
			if t == 1 {
				*m = g
			} else {
				*m = o.Momentum**m + (1-o.Dampening)*g
			}
			if o.Nesterov {
				g += o.Momentum * *m
			} else {
				g = *m
			}
		}
		return p - o.LR*g
	}
}

var optimizers = []struct {
	name string
	make func(ps []tensor.Named) optim.Optimizer
	rule update
}{
	{"adamw", func(ps []tensor.Named) optim.Optimizer {
		return optim.NewAdamW(ps, optim.AdamWOptions{LR: 0.1, Decay: 0.25})
	}, adam(0.1, 0.25, true)},
	{"adam", func(ps []tensor.Named) optim.Optimizer {
		return optim.NewAdam(ps, optim.AdamWOptions{LR: 0.1, Decay: 0.25})
	}, adam(0.1, 0.25, false)},
	{"adam without decay", func(ps []tensor.Named) optim.Optimizer { return optim.NewAdam(ps, optim.AdamWOptions{}) }, adam(1e-3, 0, false)},
	sgdCase("sgd", optim.SGDOptions{LR: 0.1}),
	sgdCase("sgd with decay", optim.SGDOptions{LR: 0.1, Decay: 0.5}),
	sgdCase("momentum", optim.SGDOptions{LR: 0.1, Momentum: 0.9}),
	sgdCase("momentum, dampened", optim.SGDOptions{LR: 0.1, Momentum: 0.9, Dampening: 0.5, Decay: 0.25}),
	sgdCase("nesterov", optim.SGDOptions{LR: 0.1, Momentum: 0.9, Nesterov: true, Decay: 0.25}),
}

func sgdCase(name string, o optim.SGDOptions) struct {
	name string
	make func(ps []tensor.Named) optim.Optimizer
	rule update
} {
	return struct {
		name string
		make func(ps []tensor.Named) optim.Optimizer
		rule update
	}{name, func(ps []tensor.Named) optim.Optimizer { return optim.NewSGD(ps, o) }, sgd(o)}
}

func TestRules(t *testing.T) { devicetest.Each(t, testRules) }

func testRules(t *devicetest.T) {
	for _, c := range optimizers {
		t.Run(c.name, func(t *devicetest.T) {
			s, _ := spied(t)
			ps := params(s)
			opt := c.make(ps)
			want := append(slices.Clone(start), 4)
			m, v := make([]float64, len(want)), make([]float64, len(want))
			for n := range 10 {
				s.Scope(func(*tensor.Scope) {
					if err := opt.Step(grads(s, n)); err != nil {
						t.Fatal(err)
					}
				})
				g := append(slices.Clone(slope[n%len(slope)]), slope[n%len(slope)][0])
				for i := range want {
					want[i] = c.rule(want[i], g[i], n+1, &m[i], &v[i])
				}
				got := append(read(t, ps[0].T), read(t, ps[1].T)...)
				for i := range want {
					if !(math.Abs(got[i]-want[i]) <= 1e-12*(1+math.Abs(want[i]))) {
						t.Fatalf("step %d, element %d: %v, expected %v", n, i, got[i], want[i])
					}
				}
			}
			if opt.Steps() != 10 {
				t.Errorf("%d steps counted, 10 taken", opt.Steps())
			}
		})
	}
}

// TestStepsAreOneProgram: every step is one program, and from the second step on it is
// the same one, whatever the schedule.
func TestStepsAreOneProgram(t *testing.T) { devicetest.Each(t, testStepsAreOneProgram) }

func testStepsAreOneProgram(t *devicetest.T) {
	for _, c := range optimizers {
		t.Run(c.name, func(t *devicetest.T) {
			s, e := spied(t)
			ps := params(s)
			opt := c.make(ps)
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			schedule := optim.Cosine(0.1, 0.001, 3, 20)
			before := len(e.hashes)
			const steps = 20
			for n := range steps {
				switch o := opt.(type) {
				case *optim.AdamW:
					o.LR = schedule(n)
				case *optim.SGD:
					o.LR = schedule(n)
				}
				s.Scope(func(*tensor.Scope) {
					x := tensor.From(s, []float64{float64(n), 1, 2})
					loss := ps[0].T.Mul(x).Sub(ps[1].T).Square().Mean()
					g, err := autograd.Grad(loss, ps[0].T, ps[1].T)
					if err != nil {
						t.Fatal(err)
					}
					if err := opt.Step(optim.ClipGradNorm(g, 1)); err != nil {
						t.Fatal(err)
					}
				})
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if got := len(e.hashes) - before; got != steps {
				t.Errorf("%d programs for %d steps", got, steps)
			}
			for i := before + 1; i < len(e.hashes); i++ {
				if e.hashes[i] != e.hashes[before] {
					t.Fatalf("step %d is another program:\n%s\nthe first was\n%s", i-before, e.text[i], e.text[before])
				}
			}
			if e.fetches != 0 {
				t.Errorf("%d values were read", e.fetches)
			}
			if live, want := s.Stats().Live, 2+len(opt.State()); live != want {
				t.Errorf("%d values live, expected %d: parameters and state", live, want)
			}
		})
	}
}

// TestResume: a restored optimizer continues exactly as the saved one.
func TestResume(t *testing.T) { devicetest.Each(t, testResume) }

func testResume(t *devicetest.T) {
	for _, c := range optimizers {
		t.Run(c.name, func(t *devicetest.T) {
			s, _ := spied(t)
			ps := params(s)
			opt := c.make(ps)
			step := func(o optim.Optimizer, n int) {
				t.Helper()
				if err := o.Step(grads(s, n)); err != nil {
					t.Fatal(err)
				}
			}
			for n := range 3 {
				step(opt, n)
			}
			again := params(s)
			for i, p := range ps {
				if err := again[i].T.Assign(p.T.Detach()); err != nil {
					t.Fatal(err)
				}
			}
			next := c.make(again)
			next.SetSteps(opt.Steps())
			for i, p := range opt.State() {
				q := next.State()[i]
				if q.Name != p.Name {
					t.Fatalf("state %d is %s and %s", i, p.Name, q.Name)
				}
				if err := q.T.Assign(p.T); err != nil {
					t.Fatal(err)
				}
			}
			for n := 3; n < 6; n++ {
				step(opt, n)
				step(next, n)
			}
			for i, p := range ps {
				if a, b := read(t, p.T), read(t, again[i].T); !slices.Equal(a, b) {
					t.Errorf("%s: %v without a break, %v with one", p.Name, a, b)
				}
			}
		})
	}
}

func TestStateNames(t *testing.T) { devicetest.Each(t, testStateNames) }

func testStateNames(t *devicetest.T) {
	s, _ := spied(t)
	ps := params(s)
	var names []string
	for _, o := range []optim.Optimizer{optim.NewAdamW(ps, optim.AdamWOptions{}), optim.NewSGD(ps, optim.SGDOptions{Momentum: 0.5}), optim.NewSGD(ps, optim.SGDOptions{})} {
		for _, p := range o.State() {
			names = append(names, p.Name)
		}
	}
	want := []string{"w.exp_avg", "b.exp_avg", "w.exp_avg_sq", "b.exp_avg_sq", "w.momentum_buffer", "b.momentum_buffer"}
	if !slices.Equal(names, want) {
		t.Errorf("%v, expected %v", names, want)
	}
}

// TestDecays: parameters for which Decays is false don't shrink.
func TestDecays(t *testing.T) { devicetest.Each(t, testDecays) }

func testDecays(t *devicetest.T) {
	s, _ := spied(t)
	ps := params(s)
	opt := optim.NewAdamW(ps, optim.AdamWOptions{LR: 0.1, Decay: 0.5, Decays: func(p tensor.Named) bool { return p.T.Rank() > 1 }})
	zero := []*tensor.Tensor{tensor.Zeros(s, tensor.F64, 3), tensor.Zeros(s, tensor.F64, 1, 1)}
	if err := opt.Step(zero); err != nil {
		t.Fatal(err)
	}
	if got := read(t, ps[0].T); !slices.Equal(got, start) {
		t.Errorf("w is %v, expected %v as before", got, start)
	}
	if got := read(t, ps[1].T)[0]; math.Abs(got-3.8) > 1e-12 {
		t.Errorf("b is %v, expected 3.8", got)
	}
}

// TestStepTakesWhatBackwardLeft: with nil grads, Step takes the gradients that Backward
// left, and leaves parameters without one unchanged.
func TestStepTakesWhatBackwardLeft(t *testing.T) { devicetest.Each(t, testStepTakesWhatBackwardLeft) }

func testStepTakesWhatBackwardLeft(t *devicetest.T) {
	s, _ := spied(t)
	ps := params(s)
	opt := optim.NewSGD(ps, optim.SGDOptions{LR: 0.5})
	if err := autograd.Backward(ps[0].T.Sum()); err != nil {
		t.Fatal(err)
	}
	if err := opt.Step(nil); err != nil {
		t.Fatal(err)
	}
	opt.ZeroGrad()
	if ps[0].T.Grad() != nil {
		t.Error("ZeroGrad left a gradient")
	}
	if got := read(t, ps[0].T); !slices.Equal(got, []float64{0.5, -2.5, 0}) {
		t.Errorf("w is %v", got)
	}
	if got := read(t, ps[1].T)[0]; got != 4 {
		t.Errorf("b is %v, it had no gradient", got)
	}
}

func TestGradsThatDoNotFit(t *testing.T) { devicetest.Each(t, testGradsThatDoNotFit) }

func testGradsThatDoNotFit(t *devicetest.T) {
	s, _ := spied(t)
	ps := params(s)
	opt := optim.NewSGD(ps, optim.SGDOptions{})
	for name, g := range map[string][]*tensor.Tensor{
		"count": grads(s, 0)[:1],
		"shape": {tensor.Zeros(s, tensor.F64, 4), nil},
		"dtype": {nil, tensor.Zeros(s, tensor.F32, 1, 1)},
	} {
		if err := opt.Step(g); !errors.Is(err, optim.ErrGrads) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if opt.Steps() != 0 {
		t.Error("a refused step counts")
	}
	if got := read(t, ps[0].T); !slices.Equal(got, start) {
		t.Errorf("a refused step changed w to %v", got)
	}
}

func TestClipGradNorm(t *testing.T) { devicetest.Each(t, testClipGradNorm) }

func testClipGradNorm(t *devicetest.T) {
	s, _ := spied(t)
	for _, c := range []struct{ max, scale float64 }{{1, 1.0 / 13}, {26, 1}, {13.5, 1}} {
		g := []*tensor.Tensor{tensor.From(s, []float64{3, 0, 4}), nil, tensor.From(s, []float64{12}, 1, 1)}
		n, err := optim.GradNorm(g).Item()
		if err != nil || n != 13 {
			t.Fatalf("norm %v, %v; expected 13", n, err)
		}
		out := optim.ClipGradNorm(g, c.max)
		if out[1] != nil || len(out) != 3 {
			t.Fatalf("%d gradients, the missing one is %v", len(out), out[1])
		}
		got := append(read(t, out[0]), read(t, out[2])...)
		for i, x := range []float64{3, 0, 4, 12} {
			if math.Abs(got[i]-x*c.scale) > 1e-6 {
				t.Errorf("to %v: element %d is %v, expected %v", c.max, i, got[i], x*c.scale)
			}
		}
	}
	half := []*tensor.Tensor{tensor.From(s, []float32{300, 400}).Cast(tensor.F16)}
	if n, err := optim.GradNorm(half).Item(); err != nil || n != 500 {
		t.Errorf("norm of f16 whose squares overflow: %v, %v; expected 500", n, err)
	}
	if out := optim.ClipGradNorm(half, 1); out[0].DType() != tensor.F16 {
		t.Errorf("clipped gradients of f16 are %v", out[0])
	}
	if out := optim.ClipGradNorm([]*tensor.Tensor{nil}, 1); len(out) != 1 || out[0] != nil || optim.GradNorm(out) != nil {
		t.Error("no gradients have a norm")
	}
}

func TestCosine(t *testing.T) {
	f := optim.Cosine(1, 0.1, 4, 14)
	for step, want := range map[int]float64{0: 0.25, 1: 0.5, 3: 1, 4: 1, 9: 0.55, 14: 0.1, 15: 0.1, 1000: 0.1} {
		if got := f(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, expected %v", step, got, want)
		}
	}
	for _, c := range [][2]int{{0, 0}, {5, 5}, {5, 3}} {
		f := optim.Cosine(1, 0.1, c[0], c[1])
		for step := range 8 {
			if lr := f(step); !(lr >= 0.1 && lr <= 1) {
				t.Errorf("%d warm-up steps of %d: step %d has %v", c[0], c[1], step, lr)
			}
		}
	}
}

// TestLeastSquares: gradient descent by hand, with in-place updates, reaches the
// least-squares solution.
func TestLeastSquares(t *testing.T) { devicetest.Each(t, testLeastSquares) }

func testLeastSquares(t *devicetest.T) {
	s, _ := spied(t)
	const n = 16
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = float64(i)/n - 0.5
		y[i] = 3*x[i] - 2
	}
	w := tensor.From(s, []float64{0, 0}, 2, 1).RequireGrad()
	a := tensor.Stack(1, tensor.From(s, x), tensor.Ones(s, tensor.F64, n))
	b := tensor.From(s, y, n, 1)
	for range 800 {
		s.Scope(func(*tensor.Scope) {
			g, err := autograd.Grad(a.Matmul(w).Sub(b).Square().Mean(), w)
			if err != nil {
				t.Fatal(err)
			}
			s.NoGrad(func() { err = w.SubAssign(g[0].MulS(0.4)) })
			if err != nil {
				t.Fatal(err)
			}
		})
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, w)
	if math.Abs(got[0]-3) > 1e-6 || math.Abs(got[1]+2) > 1e-6 {
		t.Errorf("solution %v, expected [3 -2]", got)
	}
}

func ExampleCosine() {
	lr := optim.Cosine(1e-3, 1e-4, 2, 6)
	for step := range 7 {
		fmt.Printf("%.6f\n", lr(step))
	}
	// Output:
	// 0.000500
	// 0.001000
	// 0.001000
	// 0.000868
	// 0.000550
	// 0.000232
	// 0.000100
}
