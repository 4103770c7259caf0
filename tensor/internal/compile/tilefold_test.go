package compile

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestTileFolds: elementwise steps that end in a reduction over the last dims become one
// step; those with another reader do not, nor do reductions over other dims.
func TestTileFolds(t *testing.T) {
	for _, c := range []struct {
		what string
		f    func(x, y *tensor.Tensor) []*tensor.Tensor
		want string
	}{
		{"a norm", func(x, _ *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x.Square().Sum()} }, "sum{square}"},
		{"a mean of squares", func(x, y *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x.Sub(y).Square().Mean(-1)} }, "mean{sub square}"},
		{"through a view", func(x, _ *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x.Exp().Reshape(2, 1, 3).Max(1, 2)}
		}, "amax{exp}"},
		{"a result that is kept", func(x, _ *tensor.Tensor) []*tensor.Tensor { z := x.Exp(); return []*tensor.Tensor{z, z.Sum()} }, " sum "},
		{"the first dim", func(x, _ *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x.Exp().Sum(0)} }, " sum "},
		{"a transposed result", func(x, _ *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x.Exp().T().Sum(-1)} }, " sum "},
		{"a result and its mirror", func(x, _ *tensor.Tensor) []*tensor.Tensor {
			z := x.Exp()
			return []*tensor.Tensor{z.Add(z.Flip(1)).Sum(-1)}
		}, "sum{add}"},
		{"across a barrier", func(x, _ *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x.Exp().Barrier().Sum(-1)} }, " sum "},
	} {
		p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			for _, z := range c.f(x, y) {
				sc.Keep(z)
			}
		})
		if got := " " + names(p) + " "; !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q among the steps%s", c.what, c.want, got)
		}
	}
}
