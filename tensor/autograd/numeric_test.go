package autograd_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

func newSession(t *devicetest.T) *tensor.Session {
	t.Helper()
	return t.Session(nil)
}

// in is an input of a case: offset + scale*u for a u in [-1, 1), or the given values.
type in struct {
	shape         []int
	offset, scale float64
	values        []float64
}

func std(shape ...int) in { return in{shape: shape, scale: 1} }
func pos(shape ...int) in { return in{shape: shape, offset: 1.25, scale: 0.75} }

// distinct returns values far enough from each other and from 0 that a small step changes
// no order among them.
func distinct(shape ...int) in {
	v := make([]float64, tensor.Shape(shape).Elems())
	for i := range v {
		v[i] = float64((i*7)%len(v)) - float64(len(v))/2 + 0.25
	}
	return in{shape: shape, values: v}
}

func (i in) make(name string) []float64 {
	if i.values != nil {
		return append([]float64(nil), i.values...)
	}
	v := make([]float64, tensor.Shape(i.shape).Elems())
	key := data.Key(name)
	for k := range v {
		v[k] = i.offset + i.scale*float64(data.Unit(key, uint64(k)))
	}
	return v
}

type numericCase struct {
	name string
	in   []in
	f    func(x []*tensor.Tensor) *tensor.Tensor
}

// one returns the case of a function of one tensor.
func one(name string, i in, f func(x *tensor.Tensor) *tensor.Tensor) numericCase {
	return numericCase{name, []in{i}, func(x []*tensor.Tensor) *tensor.Tensor { return f(x[0]) }}
}

func two(name string, a, b in, f func(a, b *tensor.Tensor) *tensor.Tensor) numericCase {
	return numericCase{name, []in{a, b}, func(x []*tensor.Tensor) *tensor.Tensor { return f(x[0], x[1]) }}
}

func indices(x *tensor.Tensor, shape []int, idx ...int64) *tensor.Tensor {
	return tensor.From(x.Session(), idx, shape...)
}

type conv = tensor.ConvOptions

var numericCases = []numericCase{
	one("neg", std(2, 3), (*tensor.Tensor).Neg),
	one("abs", distinct(2, 3), (*tensor.Tensor).Abs),
	one("exp", std(2, 3), (*tensor.Tensor).Exp),
	one("log", pos(2, 3), (*tensor.Tensor).Log),
	one("sqrt", pos(2, 3), (*tensor.Tensor).Sqrt),
	one("rsqrt", pos(2, 3), (*tensor.Tensor).Rsqrt),
	one("recip", pos(2, 3), (*tensor.Tensor).Reciprocal),
	one("square", std(2, 3), (*tensor.Tensor).Square),
	one("sin", std(2, 3), (*tensor.Tensor).Sin),
	one("cos", std(2, 3), (*tensor.Tensor).Cos),
	one("tanh", std(2, 3), (*tensor.Tensor).Tanh),
	one("sigmoid", std(2, 3), (*tensor.Tensor).Sigmoid),
	one("relu", distinct(2, 3), (*tensor.Tensor).ReLU),
	one("gelu", std(2, 3), (*tensor.Tensor).GELU),
	one("gelu tanh", std(2, 3), (*tensor.Tensor).GELUTanh),
	one("silu", std(2, 3), (*tensor.Tensor).SiLU),
	one("erf", std(2, 3), (*tensor.Tensor).Erf),
	one("clamp", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Clamp(-2, 3) }),
	one("clamp above", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Clamp(-2, tensor.Inf) }),
	one("clamp below", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Clamp(-tensor.Inf, 3) }),
	one("clamp open", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Clamp(-tensor.Inf, tensor.Inf) }),
	one("cast", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.Cast(tensor.F32).Cast(tensor.F64) }),

	two("add, broadcast", std(3, 1), std(1, 4), (*tensor.Tensor).Add),
	two("add, dims missing", std(4), std(2, 3, 4), (*tensor.Tensor).Add),
	two("add of a scalar tensor", std(), std(2, 3), (*tensor.Tensor).Add),
	two("sub, broadcast", std(2, 3, 1), std(3, 4), (*tensor.Tensor).Sub),
	two("mul, broadcast", std(2, 1, 4), std(3, 1), (*tensor.Tensor).Mul),
	two("div", std(3, 4), pos(4), (*tensor.Tensor).Div),
	two("pow", pos(2, 3), std(3), (*tensor.Tensor).Pow),
	two("max", distinct(3, 4), std(4), (*tensor.Tensor).Maximum),
	two("min", distinct(3, 4), std(4), (*tensor.Tensor).Minimum),
	two("where", std(2, 3), std(3), func(a, b *tensor.Tensor) *tensor.Tensor {
		return tensor.Where(tensor.From(a.Session(), []bool{true, false, true, false, false, true}, 2, 3), a, b)
	}),
	one("scalars on the right", pos(2, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return x.AddS(2).SubS(0.5).MulS(3).DivS(4).PowS(2.5).MaximumS(1).MinimumS(20)
	}),
	one("scalars on the left", pos(2, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return x.RSubS(5).RDivS(2).RPowS(1.5)
	}),
	one("powers", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return x.PowS(0).Add(x.PowS(1)).Add(x.PowS(2)).Add(x.PowS(3))
	}),
	one("where with a number", distinct(2, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return tensor.WhereS(x.GtS(0), x, 7).Add(x.MaskedFill(x.LtS(1), 2))
	}),
	one("dropout", std(4, 5), func(x *tensor.Tensor) *tensor.Tensor {
		x.Session().Seed(5)
		return x.Dropout(0.4)
	}),

	one("sum", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.Sum() }),
	one("sum over the middle", std(2, 3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Sum(1) }),
	one("sum over two, kept", std(2, 3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.SumKeep(0, -1) }),
	one("mean", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.Mean() }),
	one("mean over the last", std(2, 3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Mean(-1) }),
	one("max over a dim", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Max(0) }),
	one("max of all", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Max() }),
	one("min, kept", distinct(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.MinKeep(1) }),
	one("prod", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.Prod() }),
	one("prod with zeros", in{shape: []int{3, 3}, values: []float64{1, 2, 3, 0, 4, 5, 0, 6, 0}}, func(x *tensor.Tensor) *tensor.Tensor { return x.Prod(1) }),
	one("cumsum", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Cumsum(1) }),
	one("cumsum along the first", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Cumsum(0).Square() }),
	one("cumsum from the end", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Session().Apply(tensor.OpCumsum, []int64{1, 1}, tensor.T(x))
	}),
	one("variance", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Var(1, 1) }),
	one("logsumexp", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.LogSumExp(1) }),

	one("reshape", std(2, 6), func(x *tensor.Tensor) *tensor.Tensor { return x.Reshape(3, -1).Square() }),
	one("permute", std(2, 3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Permute(2, 0, 1).Exp() }),
	one("expand", std(3, 1), func(x *tensor.Tensor) *tensor.Tensor { return x.Expand(2, 3, 4) }),
	one("barrier", std(3, 2), func(x *tensor.Tensor) *tensor.Tensor { return x.Square().Barrier() }),
	one("slice", std(4, 5), func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(tensor.To(1, 3), tensor.To(2, 5)) }),
	one("slice with steps", std(5, 7), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Slice(tensor.By(1, tensor.All, 3), tensor.By(tensor.All, tensor.All, 2))
	}),
	one("slice backwards", std(5, 7), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Slice(tensor.By(tensor.All, tensor.All, -1), tensor.By(5, 0, -2))
	}),
	one("slice to the last element", std(6), func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(tensor.By(0, 6, 5)) }),
	one("slice of nothing", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor {
		return tensor.Concat(0, x, x.Slice(tensor.To(2, 2)))
	}),
	one("index and new axis", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Slice(tensor.At(-1), tensor.NewAxis(), tensor.Ellipsis())
	}),
	one("split and concat", std(5, 2), func(x *tensor.Tensor) *tensor.Tensor {
		p := x.Split(0, 2, 3)
		return tensor.Concat(0, p[1].Square(), p[0])
	}),
	one("chunk and stack", std(2, 6), func(x *tensor.Tensor) *tensor.Tensor {
		p := x.Chunk(1, 3)
		return tensor.Stack(1, p[2], p[0].Exp(), p[0])
	}),
	one("flip", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.Flip(1) }),
	one("pad", std(2, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.Pad(7, [2]int{1, 2}, [2]int{0, 1}) }),
	one("tril", std(2, 3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Tril(0) }),
	one("triu", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Triu(-1) }),
	one("index_select", std(4, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return x.IndexSelect(0, indices(x, []int{2, 3}, 3, 0, 3, 1, 3, 0))
	}),
	two("index_add", std(4, 3), std(2, 3), func(x, src *tensor.Tensor) *tensor.Tensor {
		return x.IndexAdd(0, indices(x, []int{2}, 2, 2), src).Square()
	}),
	one("gather", std(2, 4), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Gather(1, indices(x, []int{2, 3}, 0, 0, 3, 2, 1, 2))
	}),
	two("scatter_add", std(2, 4), std(2, 3), func(x, src *tensor.Tensor) *tensor.Tensor {
		return x.ScatterAdd(1, indices(x, []int{2, 3}, 0, 0, 3, 2, 1, 2), src).Square()
	}),

	two("matmul", std(2, 3), std(3, 4), (*tensor.Tensor).Matmul),
	two("vector by vector", std(3), std(3), (*tensor.Tensor).Matmul),
	two("vector by matrix", std(3), std(3, 4), (*tensor.Tensor).Matmul),
	two("matrix by vector", std(2, 3), std(3), (*tensor.Tensor).Matmul),
	two("batch by matrix", std(2, 4, 3), std(3, 5), (*tensor.Tensor).Matmul),
	two("matrix by batch", std(4, 3), std(2, 3, 2), (*tensor.Tensor).Matmul),
	two("two batches by matrix", std(2, 2, 4, 3), std(3, 2), (*tensor.Tensor).Matmul),
	two("batches that broadcast", std(2, 1, 4, 3), std(3, 3, 2), (*tensor.Tensor).Matmul),
	two("batch in groups", std(2, 2, 3, 2, 3), std(2, 2, 1, 3, 2), (*tensor.Tensor).Matmul),
	two("right transposed", std(2, 3, 4), std(5, 4), func(a, b *tensor.Tensor) *tensor.Tensor { return a.Matmul(b.T()) }),
	two("left transposed", std(2, 4, 3), std(2, 4, 2), func(a, b *tensor.Tensor) *tensor.Tensor { return a.T().Matmul(b) }),
	two("both transposed", std(4, 3), std(2, 4), func(a, b *tensor.Tensor) *tensor.Tensor { return a.T().Matmul(b.T()) }),
	two("batch of nothing by matrix", std(2, 0, 3), std(3, 2), (*tensor.Tensor).Matmul),

	one("softmax", std(2, 3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.Softmax(1) }),
	one("log_softmax", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(-1) }),
	one("causal softmax", std(2, 3, 5), func(x *tensor.Tensor) *tensor.Tensor { return x.CausalSoftmax(0.7) }),
	one("layer_norm", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.LayerNorm(nil, nil, 1e-5, 1) }),
	two("layer_norm with weight", std(3, 4), pos(4), func(x, w *tensor.Tensor) *tensor.Tensor { return x.LayerNorm(w, nil, 1e-5, 1) }),
	{"layer_norm with bias, two dims", []in{std(2, 3, 4), pos(3, 4), std(3, 4)}, func(x []*tensor.Tensor) *tensor.Tensor {
		return x[0].LayerNorm(x[1], x[2], 1e-5, 2)
	}},
	one("rms_norm", std(3, 4), func(x *tensor.Tensor) *tensor.Tensor { return x.RMSNorm(nil, 1e-6) }),
	two("rms_norm with weight", std(2, 3, 4), pos(4), func(x, w *tensor.Tensor) *tensor.Tensor { return x.RMSNorm(w, 1e-6) }),
	{"rope", []in{std(2, 3, 4), std(3, 2), std(3, 2)}, func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Rope(x[1], x[2]) }},
	{"rope back", []in{std(2, 3, 4), std(3, 2), std(3, 2)}, func(x []*tensor.Tensor) *tensor.Tensor {
		return x[0].Session().Apply(tensor.OpRope, []int64{1}, tensor.T(x[0]), tensor.T(x[1]), tensor.T(x[2]))
	}},
	one("cross_entropy", std(4, 3), func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(indices(x, []int{4}, 2, 0, -7, 1), -7) }),
	two("conv2d", std(2, 2, 5, 4), std(3, 2, 3, 2), func(x, w *tensor.Tensor) *tensor.Tensor { return x.Conv2D(w, nil, conv{}) }),
	{"conv2d with everything", []in{std(1, 4, 6, 5), std(6, 2, 2, 3), std(6)}, func(x []*tensor.Tensor) *tensor.Tensor {
		return x[0].Conv2D(x[1], x[2], conv{Stride: [2]int{2, 1}, Pad: [2]int{1, 2}, Dilation: [2]int{2, 1}, Groups: 2})
	}},
	one("max_pool2d", distinct(1, 2, 4, 5), func(x *tensor.Tensor) *tensor.Tensor { return x.MaxPool2D(3, 2, 1) }),
	one("avg_pool2d", std(1, 2, 4, 5), func(x *tensor.Tensor) *tensor.Tensor { return x.AvgPool2D(3, 1, 1) }),

	{"attention in groups", []in{std(1, 4, 3, 2), std(1, 2, 3, 2), std(1, 2, 3, 2)}, func(x []*tensor.Tensor) *tensor.Tensor {
		return tensor.Attention(x[0], x[1], x[2], 0.7, true)
	}},
	{"attention that sees all", []in{std(2, 2, 3, 2), std(2, 2, 4, 2), std(2, 2, 4, 2)}, func(x []*tensor.Tensor) *tensor.Tensor {
		return tensor.Attention(x[0], x[1], x[2], 0.7, false)
	}},
	one("a tied table", std(4, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return x.IndexSelect(0, indices(x, []int{5}, 1, 3, 1, 1, 0)).Tanh().Matmul(x.T())
	}),
	one("a tied table that was computed", std(4, 3), func(x *tensor.Tensor) *tensor.Tensor {
		h := x.Sin()
		return h.IndexSelect(0, indices(x, []int{5}, 1, 3, 1, 1, 0)).Tanh().Matmul(h.T())
	}),
	two("two ways to one leaf", std(3, 3), std(3), func(x, b *tensor.Tensor) *tensor.Tensor {
		h := x.Matmul(x).Add(b).Tanh()
		return h.Mul(x).Add(h.Matmul(x.T())).Sub(b.Mul(b))
	}),
	two("a softmax by hand", std(3, 4), std(4), func(x, b *tensor.Tensor) *tensor.Tensor {
		e := x.Sub(x.MaxKeep(1).Detach()).Exp()
		return e.Div(e.SumKeep(1)).Mul(b)
	}),
}

// loss returns sum(out*weights) with fixed weights, so that no symmetry hides an error.
func loss(out *tensor.Tensor, name string) *tensor.Tensor {
	if out.Err() != nil {
		return out
	}
	w := std(out.Shape()...).make(name + "/weights")
	return out.Mul(tensor.From(out.Session(), w, out.Shape()...)).Sum()
}

func (c *numericCase) inputs(s *tensor.Session) (xs []*tensor.Tensor, values [][]float64) {
	for i, in := range c.in {
		v := in.make(fmt.Sprintf("%s/%d", c.name, i))
		values = append(values, v)
		xs = append(xs, tensor.From(s, v, in.shape...).RequireGrad())
	}
	return xs, values
}

// at returns the value of the loss for the given inputs.
func (c *numericCase) at(t testing.TB, s *tensor.Session, values [][]float64) float64 {
	t.Helper()
	var l *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) {
		var xs []*tensor.Tensor
		for i, v := range values {
			xs = append(xs, tensor.From(s, v, c.in[i].shape...))
		}
		l = sc.Keep(loss(c.f(xs), c.name))
	})
	defer l.Free()
	x, err := l.Item()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestNumeric compares the gradient of every operation with central differences in double
// precision.
func TestNumeric(t *testing.T) { devicetest.Each(t, testNumeric) }

func testNumeric(t *devicetest.T) {
	seen := map[tensor.Op]bool{}
	for _, c := range numericCases {
		t.Run(c.name, func(t *devicetest.T) {
			s := newSession(t)
			xs, values := c.inputs(s)
			l := loss(c.f(xs), c.name)
			collect(l.Node(), seen)
			grads, err := autograd.Grad(l, xs...)
			if err != nil {
				t.Fatal(err)
			}
			step, tol := 1e-5, 1e-8
			if c.name == "cast" { // differences of numbers rounded to f32
				step, tol = 0.25, 1e-5
			}
			for i, g := range grads {
				if !g.Shape().Equal(xs[i].Shape()) || g.DType() != xs[i].DType() {
					t.Fatalf("gradient %d is %v, its input %v", i, g, xs[i])
				}
				got, err := tensor.Data[float64](g)
				if err != nil {
					t.Fatal(err)
				}
				for k, x := range values[i] {
					values[i][k] = x + step
					hi := c.at(t, s, values)
					values[i][k] = x - step
					lo := c.at(t, s, values)
					values[i][k] = x
					if want := (hi - lo) / (2 * step); !(math.Abs(got[k]-want) <= tol*(1+math.Abs(want))) {
						t.Errorf("input %d, element %d: %v, expected %v", i, k, got[k], want)
					}
				}
			}
		})
	}
	for _, op := range tensor.Ops() {
		if op.Info().Gradient == tensor.Differentiable && !seen[op] {
			t.Errorf("no case differentiates %v", op)
		}
	}
}

func collect(n *tensor.Node, seen map[tensor.Op]bool) {
	if n == nil {
		return
	}
	seen[n.Op] = true
	for i := range n.In {
		collect(n.In[i].Node, seen)
	}
}

// twice lists the cases that CreateGraph promises to differentiate again.
var twice = map[string]bool{
	"exp": true, "log": true, "sqrt": true, "rsqrt": true, "recip": true, "square": true, "sin": true, "cos": true, "tanh": true,
	"sigmoid": true, "relu": true, "gelu": true, "gelu tanh": true, "silu": true, "erf": true, "mul, broadcast": true, "div": true,
	"pow": true, "scalars on the right": true, "scalars on the left": true, "powers": true, "sum": true, "mean over the last": true,
	"cumsum along the first": true, "permute": true, "reshape": true, "slice backwards": true, "split and concat": true, "index_add": true,
	"scatter_add": true, "batch by matrix": true, "right transposed": true, "softmax": true, "log_softmax": true, "causal softmax": true,
	"attention in groups": true, "two ways to one leaf": true, "a softmax by hand": true, "variance": true,
}

// TestTwice compares the gradients of gradients with central differences of the gradient.
func TestTwice(t *testing.T) { devicetest.Each(t, testTwice) }

func testTwice(t *devicetest.T) {
	known := 0
	for _, c := range numericCases {
		if twice[c.name] {
			known++
		}
	}
	if known != len(twice) {
		t.Fatalf("%d of %d names are cases", known, len(twice))
	}
	for _, c := range numericCases {
		if !twice[c.name] {
			continue
		}
		t.Run(c.name, func(t *devicetest.T) {
			s := newSession(t)
			// penalty returns a function of the first gradients: sum over inputs of
			// sum(g*g)/2 + sum(g).
			penalty := func(values [][]float64, create bool) (p *tensor.Tensor, xs []*tensor.Tensor) {
				for i, v := range values {
					xs = append(xs, tensor.From(s, v, c.in[i].shape...).RequireGrad())
				}
				grads, err := autograd.GradWith(&autograd.Options{CreateGraph: create}, loss(c.f(xs), c.name), xs...)
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range grads {
					q := g.Square().Sum().MulS(0.5).Add(g.Sum())
					if p != nil {
						q = p.Add(q)
					}
					p = q
				}
				return p, xs
			}
			_, values := c.inputs(s)
			p, xs := penalty(values, true)
			grads, err := autograd.GradWith(&autograd.Options{Zeros: true}, p.Add(xs[0].Sum().MulS(0)), xs...)
			if err != nil {
				t.Fatal(err)
			}
			item := func() float64 {
				p, _ := penalty(values, false)
				x, err := p.Item()
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			const step = 1e-5
			for i, g := range grads {
				got, err := tensor.Data[float64](g)
				if err != nil {
					t.Fatal(err)
				}
				for k, x := range values[i] {
					values[i][k] = x + step
					hi := item()
					values[i][k] = x - step
					lo := item()
					values[i][k] = x
					if want := (hi - lo) / (2 * step); !(math.Abs(got[k]-want) <= 1e-7*(1+math.Abs(want))) {
						t.Errorf("input %d, element %d: %v, expected %v", i, k, got[k], want)
					}
				}
			}
		})
	}
}
