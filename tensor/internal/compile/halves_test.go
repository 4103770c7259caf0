package compile

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
)

// stored returns a 16-bit tensor that is an input of the program.
func stored(s *tensor.Session, shape ...int) *tensor.Tensor {
	return tensor.From(s, make([]element.BFloat16, tensor.Shape(shape).Elems()), shape...)
}

// TestProductsReadHalves: products read 16-bit operands as stored, transposed ones too,
// and no f32 copy takes memory.
func TestProductsReadHalves(t *testing.T) {
	var w *tensor.Tensor
	with := func(f recorder) recorder {
		return func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			w = stored(s, 4, 3)
			f(s, sc, x, y)
		}
	}
	expect(t, `
out0:f32[2 4] = {matmul relu} in1:f32[2 3] in0:bf16[3 4]/[1 3]+0
out0 is %3`, with(func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Matmul(w.T()).ReLU())
	}))
	for _, c := range []struct {
		what, want string
		casts      int
		f          recorder
	}{
		{"both", "{matmul cast} in0:bf16[2 3]/[1 2]+0 in0:bf16[3 4]/[1 3]+0", 1, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(w.Narrow(0, 0, 2).Reshape(3, 2).T().Matmul(w.T()))
		}},
		{"a forward and a backward product", "matmul in1:f32[2 3] in0:bf16[3 4]/[1 3]+0", 0, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			z := x.Matmul(w.T())
			sc.Keep(z)
			sc.Keep(z.Matmul(w))
		}},
		{"a widened copy that others read", "cast in0:bf16[4 3]", 1, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			f := w.Cast(tensor.F32)
			sc.Keep(x.Matmul(f.T()))
			sc.Keep(f.Sum(0))
		}},
		{"several products", "cast in1:bf16[4 3]", 1, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Reshape(2, 1, 3).Matmul(w.Cast(tensor.F32).Reshape(2, 2, 3).Transpose(1, 2)))
		}},
		{"f64", "cast in1:bf16[4 3]", 2, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Cast(tensor.F64).Matmul(w.Cast(tensor.F64).T()))
		}},
	} {
		p := planWith(t, nil, with(c.f))
		if casts := strings.Count(names(p), "cast"); !strings.Contains(p.String(), c.want) || casts != c.casts {
			t.Errorf("%s: %d casts in\n%vexpected %d and %q", c.what, casts, p, c.casts, c.want)
		}
	}
}

// TestHalvesTakeNoMemory: a product of two large 16-bit operands needs no memory but its
// result's.
func TestHalvesTakeNoMemory(t *testing.T) {
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(stored(s, 50, 300).Matmul(stored(s, 300, 70)).Cast(tensor.F32))
	})
	if p.Stats.TempBytes > 50*70*4+Align {
		t.Errorf("%d bytes of temporaries, expected one result of %d\n%v", p.Stats.TempBytes, 50*70*4, p)
	}
	plain := Compile(p.Program, &Options{NoFuse: true})
	if plain.Stats.TempBytes < 300*70*4 {
		t.Errorf("only %d bytes of temporaries without fusion\n%v", plain.Stats.TempBytes, plain)
	}
}
