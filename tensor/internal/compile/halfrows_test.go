package compile

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestRowsReadHalves: reductions and operations on rows read 16-bit operands as stored,
// and the latter write such results, where no other step needs the wide ones.
func TestRowsReadHalves(t *testing.T) {
	for _, c := range []struct {
		what, want, operand string
		f                   func(w *tensor.Tensor, sc *tensor.Scope)
	}{
		{"a sum", "sum cast", "sum in0:bf16[4 20] [0 0]", func(w *tensor.Tensor, sc *tensor.Scope) { sc.Keep(w.Sum(0)) }},
		{"a sum of columns of a view", "sum cast", "sum in0:bf16[20 4]/[1 20]+0 [0 0]", func(w *tensor.Tensor, sc *tensor.Scope) { sc.Keep(w.T().Sum(0)) }},
		{"two readers", "sum cast amax cast", "amax in0:bf16[4 20] [0 1]", func(w *tensor.Tensor, sc *tensor.Scope) {
			f := w.Cast(tensor.F32)
			sc.Keep(f.Sum(0).Cast(tensor.BF16))
			sc.Keep(f.Max(1).Cast(tensor.BF16))
		}},
		{"a reader of other kind", "{cast sin} sum", "sum t@0:f32[4 20]", func(w *tensor.Tensor, sc *tensor.Scope) {
			f := w.Cast(tensor.F32)
			sc.Keep(f.Sum(0))
			sc.Keep(f.Sin())
		}},
		{"rows", "softmax", "bf16[4 20] = softmax in0:bf16[4 20] [1]", func(w *tensor.Tensor, sc *tensor.Scope) { sc.Keep(w.Softmax(1)) }},
		{"columns", "log_softmax", "bf16[4 20] = log_softmax in0:bf16[4 20] [0]", func(w *tensor.Tensor, sc *tensor.Scope) { sc.Keep(w.LogSoftmax(0)) }},
		{"few columns", "cast softmax cast", "softmax", func(w *tensor.Tensor, sc *tensor.Scope) { sc.Keep(w.Reshape(8, 10).Softmax(0)) }},
		{"a wide result", "softmax", "f32[4 20] = softmax in0:bf16[4 20] [1]", func(w *tensor.Tensor, sc *tensor.Scope) { sc.Keep(w.Cast(tensor.F32).Softmax(1)) }},
		{"a result that is kept and narrowed", "softmax cast", "f32[4 20] = softmax in0:bf16[4 20] [1]", func(w *tensor.Tensor, sc *tensor.Scope) {
			y := w.Cast(tensor.F32).Softmax(1)
			sc.Keep(y)
			sc.Keep(y.Cast(tensor.F16))
		}},
	} {
		p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) { c.f(stored(s, 4, 20), sc) })
		if got := names(p); !strings.HasPrefix(got, c.want) || !strings.Contains(p.String(), c.operand) {
			t.Errorf("%s: %s in\n%vexpected %s with %q", c.what, got, p, c.want, c.operand)
		}
	}
}
