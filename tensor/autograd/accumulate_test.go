package autograd_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestAccumulate: four quarter batches give the gradients of the whole batch. They agree
// to the bit, since all values are small integers and the factors powers of two.
// Temporaries take the memory of a quarter.
func TestAccumulate(t *testing.T) { devicetest.Each(t, testAccumulate) }

func testAccumulate(t *devicetest.T) {
	const rows, in, out, parts = 256, 32, 16, 4
	s, e := peaking(t)
	whole := func(n int, key string) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(int(data.Index(data.Key(key), uint64(i), 7)) - 3)
		}
		return v
	}
	x, y := whole(rows*in, "x"), whole(rows*out, "y")
	w := tensor.From(s, whole(in*out, "w"), in, out).RequireGrad()
	loss := func(from, to int) *tensor.Tensor {
		h := tensor.From(s, x[from*in:to*in], to-from, in).Matmul(w)
		return h.Sub(tensor.From(s, y[from*out:to*out], to-from, out)).Square().Mean()
	}
	step := func(n int) []float32 {
		w.SetGrad(nil)
		e.temp = nil
		for i := range n {
			s.Scope(func(*tensor.Scope) {
				if err := autograd.Accumulate(loss(i*rows/n, (i+1)*rows/n), n); err != nil {
					t.Fatal(err)
				}
			})
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		g, err := tensor.Data[float32](w.Grad())
		if err != nil {
			t.Fatal(err)
		}
		if len(e.temp) != n {
			t.Errorf("%d programs, expected %d", len(e.temp), n)
		}
		return g
	}
	one := step(1)
	large := slices.Max(e.temp)
	if !slices.Equal(one, step(parts)) {
		t.Error("the gradients differ")
	}
	if small := slices.Max(e.temp); small > large*2/5 {
		t.Errorf("%d bytes of temporaries for a quarter, %d for the whole", small, large)
	}
	if slices.Max(one) == 0 {
		t.Error("no gradient")
	}
	if err := autograd.Accumulate(tensor.Zeros(s, tensor.F32), 2); !errors.Is(err, tensor.ErrNoGrad) {
		t.Errorf("no graph: %v, expected ErrNoGrad", err)
	}
	for _, n := range []int{0, -1} {
		w.SetGrad(nil)
		if err := autograd.Accumulate(loss(0, 1), n); !errors.Is(err, tensor.ErrShape) || w.Grad() != nil {
			t.Errorf("one of %d losses: %v and gradient %v, expected ErrShape", n, err, w.Grad())
		}
	}
}
