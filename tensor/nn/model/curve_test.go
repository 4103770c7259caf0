package model

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

func newSession(t *devicetest.T) *tensor.Session {
	t.Helper()
	return t.Session(nil)
}

// digest is the sum and the Euclidean norm of a tensor.
type digest struct{ Sum, Norm float64 }

// curve is a file of a golden training; testdata/curves.py describes its content.
type curve struct {
	Config    map[string]float64
	Optimizer struct {
		LR          float64
		Beta1       float64
		Beta2       float64
		Eps         float64
		WeightDecay float64 `json:"weight_decay"`
	}
	Steps  int
	Params []struct {
		Name          string
		Shape         []int
		Offset, Scale float32
		Grad, Final   digest
	}
	Loss    []float64
	LossF32 []float64 `json:"loss_f32"`
}

func loadCurve(t testing.TB, name string) *curve {
	t.Helper()
	b, err := os.ReadFile("../../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var c curve
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Loss) != c.Steps || c.Steps == 0 || len(c.Params) == 0 {
		t.Fatalf("%s: %d losses of %d steps, %d parameters", name, len(c.Loss), c.Steps, len(c.Params))
	}
	return &c
}

func (c *curve) int(name string) int { return int(c.Config[name]) }

// network is the interface of both models.
type network interface {
	nn.Module
	Loss(x, y *tensor.Tensor) *tensor.Tensor
}

// tolerance is the relative error within which a curve is followed. PyTorch's f32 stays
// within 4e-6.
const tolerance = 1e-3

// follow trains as the file did and compares losses, first gradients and final
// parameters. rename maps the file's names of parameters to the model's.
func (c *curve) follow(t testing.TB, s *tensor.Session, m network, rename *strings.Replacer, batch func(k int) (x, y *tensor.Tensor)) {
	t.Helper()
	byName := map[string]int{}
	for i, p := range c.Params {
		byName[rename.Replace(p.Name)] = i
	}
	params := m.Params()
	if len(params) != len(c.Params) {
		t.Errorf("the model has %d parameters, the file %d", len(params), len(c.Params))
	}
	for _, p := range params {
		i, ok := byName[p.Name]
		if !ok {
			t.Fatalf("the file has no parameter %s", p.Name)
		}
		g := c.Params[i]
		v := make([]float32, p.T.Elems())
		data.FillUniform(v, g.Name, g.Offset, g.Scale)
		if err := p.T.Assign(tensor.From(s, v, g.Shape...)); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
	o := c.Optimizer
	opt := optim.NewAdamW(params, optim.AdamWOptions{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, Decay: o.WeightDecay})
	leaves := nn.Tensors(params)
	worst := 0.0
	for step := range c.Steps {
		var loss *tensor.Tensor
		var first []*tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			loss = sc.Keep(m.Loss(batch(step % c.int("batches"))))
			grads, err := autograd.Grad(loss, leaves...)
			if err != nil {
				t.Fatal(err)
			}
			if step == 0 {
				for _, g := range grads {
					first = append(first, sc.Keep(g))
				}
			}
			if err := opt.Step(grads); err != nil {
				t.Fatal(err)
			}
		})
		got, err := loss.Item()
		if err != nil {
			t.Fatal(err)
		}
		loss.Free()
		off := math.Abs(got-c.Loss[step]) / c.Loss[step]
		if worst = max(worst, off); !(off <= tolerance) {
			t.Fatalf("step %d: loss %v, expected %v", step, got, c.Loss[step])
		}
		for i, g := range first {
			compare(t, "gradient of "+params[i].Name, g, c.Params[byName[params[i].Name]].Grad)
			g.Free()
		}
	}
	for _, p := range params {
		compare(t, p.Name, p.T, c.Params[byName[p.Name]].Final)
	}
	t.Logf("the loss is off by at most %.1e", worst)
}

func compare(t testing.TB, what string, x *tensor.Tensor, want digest) {
	t.Helper()
	v, err := tensor.Data[float32](x)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var sum, squares float64
	for _, e := range v {
		sum += float64(e)
		squares += float64(e) * float64(e)
	}
	// A sum may be zero up to rounding, so the norm scales the tolerance of both.
	if norm := math.Sqrt(squares); !(math.Abs(norm-want.Norm) <= tolerance*want.Norm) ||
		!(math.Abs(sum-want.Sum) <= tolerance*want.Norm*math.Sqrt(float64(len(v)))) {
		t.Errorf("%s: sum %v and norm %v, expected %v and %v", what, sum, norm, want.Sum, want.Norm)
	}
}

func TestCurveMLP(t *testing.T) { devicetest.Each(t, testCurveMLP) }

func testCurveMLP(t *devicetest.T) {
	c := loadCurve(t, "curve_mlp.json")
	s := newSession(t)
	m, err := NewMLP(s, c.int("inputs"), c.int("hidden"), c.int("classes"))
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, c.int("batch")*c.int("inputs")), make([]int64, c.int("batch"))
	c.follow(t, s, m, strings.NewReplacer(), func(k int) (*tensor.Tensor, *tensor.Tensor) {
		data.FillUniform(x, fmt.Sprintf("x.%d", k), 0, 1)
		data.FillIndices(y, fmt.Sprintf("y.%d", k), uint64(c.int("classes")))
		return tensor.From(s, x, c.int("batch"), c.int("inputs")), tensor.From(s, y)
	})
}

func TestCurveQwen3(t *testing.T) { devicetest.Each(t, testCurveQwen3) }

func testCurveQwen3(t *devicetest.T) {
	c := loadCurve(t, "curve_qwen.json")
	s := newSession(t)
	m, err := NewQwen3(s, Qwen3Config{
		Vocab: c.int("vocab"), Hidden: c.int("hidden"), Layers: c.int("layers"), Heads: c.int("heads"), KVHeads: c.int("kv_heads"),
		HeadDim: c.int("head_dim"), FFN: c.int("ffn"), Context: c.int("seq"), Theta: c.Config["rope_theta"], Eps: c.Config["rms_eps"], Tied: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	rename := strings.NewReplacer(
		"embed.", "model.embed_tokens.", "layers.", "model.layers.", "attn_norm.", "input_layernorm.", "mlp_norm.", "post_attention_layernorm.",
		"attn.q.", "self_attn.q_proj.", "attn.k.", "self_attn.k_proj.", "attn.v.", "self_attn.v_proj.", "attn.o.", "self_attn.o_proj.",
		"attn.q_norm.", "self_attn.q_norm.", "attn.k_norm.", "self_attn.k_norm.", "mlp.gate.", "mlp.gate_proj.", "mlp.up.", "mlp.up_proj.",
		"mlp.down.", "mlp.down_proj.", "norm.weight", "model.norm.weight",
	)
	c.follow(t, s, m, rename, c.text(s))
}

func TestCurveGPT(t *testing.T) { devicetest.Each(t, testCurveGPT) }

func testCurveGPT(t *devicetest.T) {
	c := loadCurve(t, "curve_gpt.json")
	s := newSession(t)
	m, err := NewGPT(s, GPTConfig{Vocab: c.int("vocab"), Hidden: c.int("hidden"), Layers: c.int("layers"), Heads: c.int("heads"), Context: c.int("seq")})
	if err != nil {
		t.Fatal(err)
	}
	c.follow(t, s, m, strings.NewReplacer(), c.text(s))
}

// text returns the batches of a model of tokens.
func (c *curve) text(s *tensor.Session) func(k int) (x, y *tensor.Tensor) {
	b, n := c.int("batch"), c.int("seq")
	tokens := make([]int64, b*(n+1))
	return func(k int) (x, y *tensor.Tensor) {
		data.FillIndices(tokens, fmt.Sprintf("tokens.%d", k), uint64(c.int("vocab")))
		all := tensor.From(s, tokens, b, n+1)
		return all.Narrow(1, 0, n), all.Narrow(1, 1, n)
	}
}
