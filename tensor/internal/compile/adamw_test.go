package compile

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestAdamWUpdates: updates become one step unless one reads a result of another.
func TestAdamWUpdates(t *testing.T) {
	T, S := tensor.T, tensor.S
	for _, c := range []struct {
		name, want string
		f          func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor)
	}{
		{"two parameters", "exp adamw_all*2", func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) {
			updated(s, sc, p, m, v, g)
			updated(s, sc, g.Exp(), m, v, g)
		}},
		{"a parameter twice", "adamw_all*1 adamw_all*1", func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) {
			updated(s, sc, updated(s, sc, p, m, v, g), m, v, g)
		}},
		{"two parameters twice", "adamw_all*2 adamw_all*2", func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) {
			q, r := updated(s, sc, p, m, v, g), updated(s, sc, m, p, v, g)
			updated(s, sc, q, m, v, g)
			updated(s, sc, r, p, v, g)
		}},
		{"a new parameter as a gradient", "adamw_all*1 adamw_all*1", func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) {
			updated(s, sc, p, m, v, updated(s, sc, g, m, v, p))
		}},
		{"a moment as a gradient of an earlier update", "{adam_m adam_v adamw} adamw_all*1", func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) {
			nm := sc.Keep(s.Apply(tensor.OpAdamM, nil, T(m), T(g), S(0.9)))
			nv := sc.Keep(s.Apply(tensor.OpAdamV, nil, T(v), T(g), S(0.99)))
			updated(s, sc, g, m, v, nm)
			sc.Keep(s.Apply(tensor.OpAdamW, nil, T(p), T(nm), T(nv), S(0.1), S(0.2), S(0.3), S(0.4), S(0.5)))
		}},
		{"its own moment as the parameter", "{adam_m adam_v adamw}", func(s *tensor.Session, sc *tensor.Scope, p, m, v, g *tensor.Tensor) {
			nm := sc.Keep(s.Apply(tensor.OpAdamM, nil, T(m), T(g), S(0.9)))
			nv := sc.Keep(s.Apply(tensor.OpAdamV, nil, T(v), T(g), S(0.99)))
			sc.Keep(s.Apply(tensor.OpAdamW, nil, T(nm), T(nm), T(nv), S(0.1), S(0.2), S(0.3), S(0.4), S(0.5)))
		}},
	} {
		p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
			var x [4]*tensor.Tensor
			for i := range x {
				x[i] = tensor.From(s, make([]float32, 6), 2, 3)
			}
			c.f(s, sc, x[0], x[1], x[2], x[3])
		})
		if got := names(p); got != c.want {
			t.Errorf("%s: %s, expected %s\n%v", c.name, got, c.want, p)
		}
	}
}
