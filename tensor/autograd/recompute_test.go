package autograd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// peaks keeps the size of the temporaries of each program's plan.
type peaks struct {
	tensor.Engine
	temp []int
}

func (e *peaks) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		e.temp = append(e.temp, compile.Compile(b.Program.Clone(), nil).Temp)
	}
	return e.Engine.Submit(ctx, b)
}

func peaking(t *devicetest.T) (*tensor.Session, *peaks) {
	t.Helper()
	e := &peaks{Engine: device.NewEngine(t.Device())}
	s := tensor.NewSession(e, nil)
	t.Cleanup(func() { s.Close() })
	return s, e
}

// part returns a layer of a stack: two products, an activation, a norm and dropout.
func part(w1, w2 *tensor.Tensor) func(xs ...*tensor.Tensor) *tensor.Tensor {
	return func(xs ...*tensor.Tensor) *tensor.Tensor {
		h := xs[0].RMSNorm(nil, 1e-6).Matmul(w1).GELU().Dropout(0.25)
		return xs[0].Add(h.SiLU().Mul(h).Matmul(w2).Dropout(0.5))
	}
}

// runStack computes the loss and the gradients of a stack of parts twice, as two steps of
// training would, with or without recomputation.
func runStack(t testing.TB, s *tensor.Session, parts int, again bool) [][]float32 {
	t.Helper()
	s.Seed(7)
	var ws []*tensor.Tensor
	for range parts {
		ws = append(ws, tensor.RandN(s, tensor.F32, 32, 128).MulS(0.1), tensor.RandN(s, tensor.F32, 128, 32).MulS(0.1))
	}
	for i := range ws {
		ws[i] = ws[i].Detach().RequireGrad()
	}
	x := tensor.RandN(s, tensor.F32, 64, 32)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for range 2 {
		var keep []*tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			h := x
			for i := range parts {
				f := part(ws[2*i], ws[2*i+1])
				if again {
					h = autograd.Recompute(f, h)
				} else {
					h = f(h)
				}
			}
			h = h.Dropout(0.1) // after the parts: they drew their numbers once
			loss := h.Square().Mean()
			grads, err := autograd.Grad(loss, ws...)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range append(grads, loss) {
				keep = append(keep, sc.Keep(g))
			}
		})
		for _, k := range keep {
			v, err := tensor.Data[float32](k)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
	}
	return out
}

// TestRecompute: a recomputed stack gives the same bits with the same dropout, and its
// program needs much less memory.
func TestRecompute(t *testing.T) { devicetest.Each(t, testRecompute) }

func testRecompute(t *devicetest.T) {
	s, e := peaking(t)
	plain := runStack(t, s, 8, false)
	most := slices.Max(e.temp)
	e.temp = nil
	again := runStack(t, s, 8, true)
	less := slices.Max(e.temp)
	for i := range plain {
		if !slices.Equal(plain[i], again[i]) {
			t.Errorf("result %d differs", i)
		}
	}
	if slices.Equal(plain[0], plain[17]) {
		t.Error("two steps drew the same dropout")
	}
	if less > most*2/5 {
		t.Errorf("%d bytes of temporaries with recomputed parts, %d without; expected less than two fifths", less, most)
	}
}

// TestRecomputeInputs: a part within a part, leaves as inputs, an input that is used
// twice, an input of integers, and a leaf both inside and outside.
func TestRecomputeInputs(t *testing.T) { devicetest.Each(t, testRecomputeInputs) }

func testRecomputeInputs(t *devicetest.T) {
	s, _ := peaking(t)
	x, w := leaf(s, 1, 2, 3), leaf(s, 4, 5, 6)
	idx := tensor.From(s, []int64{2, 0})
	calls := 0
	inner := func(xs ...*tensor.Tensor) *tensor.Tensor { calls++; return xs[0].Mul(w).Mul(xs[1]) }
	f := func(again bool) *tensor.Tensor {
		y := func(xs ...*tensor.Tensor) *tensor.Tensor {
			z := xs[0].IndexSelect(0, xs[2]).Mul(xs[1].Narrow(0, 0, 2)).Sum()
			if again {
				return autograd.Recompute(inner, xs[0], xs[1]).Add(z)
			}
			return inner(xs[0], xs[1]).Add(z)
		}
		if again {
			return autograd.Recompute(y, x, x, idx).Mul(w).Sum()
		}
		return y(x, x, idx).Mul(w).Sum()
	}
	plain := grad(t, f(false), x, w)
	calls = 0
	again := grad(t, f(true), x, w)
	for i := range plain {
		v, err := tensor.Data[float64](plain[i])
		if err != nil {
			t.Fatal(err)
		}
		want(t, fmt.Sprintf("gradient %d", i), again[i], v...)
	}
	if calls != 3 {
		t.Errorf("the inner part was computed %d times; expected 3: forward, when the outer one was, and for its own gradient", calls)
	}
	// Without a graph Recompute only calls fn.
	s.NoGrad(func() {
		if y := autograd.Recompute(inner, x, w); y.Node() != nil {
			t.Error("a graph under NoGrad")
		}
	})
}

// TestRecomputeKeepsNothing: the intermediates of a part are released, its result is
// kept.
func TestRecomputeKeepsNothing(t *testing.T) { devicetest.Each(t, testRecomputeKeepsNothing) }

func testRecomputeKeepsNothing(t *devicetest.T) {
	s, e := spied(t)
	w := leaf(s, 4, 5, 6)
	y := autograd.Recompute(func(xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].Mul(w).Exp().Tanh().Neg() }, leaf(s, 1, 2, 3))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if e.kept != 1 {
		t.Errorf("%d values were kept, expected the result alone", e.kept)
	}
	if g := grad(t, y.Sum(), w); len(g) != 1 { // in another program than the forward pass
		t.Error("no gradient")
	}
}

func TestRecomputeErrors(t *testing.T) { devicetest.Each(t, testRecomputeErrors) }

func testRecomputeErrors(t *devicetest.T) {
	s, _ := peaking(t)
	x, w := leaf(s, 1, 2), leaf(s, 3, 4)
	twice := func(xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].Mul(w).Square() }
	if _, err := autograd.GradWith(&autograd.Options{CreateGraph: true}, autograd.Recompute(twice, x).Sum(), x); !errors.Is(err, tensor.ErrNoGrad) {
		t.Errorf("a gradient of a gradient: %v, expected ErrNoGrad", err)
	}
	loss := autograd.Recompute(twice, x).Sum()
	s.NoGrad(func() {
		if err := w.Assign(w.MulS(2)); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := autograd.Grad(loss, w); !errors.Is(err, tensor.ErrNoGrad) {
		t.Errorf("a leaf that was assigned: %v, expected ErrNoGrad", err)
	}
	calls := 0
	loss = autograd.Recompute(func(xs ...*tensor.Tensor) *tensor.Tensor {
		calls++
		return xs[0].Narrow(0, 0, calls)
	}, x).Sum()
	if _, err := autograd.Grad(loss, x); !errors.Is(err, tensor.ErrShape) {
		t.Errorf("another shape the second time: %v, expected ErrShape", err)
	}
	if y := autograd.Recompute(func(xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].Reshape(7) }, x); !errors.Is(y.Err(), tensor.ErrShape) {
		t.Errorf("an error inside: %v, expected ErrShape", y.Err())
	}
	s.ClearErr()
}
