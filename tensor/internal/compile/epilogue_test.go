package compile

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

func TestEpilogues(t *testing.T) {
	expect(t, `
out0:f32[3 3] = {matmul add relu} in0:f32[3 2]/[1 3]+0 in1:f32[2 3] in1:f32[3 3]/[0 1]+0
out0 is %5`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.T().Matmul(y).Add(y.Slice(tensor.At(0))).ReLU())
	})
	for _, c := range []struct {
		what, want string
		f          recorder
	}{
		{"an activation alone", "{matmul gelu}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Matmul(y).GELU())
		}},
		{"a residual", "{matmul add}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Add(x.Matmul(y.T().Matmul(y))))
		}},
		{"what the backward pass reads too", "{matmul silu}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(sc.Keep(x.T().Matmul(y)).SiLU())
		}},
		{"what somebody else reads", "{matmul silu} cumsum", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			p := x.T().Matmul(y)
			sc.Keep(p.SiLU())
			sc.Keep(p.Cumsum(0))
		}},
		{"a gate made before", "matmul {matmul silu mul}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			up := x.T().Matmul(y)
			sc.Keep(y.T().Matmul(x).SiLU().Mul(up))
		}},
		{"operands that come later", "matmul matmul cumsum mul", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			p := x.T().Matmul(y)
			sc.Keep(p.Mul(y.T().Matmul(x).Cumsum(0)))
		}},
		{"rows of several matrices", "{matmul add}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Reshape(2, 1, 3).Matmul(y.T()).AddS(1))
		}},
		{"several products", "matmul add", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Reshape(2, 3, 1).Matmul(y.Reshape(2, 1, 3)).AddS(1))
		}},
		{"another order", "matmul neg", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Matmul(y).T().Neg())
		}},
		{"both orders", "matmul add", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			p := x.T().Matmul(y)
			sc.Keep(p.Add(p.T()))
		}},
		{"another dtype", "matmul add", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Cast(tensor.F64).Matmul(y.Cast(tensor.F64)).AddS(1))
		}},
		{"a result that is cast", "{matmul cast}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Matmul(y).Cast(tensor.BF16))
		}},
		{"across a barrier", "matmul add", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Matmul(y).Barrier().AddS(1))
		}},
		{"no terms", "matmul add", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Narrow(1, 0, 0).Matmul(y.Narrow(0, 0, 0)).AddS(1))
		}},
	} {
		p := planWith(t, nil, c.f)
		if !strings.Contains(" "+names(p)+" ", " "+c.want+" ") {
			t.Errorf("%s: %s, expected %s\n%v", c.what, names(p), c.want, p)
		}
	}
}

// TestWhereAnEpiloguesProductLies: the product lies where a result of its step goes, if
// that result is computed after the last read of the product, and else apart. The result
// overlays no operand, since the product is computed before the operands are read.
func TestWhereAnEpiloguesProductLies(t *testing.T) {
	for _, c := range []struct {
		what  string
		home  int
		temp  int
		build recorder
	}{
		{"read once", 0, 0, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) { sc.Keep(x.T().Matmul(y).ReLU()) }},
		{"read again after the first result", 1, 0, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			p := x.T().Matmul(y)
			a := sc.Keep(p.ReLU())
			sc.Keep(a.Mul(p))
		}},
		{"results of another type", 1, Align, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Matmul(y).Cast(tensor.BF16))
		}},
		{"kept", 1, 0, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(sc.Keep(x.T().Matmul(y)).ReLU())
		}},
		{"over a residual that dies", 0, 2 * Align, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			r := x.T().Cumsum(0).Matmul(y) // 3 x 3, dead after the sum
			sc.Keep(y.T().Matmul(x).Add(r).Cumsum(0))
		}},
	} {
		p := planWith(t, nil, c.build)
		found := false
		for k := range p.Steps {
			s := &p.Steps[k]
			if s.Fused != Epilogue {
				continue
			}
			found = true
			if s.Body[0].Out != c.home {
				t.Errorf("%s: the product is output %d, expected %d\n%v", c.what, s.Body[0].Out, c.home, p)
			}
			for _, o := range s.In {
				if o.Scalar < 0 && o.Buf == s.Outs()[c.home].Buf {
					t.Errorf("%s: the product lies over an operand\n%v", c.what, p)
				}
			}
		}
		if !found || p.Temp != c.temp {
			t.Errorf("%s: an arena of %d bytes, expected %d\n%v", c.what, p.Temp, c.temp, p)
		}
	}
}
