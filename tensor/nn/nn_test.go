package nn_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

func newSession(t *devicetest.T, seed uint64) *tensor.Session {
	t.Helper()
	return t.Session(&tensor.SessionOptions{Seed: seed})
}

func read(t testing.TB, x *tensor.Tensor) []float32 {
	t.Helper()
	v, err := tensor.Data[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func near(t testing.TB, what string, got []float32, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, expected %v", what, got, want)
	}
	for i, x := range want {
		if !(math.Abs(float64(got[i])-x) <= 1e-6*(1+math.Abs(x))) {
			t.Errorf("%s: element %d is %v, expected %v", what, i, got[i], x)
		}
	}
}

func names(ps []tensor.Named) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Name)
	}
	return out
}

func TestLinear(t *testing.T) { devicetest.Each(t, testLinear) }

func testLinear(t *devicetest.T) {
	s := newSession(t, 1)
	l := nn.NewLinear(s, 3, 2, true)
	for _, p := range l.Params() {
		if !p.T.RequiresGrad() {
			t.Errorf("%s requires no gradient", p.Name)
		}
	}
	if err := l.Weight.Assign(tensor.From(s, []float32{1, 2, 3, 4, 5, 6}, 2, 3)); err != nil {
		t.Fatal(err)
	}
	if err := l.Bias.Assign(tensor.From(s, []float32{10, 20})); err != nil {
		t.Fatal(err)
	}
	near(t, "x W' + b", read(t, l.Forward(tensor.From(s, []float32{1, 0, -1, 1, 1, 1}, 1, 2, 3))), 8, 18, 16, 35)
	if n := len(nn.NewLinear(s, 3, 2, false).Params()); n != 1 {
		t.Errorf("%d parameters without a bias", n)
	}
}

// TestInitialisation: weights fill PyTorch's bounds, and equal seeds give equal weights.
func TestInitialisation(t *testing.T) { devicetest.Each(t, testInitialisation) }

func testInitialisation(t *devicetest.T) {
	make := func(seed uint64) []tensor.Named {
		s := newSession(t, seed)
		return slices.Concat(
			nn.Prefix("linear", nn.NewLinear(s, 64, 100, true).Params()),
			nn.Prefix("conv", nn.NewConv2D(s, 4, 20, 4, true, tensor.ConvOptions{Groups: 2}).Params()),
			nn.Prefix("embedding", nn.NewEmbedding(s, 100, 64).Params()),
			nn.Prefix("layer_norm", nn.NewLayerNorm(s, 5).Params()),
			nn.Prefix("rms_norm", nn.NewRMSNorm(s, 5, 1e-6).Params()),
		)
	}
	a, b, c := make(1), make(1), make(2)
	for i, p := range a {
		v := read(t, p.T)
		if !slices.Equal(v, read(t, b[i].T)) {
			t.Errorf("%s: the same seed gives other weights", p.Name)
		}
		bound := 0.0
		switch p.Name {
		case "linear.weight", "linear.bias":
			bound = 1.0 / 8
		case "conv.weight", "conv.bias":
			bound = 1 / math.Sqrt(2*4*4)
		case "embedding.weight":
			var sum, squares float64
			for _, x := range v {
				sum += float64(x)
				squares += float64(x) * float64(x)
			}
			if n := float64(len(v)); math.Abs(sum/n) > 0.05 || math.Abs(squares/n-1) > 0.1 {
				t.Errorf("%s: mean %v, variance %v", p.Name, sum/n, squares/n)
			}
		}
		if bound > 0 {
			lo, hi := float64(slices.Min(v)), float64(slices.Max(v))
			if lo < -bound || hi >= bound || lo > -0.7*bound || hi < 0.7*bound {
				t.Errorf("%s: %v to %v, expected most of ±%v", p.Name, lo, hi, bound)
			}
		}
		if bound > 0 || p.Name == "embedding.weight" {
			if slices.Equal(v, read(t, c[i].T)) {
				t.Errorf("%s: another seed gives the same weights", p.Name)
			}
		}
	}
	near(t, "layer_norm.weight", read(t, a[5].T), 1, 1, 1, 1, 1)
	near(t, "layer_norm.bias", read(t, a[6].T), 0, 0, 0, 0, 0)
}

func TestNames(t *testing.T) { devicetest.Each(t, testNames) }

func testNames(t *devicetest.T) {
	s := newSession(t, 1)
	net := nn.Sequential{
		nn.NewConv2D(s, 1, 2, 3, true, tensor.ConvOptions{}), nn.ReLU(), nn.Flatten(),
		nn.NewMLP(s, 8, 4, 4, nn.Tanh()), nn.NewDropout(0.5), nn.NewLayerNorm(s, 4),
		nn.Sequential{nn.NewRMSNorm(s, 4, 1e-6), nn.NewLinear(s, 4, 2, false)},
	}
	want := []string{"0.weight", "0.bias", "3.fc1.weight", "3.fc1.bias", "3.fc2.weight", "3.fc2.bias",
		"5.weight", "5.bias", "6.0.weight", "6.1.weight"}
	if got := names(net.Params()); !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	if n := nn.Count(net.Params()); n != 2*9+2+4*8+4+4*4+4+4+4+4+8 {
		t.Errorf("%d elements", n)
	}
	a := nn.NewAttention(s, nn.AttentionConfig{Hidden: 8, Heads: 2, QKNorm: true, Bias: true}, nil)
	want = []string{"q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias",
		"o_proj.weight", "o_proj.bias", "q_norm.weight", "k_norm.weight"}
	if got := names(a.Params()); !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

func TestDropout(t *testing.T) { devicetest.Each(t, testDropout) }

func testDropout(t *devicetest.T) {
	s := newSession(t, 1)
	d := nn.NewDropout(0.25)
	net := nn.Sequential{nn.Sequential{d}}
	x := tensor.Ones(s, tensor.F32, 10000)
	a, b := read(t, net.Forward(x)), read(t, net.Forward(x))
	zeros := 0
	for _, v := range a {
		if v == 0 {
			zeros++
		} else if math.Abs(float64(v)-1/0.75) > 1e-6 {
			t.Fatalf("an element that was kept is %v", v)
		}
	}
	if zeros < 2200 || zeros > 2800 {
		t.Errorf("%d of 10000 dropped, expected about 2500", zeros)
	}
	if slices.Equal(a, b) {
		t.Error("two passes have the same mask")
	}
	nn.SetTraining(false, net)
	if net.Forward(x) != x {
		t.Error("it drops outside of training")
	}
	nn.SetTraining(true, net)
	if net.Forward(x) == x {
		t.Error("it doesn't drop in training again")
	}
}

func TestLosses(t *testing.T) { devicetest.Each(t, testLosses) }

func testLosses(t *devicetest.T) {
	s := newSession(t, 1)
	x := tensor.From(s, []float32{1, 2, 4}).RequireGrad()
	near(t, "mse", read(t, nn.MSE(x, tensor.From(s, []float32{1, 0, 1}))), 13.0/3)
	half := tensor.From(s, []float32{320, 0, 0, 0}).Cast(tensor.F16)
	near(t, "mse of f16 whose squares overflow", read(t, nn.MSE(half, half.MulS(0)).Cast(tensor.F32)), 25600)
	half = tensor.From(s, []float32{60000, 60000}).Cast(tensor.F16)
	near(t, "bce of f16", read(t, nn.BCEWithLogits(half, half.MulS(0)).Cast(tensor.F32)), 60000)
	if l := nn.MSE(half, half); l.DType() != tensor.F16 {
		t.Errorf("mse of f16 is %v", l.DType())
	}
	near(t, "mse beside one number", read(t, nn.MSE(x, tensor.From(s, []float32{1}))), 10.0/3)
	for name, loss := range map[string]func(x, target *tensor.Tensor) *tensor.Tensor{"mse": nn.MSE, "bce": nn.BCEWithLogits} {
		own := newSession(t, 1)
		x := tensor.From(own, []float32{1, 2, 4})
		if err := loss(x.Reshape(3, 1), x).Err(); !errors.Is(err, tensor.ErrShape) {
			t.Errorf("%s of [3, 1] and [3]: %v, expected an error, since it would be of [3, 3]", name, err)
		}
	}

	logits := tensor.From(s, []float32{0, 2, -100, 100, -100, 100}).RequireGrad()
	target := tensor.From(s, []float32{1, 0, 0, 1, 1, 0})
	loss := nn.BCEWithLogits(logits, target)
	near(t, "bce", read(t, loss), (math.Ln2+math.Log(1+math.Exp(2))+200)/6)
	g, err := autograd.Grad(loss, logits)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "gradient of bce", read(t, g[0]), -0.5/6, 1/(1+math.Exp(-2))/6, 0, 0, -1.0/6, 1.0/6)

	rows := tensor.From(s, []float32{0, 0, 1, 1, 5, 5}, 3, 2)
	near(t, "cross-entropy", read(t, nn.CrossEntropy(rows, tensor.From(s, []int64{0, nn.Ignored, 1}))), math.Ln2)
}

// TestZeroLayers: a layer without weights is an error, not a panic.
func TestZeroLayers(t *testing.T) { devicetest.Each(t, testZeroLayers) }

func testZeroLayers(t *devicetest.T) {
	s := newSession(t, 1)
	x := tensor.Zeros(s, tensor.F32, 2, 2)
	for name, y := range map[string]*tensor.Tensor{
		"linear": new(nn.Linear).Forward(x), "with a bias": (&nn.Linear{Bias: x}).Forward(x),
		"embedding": new(nn.Embedding).Forward(x), "convolution": x.Conv2D(nil, nil, tensor.ConvOptions{}),
	} {
		if err := y.Err(); !errors.Is(err, tensor.ErrNil) || !strings.Contains(err.Error(), "nn_test.go") {
			t.Errorf("%s: %v, expected ErrNil and where", name, err)
		}
	}
}

// TestAttention: attention with as many heads of keys as of queries equals grouped
// attention with repeated keys and values. A later token changes no earlier result if
// attention is causal, and all results if it isn't.
func TestAttention(t *testing.T) { devicetest.Each(t, testAttention) }

func testAttention(t *devicetest.T) {
	s := newSession(t, 3)
	const hidden, heads, kv, n, dim = 12, 4, 2, 5, 4
	rotary := nn.NewRotary(s, 9, dim, 1e4)
	c := nn.AttentionConfig{Hidden: hidden, Heads: heads, KVHeads: kv, HeadDim: dim, QKNorm: true, Eps: 1e-6, Causal: true}
	grouped := nn.NewAttention(s, c, rotary)
	c.KVHeads = 0
	full := nn.NewAttention(s, c, rotary)
	repeat := func(w *tensor.Tensor) *tensor.Tensor {
		return w.Reshape(kv, 1, dim, hidden).Expand(kv, heads/kv, dim, hidden).Reshape(heads*dim, hidden).Detach()
	}
	s.NoGrad(func() {
		for _, p := range [][2]*tensor.Tensor{
			{full.Q.Weight, grouped.Q.Weight.Detach()}, {full.O.Weight, grouped.O.Weight.Detach()},
			{full.K.Weight, repeat(grouped.K.Weight)}, {full.V.Weight, repeat(grouped.V.Weight)},
		} {
			if err := p[0].Assign(p[1]); err != nil {
				t.Fatal(err)
			}
		}
	})
	x := tensor.RandN(s, tensor.F32, 2, n, hidden)
	a, b := read(t, grouped.Forward(x)), read(t, full.Forward(x))
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-5 {
			t.Fatalf("element %d: %v in groups, %v with all heads", i, a[i], b[i])
		}
	}
	other := tensor.Concat(1, x.Narrow(1, 0, n-1), tensor.RandN(s, tensor.F32, 2, 1, hidden))
	d := read(t, grouped.Forward(other))
	for i := range a {
		if last := i/hidden%n == n-1; (a[i] == d[i]) == last {
			t.Fatalf("element %d: %v and %v after another last token", i, a[i], d[i])
		}
	}
	grouped.Causal = false
	a, d = read(t, grouped.Forward(x)), read(t, grouped.Forward(other))
	for i := range a {
		if a[i] == d[i] {
			t.Fatalf("element %d doesn't see the last token", i)
		}
	}
}

// TestRotary: scores depend only on the distance of two positions.
func TestRotary(t *testing.T) { devicetest.Each(t, testRotary) }

func testRotary(t *devicetest.T) {
	s := newSession(t, 1)
	const n, dim = 6, 8
	r := nn.NewRotary(s, n, dim, 100)
	q, k := tensor.RandN(s, tensor.F32, 1, dim).Expand(n, dim), tensor.RandN(s, tensor.F32, 1, dim).Expand(n, dim)
	score := read(t, r.Turn(q).Matmul(r.Turn(k).T()))
	for i := 1; i < n; i++ {
		for j := 1; j < n; j++ {
			if a, b := score[i*n+j], score[(i-1)*n+j-1]; math.Abs(float64(a-b)) > 1e-4 {
				t.Errorf("positions %d, %d: %v, one earlier: %v", i, j, a, b)
			}
		}
	}
	if math.Abs(float64(score[0]-score[n-1])) < 1e-3 {
		t.Error("the distance makes no difference")
	}
	near(t, "a longer sequence's first rows", read(t, r.Turn(q.Narrow(0, 0, 2))), float64s(read(t, r.Turn(q))[:2*dim])...)
	if y := r.Turn(tensor.Zeros(s, tensor.F32, n+1, dim)); y.Err() == nil {
		t.Error("a sequence beyond the table is accepted")
	}
}

func float64s(x []float32) []float64 {
	var out []float64
	for _, v := range x {
		out = append(out, float64(v))
	}
	return out
}

func TestGradsOfParams(t *testing.T) { devicetest.Each(t, testGradsOfParams) }

func testGradsOfParams(t *devicetest.T) {
	s := newSession(t, 1)
	l := nn.NewLinear(s, 2, 1, true)
	ps := l.Params()
	if g := nn.Grads(ps); g[0] != nil || g[1] != nil {
		t.Error("gradients before Backward")
	}
	if err := autograd.Backward(l.Forward(tensor.From(s, []float32{3, 4}, 1, 2)).Sum()); err != nil {
		t.Fatal(err)
	}
	near(t, "gradient of the weight", read(t, nn.Grads(ps)[0]), 3, 4)
	near(t, "gradient of the bias", read(t, nn.Grads(ps)[1]), 1)
	nn.ZeroGrad(ps)
	if g := nn.Grads(ps); g[0] != nil || g[1] != nil {
		t.Error("gradients after ZeroGrad")
	}
}

// TestXOR: a network with two layers learns XOR.
func TestXOR(t *testing.T) { devicetest.Each(t, testXOR) }

func testXOR(t *devicetest.T) {
	const steps = 2000
	s := newSession(t, 7)
	net := nn.Sequential{nn.NewLinear(s, 2, 8, true), nn.Tanh(), nn.NewLinear(s, 8, 1, true)}
	x := tensor.From(s, []float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2)
	y := tensor.From(s, []float32{0, 1, 1, 0}, 4, 1)
	opt := optim.NewSGD(net.Params(), optim.SGDOptions{LR: 0.5, Momentum: 0.5})
	leaves := nn.Tensors(net.Params())
	for range steps {
		s.Scope(func(*tensor.Scope) {
			g, err := autograd.Grad(nn.BCEWithLogits(net.Forward(x), y), leaves...)
			if err != nil {
				t.Fatal(err)
			}
			if err := opt.Step(g); err != nil {
				t.Fatal(err)
			}
		})
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	p := read(t, net.Forward(x).Sigmoid())
	for i, want := range []float32{0, 1, 1, 0} {
		if math.Abs(float64(p[i]-want)) > 0.05 {
			t.Errorf("input %d: %v, expected %v", i, p[i], want)
		}
	}
}

// TestFormulas compares layers that are a formula with the formula.
func TestFormulas(t *testing.T) { devicetest.Each(t, testFormulas) }

func testFormulas(t *devicetest.T) {
	s := newSession(t, 5)
	x := tensor.From(s, []float32{1, -2, 3, -4}, 2, 2)
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	gelu := func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }
	for _, c := range []struct {
		name  string
		layer nn.Layer
		f     func(float64) float64
	}{
		{"relu", nn.ReLU(), func(x float64) float64 { return max(x, 0) }}, {"silu", nn.SiLU(), silu}, {"sigmoid", nn.Sigmoid(), sigmoid},
		{"tanh", nn.Tanh(), math.Tanh}, {"gelu", nn.GELU(), gelu},
	} {
		near(t, c.name, read(t, c.layer.Forward(x)), c.f(1), c.f(-2), c.f(3), c.f(-4))
		if len(c.layer.Params()) != 0 {
			t.Errorf("%s has parameters", c.name)
		}
	}

	l := nn.NewSwiGLU(s, 1, 1)
	g, u, d := float64(read(t, l.Gate.Weight)[0]), float64(read(t, l.Up.Weight)[0]), float64(read(t, l.Down.Weight)[0])
	near(t, "swiglu", read(t, l.Forward(tensor.From(s, []float32{2}, 1, 1))), d*silu(2*g)*2*u)
	if got := names(l.Params()); !slices.Equal(got, []string{"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
		t.Errorf("swiglu has %v", got)
	}

	m := nn.NewMLP(s, 1, 1, 1, nil)
	w1, b1, w2, b2 := m.In.Weight, m.In.Bias, m.Out.Weight, m.Out.Bias
	v := func(x *tensor.Tensor) float64 { return float64(read(t, x)[0]) }
	near(t, "mlp", read(t, m.Forward(tensor.From(s, []float32{2}, 1, 1))), v(w2)*gelu(2*v(w1)+v(b1))+v(b2))

	image := tensor.Arange(s, tensor.F32, 0, 1, 16).Reshape(1, 1, 4, 4)
	near(t, "max pool", read(t, nn.MaxPool2D(2, 0, 0)(image)), 5, 7, 13, 15)
	near(t, "avg pool", read(t, nn.AvgPool2D(2, 0, 0)(image)), 2.5, 4.5, 10.5, 12.5)
	if y := nn.Flatten()(image); !y.Shape().Equal(tensor.Shape{1, 16}) {
		t.Errorf("flattened to %v", y)
	}
	near(t, "layer norm", read(t, nn.NewLayerNorm(s, 2).Forward(tensor.From(s, []float32{1, 3}))), -1/math.Sqrt(1+1e-5), 1/math.Sqrt(1+1e-5))
	near(t, "rms norm", read(t, nn.NewRMSNorm(s, 2, 0).Forward(tensor.From(s, []float32{3, 4}))), 3/math.Sqrt(12.5), 4/math.Sqrt(12.5))
}
