package cpu_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
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
// bits of products of widened copies, whatever the number of threads. Where the machine
// multiplies bfloat16, sums of its products are rounded at other places: these are near.
func TestProductsOfHalves(t *testing.T) {
	for _, level := range levels() {
		plain := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
		want := plain.results(t, halfProducts)
		brain := level == isa.AMX || level == isa.AVX512 && isa.BrainFloat()
		var first [][]byte
		for _, threads := range []int{1, 2, 3} {
			read := 0
			o := cpu.Options{Level: &level, Threads: threads}
			d := newTraced(t, o, threads > 1)
			d.onStep = func(s *compile.Step) {
				if s.Op == tensor.OpMatmul && (s.In[0].DType.IsHalf() || s.In[1].DType.IsHalf()) {
					read++
				}
			}
			results := d.results(t, halfProducts)
			if first == nil {
				first = results
			}
			for i, got := range results {
				if !bytes.Equal(got, first[i]) {
					t.Errorf("%v, %d threads: result %d has other bits than with one", level, threads, i)
				}
				if !bytes.Equal(got, want[i]) && !(brain && nearBrains(got, want[i])) {
					t.Errorf("%v, %d threads: result %d has other bits", level, threads, i)
				}
			}
			if read != 6*2*7 {
				t.Errorf("%v, %d threads: %d products read halves, expected %d", level, threads, read, 6*2*7)
			}
		}
	}
}

// nearBrains reports whether a and b hold numbers of bfloat16 that differ by a place of
// their last bit at most, or by little where terms cancelled.
func nearBrains(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	number := func(x []byte, i int) float64 {
		return float64(math.Float32frombits(uint32(binary.NativeEndian.Uint16(x[i:])) << 16))
	}
	for i := 0; i < len(a); i += 2 {
		x, y := number(a, i), number(b, i)
		if !(math.Abs(x-y) <= max(math.Abs(x), math.Abs(y))/128+1e-4) {
			return false
		}
	}
	return true
}
