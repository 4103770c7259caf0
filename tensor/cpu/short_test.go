package cpu_test

import (
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// Rows of every short length keep their elements when they are joined and turned, and
// their first extreme is found among zeros of both signs, infinities and NaN.
func TestShortRows(t *testing.T) {
	s, err := cpu.NewSession(&cpu.Options{Threads: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	negative := float32(math.Copysign(0, -1))
	values := []float32{1, negative, 0, 5, -7, 5, float32(math.Inf(-1)), 2, -7, 0, negative, float32(math.Inf(1)), 3}
	const rows = 300
	for n := 1; n <= 34; n++ {
		data := make([]float32, rows*n)
		for i := range data {
			data[i] = values[(i*i/3+i)%len(values)]
			if i%41 == 40 {
				data[i] = float32(math.NaN())
			}
		}
		var turned, joined []float32
		var largest, smallest []int64
		for row := range slices.Chunk(data, n) {
			joined = append(append(joined, row...), row...)
			back := slices.Clone(row)
			slices.Reverse(back)
			turned = append(turned, back...)
			hi, lo := 0, 0
			for j, v := range row {
				if v > row[hi] || v != v && row[hi] == row[hi] {
					hi = j
				}
				if v < row[lo] || v != v && row[lo] == row[lo] {
					lo = j
				}
			}
			largest, smallest = append(largest, int64(hi)), append(smallest, int64(lo))
		}
		same := func(name string, got *tensor.Tensor, want []float32) {
			t.Helper()
			x, err := tensor.Data[float32](got)
			if err != nil || !slices.EqualFunc(x, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Errorf("%s of rows of %d differs: %v", name, n, err)
			}
		}
		x := tensor.From(s, data, rows, n)
		same("join", tensor.Concat(1, x, x), joined)
		same("flip", s.Apply(tensor.OpCast, []int64{int64(tensor.F32)}, tensor.T(x.Flip(1))), turned)
		for _, dt := range []tensor.DType{tensor.F32, tensor.F64} {
			for name, c := range map[string]struct {
				got  *tensor.Tensor
				want []int64
			}{"argmax": {x.Cast(dt).Argmax(1), largest}, "argmin": {x.Cast(dt).Argmin(1), smallest}} {
				if got, err := tensor.Data[int64](c.got); err != nil || !slices.Equal(got, c.want) {
					t.Errorf("%s of %v in rows of %d: got %v, expected %v, %v", name, dt, n, got, c.want, err)
				}
			}
		}
	}
}
