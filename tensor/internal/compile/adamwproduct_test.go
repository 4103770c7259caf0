package compile

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// updated records an AdamW update of p by gradient g and returns the new parameter.
func updated(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) *tensor.Tensor {
	T, S := tensor.T, tensor.S
	nm := sc.Keep(s.Apply(tensor.OpAdamM, nil, T(m), T(g), S(0.9)))
	nv := sc.Keep(s.Apply(tensor.OpAdamV, nil, T(v), T(g), S(0.99)))
	return sc.Keep(s.Apply(tensor.OpAdamW, nil, T(p), T(nm), T(nv), S(0.1), S(0.2), S(0.3), S(0.4), S(0.5)))
}

// TestAdamWProducts: a gradient that is a matrix product becomes one step with the
// update, unless another step reads the gradient or the old values, or a later step can
// fail.
func TestAdamWProducts(t *testing.T) {
	const n = 128
	for _, c := range []struct {
		name, want string
		rows       int
		f          func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor)
	}{
		{"a gradient", "adamw_product", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			updated(s, sc, p, m, v, a.T().Matmul(b))
		}},
		{"the old parameter is read before", "neg matmul adamw_product", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			sc.Keep(p.Neg().Matmul(p))
			updated(s, sc, p, m, v, a.T().Matmul(b))
		}},
		{"two", "exp exp exp adamw_product adamw_product", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			q, x, y := p.Exp(), m.Exp(), v.Exp()
			updated(s, sc, p, m, v, a.T().Matmul(b))
			updated(s, sc, q, x, y, b.T().Matmul(a))
		}},
		{"a small gradient", "matmul adamw_all*1", n - 1, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			updated(s, sc, p, m, v, a.T().Matmul(b))
		}},
		{"a gradient by nothing", "matmul adamw_all*1", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			updated(s, sc, p, m, v, a.Narrow(0, 0, 0).T().Matmul(b.Narrow(0, 0, 0)))
		}},
		{"the gradient is kept", "matmul adamw_all*1", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			updated(s, sc, p, m, v, sc.Keep(a.T().Matmul(b)))
		}},
		{"the gradient is a sum", "matmul sum add adamw_all*1", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			updated(s, sc, p, m, v, a.T().Matmul(b).Add(b.Sum()))
		}},
		{"the old parameter is read later", "matmul adamw_all*1 matmul", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			q := updated(s, sc, p, m, v, a.T().Matmul(b))
			sc.Keep(q.Matmul(p))
		}},
		{"something may fail later", "matmul adamw_all*1 full index_select", n, func(s *tensor.Session, sc *tensor.Scope, p, m, v, a, b *tensor.Tensor) {
			updated(s, sc, p, m, v, a.T().Matmul(b))
			sc.Keep(b.IndexSelect(0, tensor.Full(s, tensor.I32, 3, 2)))
		}},
	} {
		p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
			var x [5]*tensor.Tensor
			for i, rows := range []int{c.rows, c.rows, c.rows, 8, 8} {
				x[i] = tensor.From(s, make([]float32, rows*n), rows, n)
			}
			x[3] = x[3].Narrow(1, 0, c.rows)
			c.f(s, sc, x[0], x[1], x[2], x[3], x[4])
		})
		if got := names(p); got != c.want {
			t.Errorf("%s: %s, expected %s\n%v", c.name, got, c.want, p)
		}
	}
}
