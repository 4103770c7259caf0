package model

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// spy keeps the hashes of programs and counts fetched values.
type spy struct {
	tensor.Engine
	hashes  []tensor.Hash
	fetched int
}

func (e *spy) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		e.hashes = append(e.hashes, b.Hash)
	}
	e.fetched += len(b.Fetch)
	return e.Engine.Submit(ctx, b)
}

func spied(t *devicetest.T) (*tensor.Session, *spy) {
	t.Helper()
	e := &spy{Engine: device.NewEngine(t.Device())}
	s := tensor.NewSession(e, nil)
	t.Cleanup(func() { s.Close() })
	return s, e
}

func tiny(t testing.TB, s *tensor.Session, change func(*Qwen3Config)) *Qwen3 {
	t.Helper()
	c := Qwen3Config{Vocab: 11, Hidden: 8, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 4, FFN: 12, Context: 6, Theta: 1e4, Eps: 1e-6, Tied: true}
	if change != nil {
		change(&c)
	}
	m, err := NewQwen3(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestQwen3Names: names and shapes are those of published files.
func TestQwen3Names(t *testing.T) { devicetest.Each(t, testQwen3Names) }

func testQwen3Names(t *devicetest.T) {
	s := newSession(t)
	m := tiny(t, s, func(c *Qwen3Config) { c.Tied = false; c.Layers = 2 })
	want := map[string]string{
		"model.embed_tokens.weight": "[11 8]", "model.norm.weight": "[8]", "lm_head.weight": "[11 8]",
	}
	for _, l := range []string{"model.layers.0.", "model.layers.1."} {
		for name, shape := range map[string]string{
			"input_layernorm.weight": "[8]", "post_attention_layernorm.weight": "[8]",
			"self_attn.q_proj.weight": "[8 8]", "self_attn.k_proj.weight": "[4 8]", "self_attn.v_proj.weight": "[4 8]",
			"self_attn.o_proj.weight": "[8 8]", "self_attn.q_norm.weight": "[4]", "self_attn.k_norm.weight": "[4]",
			"mlp.gate_proj.weight": "[12 8]", "mlp.up_proj.weight": "[12 8]", "mlp.down_proj.weight": "[8 12]",
		} {
			want[l+name] = shape
		}
	}
	ps := m.Params()
	if len(ps) != len(want) {
		t.Errorf("%d parameters, expected %d", len(ps), len(want))
	}
	for _, p := range ps {
		if got := p.T.Shape().String(); got != want[p.Name] {
			t.Errorf("%s is %s, expected %q", p.Name, got, want[p.Name])
		}
	}
	if tied := tiny(t, s, nil).Params(); strings.HasPrefix(tied[len(tied)-1].Name, "lm_head") {
		t.Error("a tied model has an output layer of its own")
	}
}

func TestConfigs(t *testing.T) { devicetest.Each(t, testConfigs) }

func testConfigs(t *devicetest.T) {
	s := newSession(t)
	for _, c := range []Qwen3Config{Qwen3Tiny(), Qwen3Small()} {
		if _, err := NewQwen3(s, c); err != nil {
			t.Error(err)
		}
	}
	for field, change := range map[string]func(*Qwen3Config){
		"Vocab": func(c *Qwen3Config) { c.Vocab = 0 }, "Hidden": func(c *Qwen3Config) { c.Hidden = -1 }, "Layers": func(c *Qwen3Config) { c.Layers = 0 },
		"Heads": func(c *Qwen3Config) { c.Heads = 0 }, "KVHeads": func(c *Qwen3Config) { c.KVHeads = 3 }, "HeadDim": func(c *Qwen3Config) { c.HeadDim = 15 },
		"FFN": func(c *Qwen3Config) { c.FFN = 0 }, "Context": func(c *Qwen3Config) { c.Context = 0 }, "Theta": func(c *Qwen3Config) { c.Theta = math.NaN() },
		"Eps": func(c *Qwen3Config) { c.Eps = -1 },
	} {
		c := Qwen3Tiny()
		change(&c)
		if _, err := NewQwen3(s, c); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, sizes := range [][]int{nil, {3}, {3, 0}} {
		if _, err := NewMLP(s, sizes...); !errors.Is(err, ErrConfig) {
			t.Errorf("MLP of %v: %v", sizes, err)
		}
	}
	for _, c := range [][3]int{{0, 28, 10}, {1, 10, 10}, {1, 27, 10}, {1, 28, 0}} {
		if _, err := NewCNN(s, c[0], c[1], c[2]); !errors.Is(err, ErrConfig) {
			t.Errorf("CNN of %v: %v", c, err)
		}
	}
}

// TestStepIsOneProgram: a step of every model is one program, the same each time, and
// reads nothing.
func TestStepIsOneProgram(t *testing.T) { devicetest.Each(t, testStepIsOneProgram) }

func testStepIsOneProgram(t *devicetest.T) {
	for name, c := range map[string]struct {
		make  func(s *tensor.Session) (network, error)
		batch func(s *tensor.Session) (x, y *tensor.Tensor)
	}{
		"mlp": {func(s *tensor.Session) (network, error) { return NewMLP(s, 12, 5, 3) }, images},
		"cnn": {func(s *tensor.Session) (network, error) { return NewCNN(s, 1, 12, 3) }, func(s *tensor.Session) (x, y *tensor.Tensor) {
			return tensor.RandN(s, tensor.F32, 2, 1, 12, 12), tensor.From(s, []int32{2, 0})
		}},
		"gpt": {func(s *tensor.Session) (network, error) { return NewGPT(s, GPTTiny()) }, func(s *tensor.Session) (x, y *tensor.Tensor) {
			return tensor.From(s, []int32{1, 2, 3, 4}, 2, 2), tensor.From(s, []int32{2, 3, 4, 5}, 2, 2)
		}},
		"qwen3": {func(s *tensor.Session) (network, error) { return NewQwen3(s, Qwen3Tiny()) }, func(s *tensor.Session) (x, y *tensor.Tensor) {
			return tensor.From(s, []int32{1, 2, 3, 4}, 2, 2), tensor.From(s, []int32{2, 3, 4, 5}, 2, 2)
		}},
	} {
		t.Run(name, func(t *devicetest.T) {
			s, e := spied(t)
			m, err := c.make(s)
			if err != nil {
				t.Fatal(err)
			}
			opt := optim.NewAdamW(m.Params(), optim.AdamWOptions{Decay: 0.1})
			leaves := nn.Tensors(m.Params())
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			live := s.Stats().Live
			before := len(e.hashes)
			const steps = 5
			for n := range steps {
				opt.LR = 0.01 / float64(n+1)
				s.Scope(func(*tensor.Scope) {
					g, err := autograd.Grad(m.Loss(c.batch(s)), leaves...)
					if err != nil {
						t.Fatal(err)
					}
					if err := opt.Step(optim.ClipGradNorm(g, 1)); err != nil {
						t.Fatal(err)
					}
				})
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(e.hashes) - before; n != steps || e.fetched != 0 {
				t.Errorf("%d programs and %d values read in %d steps", n, e.fetched, steps)
			}
			for i := before + 1; i < len(e.hashes); i++ {
				if e.hashes[i] != e.hashes[before] {
					t.Errorf("step %d is another program than the first", i-before)
				}
			}
			if n := s.Stats().Live; n != live {
				t.Errorf("%d values live after the steps, %d before", n, live)
			}
		})
	}
}

func images(s *tensor.Session) (x, y *tensor.Tensor) {
	return tensor.RandN(s, tensor.F32, 2, 1, 3, 4), tensor.From(s, []int32{2, 0})
}

// TestCNNLearns: the network learns to distinguish a few images.
func TestCNNLearns(t *testing.T) { devicetest.Each(t, testCNNLearns) }

func testCNNLearns(t *devicetest.T) {
	s := newSession(t)
	s.Seed(3)
	m, err := NewCNN(s, 1, 12, 4)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.RandN(s, tensor.F32, 8, 1, 12, 12)
	y := tensor.From(s, []int32{0, 1, 2, 3, 0, 1, 2, 3})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	opt := optim.NewAdamW(m.Params(), optim.AdamWOptions{LR: 3e-3})
	for range 100 {
		s.Scope(func(*tensor.Scope) {
			g, err := autograd.Grad(m.Loss(x, y), nn.Tensors(m.Params())...)
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
	loss, err := m.Loss(x, y).Item()
	if err != nil {
		t.Fatal(err)
	}
	right, err := m.Forward(x).Argmax(-1).Eq(y).Cast(tensor.F32).Sum().Item()
	if err != nil {
		t.Fatal(err)
	}
	if right != 8 || !(loss < 0.1) {
		t.Errorf("%v of 8 right, loss %v", right, loss)
	}
}

// TestGenerate: greedy generation takes, token by token, the most likely token of a
// forward pass over the last Context tokens, and sends one program of one form for each
// token.
func TestGenerate(t *testing.T) { devicetest.Each(t, testGenerate) }

func testGenerate(t *devicetest.T) {
	s, e := spied(t)
	for _, tied := range []bool{true, false} {
		m := tiny(t, s, func(c *Qwen3Config) { c.Tied = tied })
		prompt := []int32{3, 1, 4, 1, 5, 9, 2, 6}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		const n = 5
		before := len(e.hashes)
		got, err := m.Generate(context.Background(), prompt, n, Sampling{})
		if err != nil {
			t.Fatal(err)
		}
		sent := e.hashes[before:]
		if len(got) != n || len(sent) != n || len(slices.Compact(slices.Clone(sent[1:]))) != 1 {
			t.Errorf("%d tokens, programs %v", len(got), sent)
		}
		seq := prompt
		for i, next := range got {
			last := seq[max(0, len(seq)-m.Config.Context):]
			logits := m.Forward(tensor.From(s, last, 1, len(last)))
			want, err := logits.Slice(tensor.At(0), tensor.At(-1)).Argmax(0).Item()
			if err != nil {
				t.Fatal(err)
			}
			if int32(want) != next {
				t.Errorf("token %d is %d, expected %v", i, next, want)
			}
			seq = append(slices.Clone(seq), next)
		}
	}
}

func TestGenerateShortPrompt(t *testing.T) { devicetest.Each(t, testGenerateShortPrompt) }

func testGenerateShortPrompt(t *devicetest.T) {
	s := newSession(t)
	m := tiny(t, s, nil)
	a, err := m.Generate(context.Background(), []int32{7}, 9, Sampling{Temperature: 1, Seed: 5})
	if err != nil || len(a) != 9 {
		t.Fatalf("%v, %v", a, err)
	}
	b, err := m.Generate(context.Background(), []int32{7}, 9, Sampling{Temperature: 1, Seed: 5})
	if err != nil || !slices.Equal(a, b) {
		t.Errorf("the same seed gives %v and %v, %v", a, b, err)
	}
	if _, err := m.Generate(context.Background(), nil, 1, Sampling{}); !errors.Is(err, ErrConfig) {
		t.Errorf("an empty prompt: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := m.Generate(ctx, []int32{7}, 3, Sampling{}); !errors.Is(err, context.Canceled) || len(got) != 0 {
		t.Errorf("cancelled: %v, %v", got, err)
	}
	var streamed []int32
	for next, err := range m.Stream(context.Background(), []int32{7}, 9, Sampling{Temperature: 1, Seed: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		if streamed = append(streamed, next); len(streamed) == 4 {
			break
		}
	}
	if !slices.Equal(streamed, a[:4]) {
		t.Errorf("streamed %v, expected %v", streamed, a[:4])
	}
	if _, err := m.Generate(context.Background(), []int32{99}, 1, Sampling{}); !errors.Is(err, tensor.ErrIndex) {
		t.Errorf("a token beyond the vocabulary: %v", err)
	}
}

// TestSampling: tokens are drawn with the probabilities softmax(logits/temperature), and
// only from the k most likely.
func TestSampling(t *testing.T) {
	logits := []float32{1, 3, 2, 0}
	const draws = 20000
	for _, o := range []Sampling{{Temperature: 1}, {Temperature: 0.5, Seed: 1}, {Temperature: 2, TopK: 2}, {TopK: 3},
		{Temperature: 1, TopP: 0.7}, {Temperature: 1, TopK: 3, TopP: 0.01}, {Temperature: 1, TopP: 1}} {
		p := newPicker(len(logits), o)
		count := make([]float64, len(logits))
		for range draws {
			count[p.pick(logits)]++
		}
		var want [4]float64
		sum := 0.0
		for i, x := range logits {
			rank := 0
			for _, y := range logits {
				if y > x {
					rank++
				}
			}
			switch {
			case o.Temperature == 0 && rank > 0, o.TopK > 0 && rank >= o.TopK:
			// of 0.64, 0.24, 0.09 and 0.03 two are at least 0.7, one is at least 0.01
			case o.TopP == 0.7 && rank > 1, o.TopP == 0.01 && rank > 0:
			case o.Temperature == 0:
				want[i] = 1
			default:
				want[i] = math.Exp(float64(x) / o.Temperature)
			}
			sum += want[i]
		}
		for i := range want {
			if got := count[i] / draws; math.Abs(got-want[i]/sum) > 0.015 {
				t.Errorf("%+v: token %d drawn at %v, expected %v", o, i, got, want[i]/sum)
			}
		}
	}
}

func TestSaveAndLoad(t *testing.T) { devicetest.Each(t, testSaveAndLoad) }

func testSaveAndLoad(t *devicetest.T) {
	path := filepath.Join(t.TempDir(), "qwen.safetensors")
	s := newSession(t)
	a, b := tiny(t, s, nil), tiny(t, s, nil)
	x := tensor.From(s, []int32{1, 2, 3}, 1, 3)
	read := func(m *Qwen3) []float32 {
		v, err := tensor.Data[float32](m.Forward(x))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if slices.Equal(read(a), read(b)) {
		t.Fatal("two models are the same")
	}
	if err := nn.Save(path, a.Params(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := nn.Load(path, b.Params(), nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(read(a), read(b)) {
		t.Error("the loaded model gives other logits")
	}
}
