package cpu_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// productShapes are the rows, columns and inner sizes of products that are gradients.
var productShapes = [][3]int{{256, 784, 64}, {128, 128, 1}, {1, 1 << 14, 3}, {1 << 14, 1, 5}, {300, 130, 600}}

// productUpdates records AdamW updates by gradients that are products, and returns what
// they make; with keep the gradients too.
func productUpdates(s *tensor.Session, keep bool) []*tensor.Tensor {
	s.Seed(3)
	T, S := tensor.T, tensor.S
	var all, grads []*tensor.Tensor
	for i, sh := range productShapes {
		p, m, v := tensor.RandN(s, tensor.F32, sh[0], sh[1]), tensor.RandN(s, tensor.F32, sh[0], sh[1]), tensor.Rand(s, tensor.F32, sh[0], sh[1])
		a, b := tensor.RandN(s, tensor.F32, sh[0], sh[2]), tensor.RandN(s, tensor.F32, sh[2], sh[1])
		if i%2 == 0 {
			a, b = tensor.RandN(s, tensor.F32, sh[2], sh[0]).T(), tensor.RandN(s, tensor.F32, sh[1], sh[2]).T()
		}
		g := a.Matmul(b)
		m, v = s.Apply(tensor.OpAdamM, nil, T(m), T(g), S(0.9)), s.Apply(tensor.OpAdamV, nil, T(v), T(g), S(0.99))
		all = append(all, m, v, s.Apply(tensor.OpAdamW, nil, T(p), T(m), T(v), S(0.1), S(0.1), S(1e-8), S(0.1), S(0.01)))
		grads = append(grads, g)
	}
	if keep {
		return append(all, grads...)
	}
	return all
}

// TestAdamWProductsKeepBits wants updates by gradients that are products to have the bits
// of a product and an update after it, for any number of threads.
func TestAdamWProductsKeepBits(t *testing.T) {
	f := func(s *tensor.Session) []*tensor.Tensor { return productUpdates(s, false) }
	for _, level := range levels() {
		whole := newTraced(t, cpu.Options{Level: &level}, false)
		// gradients that are kept stay products
		want := whole.results(t, func(s *tensor.Session) []*tensor.Tensor { return productUpdates(s, true) })
		if got := whole.steps[compile.AdamWProduct]; got != 0 {
			t.Errorf("%v: %d products are one with their update although their results are kept", level, got)
		}
		for _, threads := range []int{1, 2, 3} {
			d := newTraced(t, cpu.Options{Level: &level, Threads: threads}, threads > 1)
			for i, got := range d.results(t, f) {
				if !bytes.Equal(got, want[i]) {
					t.Errorf("%v, %d threads: result %d has other bits than by a product and an update", level, threads, i)
				}
			}
			if got := d.steps[compile.AdamWProduct]; got != len(productShapes) {
				t.Errorf("%v, %d threads: %d products are one with their update, expected %d", level, threads, got, len(productShapes))
			}
		}
	}
}
