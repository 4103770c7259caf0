package cpu_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// halfRows returns reductions of numbers of 16 bits and operations on rows of them, of
// rows and of columns, in pieces and whole, and sums of no numbers.
func halfRows(s *tensor.Session) []*tensor.Tensor {
	s.Seed(7)
	var out []*tensor.Tensor
	for _, dt := range []tensor.DType{tensor.F16, tensor.BF16} {
		none := tensor.Zeros(s, dt, 3, 0, 2).Barrier()
		out = append(out, none.Sum(), none.Sum(1), none.Mean(1), none.Cast(tensor.F32).Prod(1))
		for _, sh := range [][]int{{3, 5, 40}, {70, 3, 33}, {2, 9, 2100}, {1, 1, 9000}, {1100, 1, 16}} {
			x := tensor.RandN(s, tensor.F32, sh...).Cast(dt).Barrier()
			// whole numbers: a view's sums add up in another order
			whole := tensor.RandN(s, tensor.F32, sh...).MulS(3).Floor().Cast(dt).Barrier()
			every2 := tensor.RandN(s, tensor.F32, sh[0], sh[1], 2*sh[2]).MulS(3).Floor().Cast(dt).Barrier().Slice(tensor.By(tensor.All, tensor.All, 1), tensor.By(tensor.All, tensor.All, 1), tensor.By(tensor.All, tensor.All, 2))
			for _, v := range []*tensor.Tensor{x, whole.Transpose(0, 2), whole.Flip(0), whole.Flip(2), every2} {
				for _, dims := range [][]int{nil, {0}, {1}, {2}, {0, 2}} {
					out = append(out, v.Sum(dims...), v.Max(dims...), v.Cast(tensor.F32).Min(dims...), v.Mean(dims...))
				}
			}
			w, b := tensor.RandN(s, tensor.F32, sh[2]).Cast(dt), tensor.RandN(s, tensor.F32, sh[2]).Cast(dt)
			out = append(out, x.LayerNorm(w, b, 1e-5, 1), x.RMSNorm(w, 1e-5), x.Cast(tensor.F32).RMSNorm(nil, 1e-5))
			for d := range 3 {
				dy := tensor.RandN(s, tensor.F32, sh...).Cast(dt).Barrier()
				out = append(out, x.Softmax(d), x.LogSoftmax(d), x.Cast(tensor.F32).Softmax(d))
				for _, op := range []tensor.Op{tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad} {
					out = append(out, s.Apply(op, []int64{int64(d)}, tensor.T(x), tensor.T(dy)), s.Apply(op, []int64{int64(d)}, tensor.T(x.Cast(tensor.F32)), tensor.T(dy.Cast(tensor.F32).Neg())))
				}
			}
		}
	}
	return out
}

// TestRowsOfHalves wants steps that read and write 16 bits to give the bits of steps of
// widened copies, whatever the number of threads.
func TestRowsOfHalves(t *testing.T) {
	for _, level := range levels() {
		want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, halfRows)
		for _, threads := range []int{1, 3} {
			d := newTraced(t, cpu.Options{Level: &level, Threads: threads}, threads > 1)
			for i, got := range d.results(t, halfRows) {
				if !bytes.Equal(got, want[i]) {
					t.Errorf("%v, %d threads: result %d has other bits", level, threads, i)
				}
			}
			if d.steps[compile.HalfRows] < 500 {
				t.Errorf("%v, %d threads: only %d steps of 16 bits", level, threads, d.steps[compile.HalfRows])
			}
		}
	}
}
