package cpu_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// halfProducts returns products with one operand or both of 16 bits, in every order of
// their elements.
func halfProducts(s *tensor.Session) []*tensor.Tensor {
	s.Seed(12)
	var out []*tensor.Tensor
	for _, c := range []struct{ m, k, n int }{{1, 1, 1}, {1, 7, 40}, {5, 1, 3}, {67, 40, 129}, {70, 1100, 70}, {3, 5000, 40}} {
		for _, dt := range []tensor.DType{tensor.F16, tensor.BF16} {
			uploaded := func(rows, cols int) *tensor.Tensor { return tensor.RandN(s, tensor.F32, rows, cols).Cast(dt).Barrier() }
			x, w := tensor.RandN(s, tensor.F32, c.m, c.k), uploaded(c.n, c.k)
			h, v := uploaded(c.m, c.k), uploaded(c.k, c.n)
			every2 := uploaded(2*c.k, 2*c.n).Slice(tensor.By(tensor.All, tensor.All, 2), tensor.By(tensor.All, tensor.All, 2))
			out = append(out, x.Matmul(w.T()), h.Matmul(v), h.Matmul(w.T()), uploaded(c.k, c.m).T().Matmul(v))
			out = append(out, x.Matmul(every2), x.Reshape(c.m, 1, c.k).Matmul(v).ReLU(), h.Flip(0).Matmul(v))
		}
	}
	return out
}

// TestProductsOfHalves wants products to read halves as they are stored and to give the
// bits of products of widened copies.
func TestProductsOfHalves(t *testing.T) {
	for _, level := range levels() {
		plain := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
		want := plain.results(t, halfProducts)
		for _, threads := range []int{1, 2, 3} {
			read := 0
			o := cpu.Options{Level: &level, Threads: threads}
			d := newTraced(t, o, threads > 1)
			d.onStep = func(s *compile.Step) {
				if s.Op == tensor.OpMatmul && (s.In[0].DType.IsHalf() || s.In[1].DType.IsHalf()) {
					read++
				}
			}
			for i, got := range d.results(t, halfProducts) {
				if !bytes.Equal(got, want[i]) {
					t.Errorf("%v, %d threads: result %d has other bits", level, threads, i)
				}
			}
			if read != 6*2*7 {
				t.Errorf("%v, %d threads: %d products read halves, expected %d", level, threads, read, 6*2*7)
			}
		}
	}
}
