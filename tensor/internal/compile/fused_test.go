package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

type recorder = func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor)

// expect compiles the program that f records and compares the printed plan.
func expect(t *testing.T, want string, f recorder) {
	t.Helper()
	p := planWith(t, nil, f)
	if got, want := strings.TrimSpace(p.String()), strings.TrimSpace(want); got != want {
		t.Errorf("the plan is\n%s\nexpected\n%s", got, want)
	}
}

// names lists the steps of a plan.
func names(p *Plan) string {
	var l []string
	for i := range p.Steps {
		l = append(l, p.Steps[i].Name())
	}
	return strings.Join(l, " ")
}

func TestCommonStepsOnce(t *testing.T) {
	expect(t, `
t@0:f32[2 3] = sin in0:f32[2 3]
t@64:f32[] = sum t@0:f32[2 3] [0]
out0:f32[2 3] = mul t@64:f32[] t@0:f32[2 3]
out0 is %3`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		a, b := x.Sin(), x.Sin()
		sc.Keep(a.Sum().Mul(b))
	})
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Cumsum(0).Sum().Add(x.Cumsum(1).Sum())) // other attributes
		sc.Keep(x.MulS(2).Sum().Add(x.MulS(3).Sum()))     // other scalars
		sc.Keep(x.Sin())
		sc.Keep(x.Sin()) // two results
	})
	if got := strings.Count(names(p), "cumsum") + strings.Count(names(p), "mul") + strings.Count(names(p), "sin"); got != 6 {
		t.Errorf("%d steps are left of 6 that differ:\n%v", got, p)
	}
}

func TestConstantsAreScalars(t *testing.T) {
	expect(t, `
out0:f32[2 3] = add in0:f32[2 3] s0
out0 is %1`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Add(tensor.Full(s, tensor.F32, 2, 2, 3)))
	})
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		one := tensor.Full(s, tensor.F32, 1, 2, 3)
		sc.Keep(one.Add(one)) // nothing else gives the dtype
		sc.Keep(x.Cast(tensor.I32).Add(tensor.Full(s, tensor.I32, 2.5, 2, 3)))
	})
	if got := strings.Count(names(p), "full"); got != 2 {
		t.Errorf("%d constants are tensors, expected 2:\n%v", got, p)
	}
}

func TestFullHalfIsNoCast(t *testing.T) {
	expect(t, `
out0:f16[2 3] = full s0 [7 2 3]
out1:bf16[2 3] = full s1 [8 2 3]
out0 is %1
out1 is %3`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(tensor.Full(s, tensor.F16, 2, 2, 3))
		sc.Keep(tensor.Full(s, tensor.BF16, 3, 2, 3))
	})
}

func TestChainsBecomeTiles(t *testing.T) {
	expect(t, `
out0:f32[2 3] = {exp add mul} in0:f32[2 3] in1:f32[2 3]/[0 1]+0 s0
out0 is %4`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Exp().Add(y.Slice(tensor.At(0))).MulS(2))
	})
	for _, c := range []struct {
		name, want string
		f          recorder
	}{
		{"a result within", "{exp neg}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(sc.Keep(x.Exp()).Neg())
		}},
		{"casts and comparisons", "cast {cast gt where}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			c := y.Cast(tensor.F64)
			sc.Keep(tensor.Where(c.GtS(1), c, x.Cast(tensor.F64).Narrow(0, 0, 1)))
		}},
		{"another shape of the same elements", "{exp neg}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Exp().Reshape(3, 2).Neg())
		}},
		{"another order", "exp neg", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Exp().T().Neg())
		}},
		{"broadcast in between", "exp {add neg}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Slice(tensor.At(0)).Exp().Add(y).Neg())
		}},
		{"readers of the same", "{exp neg}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Exp())
			sc.Keep(x.Neg())
		}},
		{"somebody reads in between, the second may go first", "{exp mul} sum {add neg}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			e := x.Exp()
			total := e.Sum()
			sc.Keep(e.Mul(y))
			sc.Keep(y.Add(total).Neg())
		}},
		{"a sum of what is made stands between", "exp sum {mul neg}", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			e := x.Exp()
			sc.Keep(e.Mul(e.Sum()).Neg())
		}},
		{"dropout counts elements", "exp dropout neg", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Exp().Dropout(0.5).Neg())
		}},
	} {
		if p := planWith(t, nil, c.f); !strings.HasPrefix(names(p), c.want) {
			t.Errorf("%s: %s, expected %s\n%v", c.name, names(p), c.want, p)
		}
	}
}

// TestTilesInPlace: a result of a tile never overwrites a value that a later operation
// reads.
func TestTilesInPlace(t *testing.T) {
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		e := x.Cumsum(0)
		q := e.Reshape(3, 2).Matmul(y) // reads e
		// two results: only the last may take the memory of e
		a, b := e.Neg(), e.Sin()
		sc.Keep(a.T().Matmul(b).Sum().Add(q.Sum()))
	})
	for k := range p.Steps {
		s := &p.Steps[k]
		if s.Fused != Tiles {
			continue
		}
		if s.Out.Buf == s.In[0].Buf || len(s.Also) != 1 || s.Also[0].Buf != s.In[0].Buf {
			t.Errorf("expected the second result alone in the operand's place:\n%v", p)
		}
	}
}

func TestReluGradLooksAtTheResult(t *testing.T) {
	expect(t, `
t@0:f32[3 3] = {matmul add relu} in0:f32[3 2]/[1 3]+0 in1:f32[2 3] in1:f32[3 3]/[0 1]+0
out0:f32[3 3] = {matmul relu_grad} t@0:f32[3 3] t@0:f32[3 3] t@0:f32[3 3]
out0 is %7`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		a := x.T().Matmul(y).Add(y.Slice(tensor.At(0)))
		b := a.ReLU()
		sc.Keep(s.Apply(tensor.OpReluGrad, nil, tensor.T(a), tensor.T(b.Matmul(b))))
	})
}

func TestPadsAreJoined(t *testing.T) {
	expect(t, `
t@0:f32[2 3] = exp in0:f32[2 3]
out0:f32[2 6] = join_pads t@0:f32[2 3] in1:f32[2 3] s0 s0 [1]
out0 is %3`, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		e := x.Exp()
		sc.Keep(e.Pad(0, [2]int{0, 0}, [2]int{0, 3}).Add(y.Pad(0, [2]int{0, 0}, [2]int{3, 0})))
	})
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		// a gap between the pieces
		sc.Keep(x.Pad(0, [2]int{0, 0}, [2]int{0, 4}).Add(y.Pad(0, [2]int{0, 0}, [2]int{4, 0})))
		// pads in two dims
		sc.Keep(x.Pad(0, [2]int{0, 2}, [2]int{0, 3}).Add(y.Pad(0, [2]int{2, 0}, [2]int{3, 0})))
	})
	if strings.Contains(names(p), "join") {
		t.Errorf("pads that leave a gap were joined:\n%v", p)
	}
}

// heads returns q, k and v for b batches, h and kv heads, q and n positions, d numbers
// each.
func heads(s *tensor.Session, b, h, kv, q, n, d int) (x, y, z *tensor.Tensor) {
	return tensor.Ones(s, tensor.F32, b, q, h, d).Transpose(1, 2), tensor.Ones(s, tensor.F32, b, n, kv, d).Transpose(1, 2), tensor.Ones(s, tensor.F32, b, n, kv, d).Transpose(1, 2)
}

func TestAttentionIsOneStep(t *testing.T) {
	for _, c := range []struct {
		b, h, kv, q, n, d int
		causal            bool
		want              string // the steps that remain
	}{
		{2, 4, 4, 5, 5, 6, true, "attention attention_grad"},
		{2, 4, 2, 5, 7, 6, true, "attention attention_grad"},
		{1, 6, 1, 3, 3, 8, true, "attention attention_grad"},
		{2, 4, 4, 5, 5, 6, false, "attention attention_grad"},
		{2, 4, 2, 7, 5, 6, false, "attention attention_grad"}, // more queries than keys
		{1, 6, 1, 3, 3, 8, false, "attention attention_grad"},
	} {
		p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
			q, k, v := heads(s, c.b, c.h, c.kv, c.q, c.n, c.d)
			for _, x := range []*tensor.Tensor{q, k, v} {
				x.RequireGrad()
			}
			y := tensor.Attention(q, k, v, 0.5, c.causal)
			g, err := autograd.Grad(y.Transpose(1, 2).Reshape(c.b, c.q, -1).Square().Sum(), q, k, v)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range g {
				sc.Keep(x.Transpose(1, 2).Reshape(-1))
			}
		})
		var got []string
		for i := range p.Steps {
			if n := p.Steps[i].Name(); strings.Contains(n, "attention") || strings.Contains(n, "softmax") || n == "matmul" || n == "cast" {
				got = append(got, n)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %s, expected %s\n%v", c, got, c.want, p)
		}
	}
}

// TestAttentionTakesNoSquare: the memory for attention and its gradient grows with the
// sequence, not with its square.
func TestAttentionTakesNoSquare(t *testing.T) {
	const heads, n, d = 2, 1024, 8
	for _, causal := range []bool{true, false} {
		bytes := func(o *Options) int {
			return planWith(t, o, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
				var qkv []*tensor.Tensor
				for range 3 {
					qkv = append(qkv, tensor.Ones(s, tensor.F32, 1, heads, n, d).RequireGrad())
				}
				g, err := autograd.Grad(tensor.Attention(qkv[0], qkv[1], qkv[2], 0.5, causal).Square().Sum(), qkv...)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range g {
					sc.Keep(x)
				}
			}).Temp
		}
		const one, square = heads * n * d * 4, heads * n * n * 4
		if got := bytes(nil); got > 8*one || got >= square {
			t.Errorf("causal %v: %d bytes of temporaries, where a query, key or value has %d and their square %d", causal, got, one, square)
		}
		if got := bytes(&Options{NoFuse: true}); got < 2*square {
			t.Errorf("causal %v: only %d bytes of temporaries without fusion, expected two squares of %d at least", causal, got, square)
		}
	}
}

// TestAttentionWithItsWeights: a step that reads the weights of an attention keeps them
// in memory.
func TestAttentionWithItsWeights(t *testing.T) {
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
		q, k, v := heads(s, 1, 2, 2, 3, 3, 4)
		w := sc.Keep(q.Matmul(k.T()).CausalSoftmax(1))
		sc.Keep(w.Matmul(v))
	})
	if strings.Contains(names(p), "attention") {
		t.Errorf("kept weights are not computed:\n%v", p)
	}
}

func TestTrainingSteps(t *testing.T) {
	p := planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		w, b := tensor.Ones(s, tensor.F32, 3), tensor.Zeros(s, tensor.F32, 3)
		for _, p := range []*tensor.Tensor{x, w, b} {
			p.RequireGrad()
		}
		target := tensor.From(s, []int32{0, 2})
		loss := sc.Keep(x.LayerNorm(w, b, 1e-5, 1).CrossEntropy(target, -100))
		g, err := autograd.Grad(loss, w, b, x)
		if err != nil {
			t.Fatal(err)
		}
		sc.Keep(g[2])
		for i, p := range []*tensor.Tensor{w, b} {
			m := sc.Keep(s.Apply(tensor.OpAdamM, nil, tensor.T(y.Slice(tensor.At(0))), tensor.T(g[i]), tensor.S(0.9)))
			v := sc.Keep(s.Apply(tensor.OpAdamV, nil, tensor.T(y.Slice(tensor.At(1))), tensor.T(g[i]), tensor.S(0.9)))
			sc.Keep(s.Apply(tensor.OpAdamW, nil, tensor.T(p), tensor.T(m), tensor.T(v), tensor.S(1), tensor.S(1), tensor.S(1), tensor.S(1), tensor.S(1)))
		}
	})
	want := "full full layer_norm full loss_grad norm_grad adamw_all*2"
	if got := names(p); got != want {
		t.Errorf("the steps are\n%s\nexpected\n%s\n%v", got, want, p)
	}
}

// TestBarriersDivide: attention, a loss with its gradient, and a sum of pads stay several
// steps with a barrier between them.
func TestBarriersDivide(t *testing.T) {
	T := tensor.T
	for _, c := range []struct {
		name, fused string
		f           func(s *tensor.Session, sc *tensor.Scope, x *tensor.Tensor, cut func(*tensor.Tensor) *tensor.Tensor)
	}{
		{"scores", "attention", func(s *tensor.Session, sc *tensor.Scope, x *tensor.Tensor, cut func(*tensor.Tensor) *tensor.Tensor) {
			sc.Keep(cut(x.Matmul(x.T()).MulS(2)).Softmax(-1).Matmul(x))
		}},
		{"probabilities", "attention", func(s *tensor.Session, sc *tensor.Scope, x *tensor.Tensor, cut func(*tensor.Tensor) *tensor.Tensor) {
			sc.Keep(cut(x.Matmul(x.T()).CausalSoftmax(2)).Matmul(x))
		}},
		{"a loss and its gradient", "loss_grad", func(s *tensor.Session, sc *tensor.Scope, x *tensor.Tensor, cut func(*tensor.Tensor) *tensor.Tensor) {
			y, dy := tensor.From(s, make([]int32, 2)), tensor.Scalar(s, float32(1))
			sc.Keep(x.CrossEntropy(y, -1))
			sc.Keep(s.Apply(tensor.OpCrossEntropyGrad, []int64{-1}, T(cut(x)), T(y), T(dy)))
		}},
		{"pads", "join_pads", func(s *tensor.Session, sc *tensor.Scope, x *tensor.Tensor, cut func(*tensor.Tensor) *tensor.Tensor) {
			sc.Keep(cut(x.Pad(0, [2]int{0, 3})).Add(x.Pad(0, [2]int{3, 0})))
		}},
	} {
		plan := func(cut func(*tensor.Tensor) *tensor.Tensor) string {
			return names(planWith(t, nil, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) { c.f(s, sc, x, cut) }))
		}
		if got := plan(func(x *tensor.Tensor) *tensor.Tensor { return x }); !strings.Contains(got, c.fused) {
			t.Errorf("%s: %q without a barrier, expected a step %s", c.name, got, c.fused)
		}
		if got := plan((*tensor.Tensor).Barrier); strings.Contains(got, c.fused) {
			t.Errorf("%s: %q with a barrier, expected no step %s", c.name, got, c.fused)
		}
	}
}

// TestNormGradsAcrossBarriers: gradients of a norm with a barrier between them stay
// apart.
func TestNormGradsAcrossBarriers(t *testing.T) {
	T, S := tensor.T, tensor.S
	for _, c := range []struct {
		name, want string
		f          recorder
	}{
		{"none", "norm_grad", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(s.Apply(tensor.OpLayerNormGradX, []int64{1}, T(x), T(y), T(y.Slice(tensor.At(0))), S(0.1)))
			sc.Keep(s.Apply(tensor.OpLayerNormGradW, []int64{1}, T(x), T(y), S(0.1)))
			sc.Keep(y.Sum(0))
		}},
		{"before the bias", "norm_grad sum", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(s.Apply(tensor.OpLayerNormGradX, []int64{1}, T(x), T(y), T(y.Slice(tensor.At(0))), S(0.1)))
			sc.Keep(s.Apply(tensor.OpLayerNormGradW, []int64{1}, T(x), T(y), S(0.1)))
			sc.Keep(y.Barrier().Sum(0))
		}},
		{"before the weight", "layer_norm_grad_x layer_norm_grad_w", func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(s.Apply(tensor.OpLayerNormGradX, []int64{1}, T(x), T(y), T(y.Slice(tensor.At(0))), S(0.1)))
			sc.Keep(s.Apply(tensor.OpLayerNormGradW, []int64{1}, T(x.Barrier()), T(y), S(0.1)))
		}},
	} {
		if p := planWith(t, nil, c.f); names(p) != c.want {
			t.Errorf("%s: %s, expected %s\n%v", c.name, names(p), c.want, p)
		}
	}
}

// TestRandomPlans: plans of random programs keep the invariants of checkPlan, fused or
// not.
func TestRandomPlans(t *testing.T) {
	n := uint64(150)
	if testsize.Sampled() {
		n = 40
	}
	fused := 0
	for seed := range n {
		c := &capture{}
		s := tensor.NewSession(c, nil)
		s.Scope(func(sc *tensor.Scope) {
			for i, x := range enginetest.Generate(s, seed, 60) {
				if i%3 == 0 {
					sc.Keep(x)
				}
			}
		})
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		for _, noFuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d nofuse=%v", seed, noFuse), func(t *testing.T) {
				p := Compile(c.p, &Options{NoFuse: noFuse})
				checkPlan(t, p)
				fused += p.Stats.Fused
			})
		}
	}
	if fused == 0 {
		t.Error("no step of any program was fused")
	}
}
