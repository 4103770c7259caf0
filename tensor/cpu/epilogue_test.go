package cpu_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// products returns matrix products with elementwise operations behind them, each operand
// in every position.
func products(s *tensor.Session) []*tensor.Tensor {
	s.Seed(11)
	var out []*tensor.Tensor
	for _, c := range []struct{ m, k, n int }{{1, 1, 1}, {1, 5, 3}, {7, 1, 33}, {3, 4, 1}, {67, 40, 129}, {5, 330, 600}, {130, 3, 2100}} {
		x, w := tensor.RandN(s, tensor.F32, c.m, c.k), tensor.RandN(s, tensor.F32, c.n, c.k)
		// Every tensor is read once: operations that read the same tensor become one
		// step, which goes behind one product alone.
		var made [2][]*tensor.Tensor
		for range 4 {
			made[0] = append(made[0], tensor.RandN(s, tensor.F32, c.n))
			made[1] = append(made[1], tensor.RandN(s, tensor.F32, c.m, c.n))
		}
		next := func(kind int) *tensor.Tensor {
			x := made[kind][0]
			made[kind] = made[kind][1:]
			return x
		}
		b, r := func() *tensor.Tensor { return next(0) }, func() *tensor.Tensor { return next(1) }
		col := tensor.RandN(s, tensor.F32, c.m, 1)
		turned := tensor.RandN(s, tensor.F32, c.n, c.m).T()
		// each has its own
		product := func() *tensor.Tensor { return x.AddS(float64(len(out))).Matmul(w.T()) }

		out = append(out, product().Add(b()).ReLU())
		out = append(out, product().Add(b()).GELU())
		same := r()
		out = append(out, product().Mul(same).Add(same))
		out = append(out, product().Sub(turned).Mul(col))
		pre := product().Add(b())
		out = append(out, pre, pre.SiLU())
		p := product()
		out = append(out, p, p.Tanh().Mul(p))
		q := product()
		first := q.Neg()
		out = append(out, first, first.Add(q).MulS(0.5))
		out = append(out, product().Gt(r()))
		out = append(out, product().Cast(tensor.BF16))
		out = append(out, product().Cast(tensor.F64).Exp())
		out = append(out, x.Flip(0).T().Matmul(r()).MulS(2))
		out = append(out, x.AddS(0.5).Reshape(c.m, 1, c.k).Matmul(w.T()).Add(b()))
	}
	return out
}

// TestEpiloguesKeepBits wants operations behind a product to change no bit of the result,
// for all levels, threads and blocks.
func TestEpiloguesKeepBits(t *testing.T) {
	for _, level := range levels() {
		plain := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
		want := plain.results(t, products)
		if plain.steps[compile.Epilogue] != 0 {
			t.Errorf("%d products go on without fusion", plain.steps[compile.Epilogue])
		}
		for _, threads := range []int{1, 2, 3} {
			d := newTraced(t, cpu.Options{Level: &level, Threads: threads}, threads > 1)
			for i, got := range d.results(t, products) {
				if !bytes.Equal(got, want[i]) {
					t.Errorf("%v, %d threads: result %d has other bits", level, threads, i)
				}
			}
			if got := d.steps[compile.Epilogue]; got != 7*12 {
				t.Errorf("%v, %d threads: %d products have operations behind them, expected 84", level, threads, got)
			}
		}
	}
}
