package model

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// Qwen3Config configures a Qwen3.
type Qwen3Config struct {
	Vocab   int
	Hidden  int
	Layers  int
	Heads   int
	KVHeads int // a divisor of Heads
	HeadDim int // even
	FFN     int // inner size of the feed-forward layers
	Context int // longest sequence
	Theta   float64
	Eps     float64
	Tied    bool // the embedding is also the output layer
}

// Qwen3Tiny returns the config of a model of bytes with 2 layers of 64.
func Qwen3Tiny() Qwen3Config {
	return Qwen3Config{Vocab: 256, Hidden: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 192,
		Context: 64, Theta: 1e6, Eps: 1e-6, Tied: true}
}

// Qwen3Small returns the config of a model of bytes with 4 layers of 128.
func Qwen3Small() Qwen3Config {
	return Qwen3Config{Vocab: 256, Hidden: 128, Layers: 4, Heads: 4, KVHeads: 2, HeadDim: 32, FFN: 384,
		Context: 128, Theta: 1e6, Eps: 1e-6, Tied: true}
}

func (c *Qwen3Config) check() error {
	for _, f := range []struct {
		name string
		ok   bool
		got  any
		want string
	}{
		{"Vocab", c.Vocab > 0, c.Vocab, "1 or more"},
		{"Hidden", c.Hidden > 0, c.Hidden, "1 or more"},
		{"Layers", c.Layers > 0, c.Layers, "1 or more"},
		{"Heads", c.Heads > 0, c.Heads, "1 or more"},
		{"KVHeads", c.KVHeads > 0 && c.Heads%c.KVHeads == 0, c.KVHeads, fmt.Sprintf("a divisor of Heads, %d", c.Heads)},
		{"HeadDim", c.HeadDim > 0 && c.HeadDim%2 == 0, c.HeadDim, "an even number"},
		{"FFN", c.FFN > 0, c.FFN, "1 or more"},
		{"Context", c.Context > 0, c.Context, "1 or more"},
		{"Theta", c.Theta > 0, c.Theta, "above 0"},
		{"Eps", c.Eps >= 0, c.Eps, "0 or more"},
	} {
		if !f.ok {
			return fmt.Errorf("%w: %s is %v, expected %s", ErrConfig, f.name, f.got, f.want)
		}
	}
	return nil
}

// Qwen3 is a decoder of Qwen3's design (Yang et al. 2025): RMSNorm before each part,
// grouped-query attention with normalised queries and keys and rotary positions, SwiGLU,
// no biases. Its parameters have the names of published files: model.embed_tokens.weight,
// model.layers.0.self_attn.q_proj.weight, ...
type Qwen3 struct {
	Config Qwen3Config
	embed  *nn.Embedding
	blocks []*block
	norm   *nn.RMSNorm
	head   *nn.Linear // nil if tied
	again  bool       // recompute the blocks
	signal bool       // put signals on the tensors between parts
}

// block is one layer.
type block struct {
	name     string // such as model.layers.0, if its results have signals
	attnNorm *nn.RMSNorm
	attn     *nn.Attention
	mlpNorm  *nn.RMSNorm
	mlp      *nn.SwiGLU
}

// deviation is that of Qwen3's initial weights.
const deviation = 0.02

// NewQwen3 returns a model with normal weights of deviation 0.02.
func NewQwen3(s *tensor.Session, c Qwen3Config) (*Qwen3, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	linear := func(in, out int) *nn.Linear { return &nn.Linear{Weight: nn.Normal(s, deviation, out, in)} }
	m := &Qwen3{Config: c, embed: &nn.Embedding{Weight: nn.Normal(s, deviation, c.Vocab, c.Hidden)}}
	for range c.Layers {
		m.blocks = append(m.blocks, &block{
			attnNorm: nn.NewRMSNorm(s, c.Hidden, c.Eps),
			attn: &nn.Attention{
				Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Causal: true,
				// a table of its own, to lie where the layer does
				Rotary: nn.NewRotary(s, c.Context, c.HeadDim, c.Theta),
				Q:      linear(c.Hidden, c.Heads*c.HeadDim), K: linear(c.Hidden, c.KVHeads*c.HeadDim),
				V: linear(c.Hidden, c.KVHeads*c.HeadDim), O: linear(c.Heads*c.HeadDim, c.Hidden),
				QNorm: nn.NewRMSNorm(s, c.HeadDim, c.Eps), KNorm: nn.NewRMSNorm(s, c.HeadDim, c.Eps),
			},
			mlpNorm: nn.NewRMSNorm(s, c.Hidden, c.Eps),
			mlp:     &nn.SwiGLU{Gate: linear(c.Hidden, c.FFN), Up: linear(c.Hidden, c.FFN), Down: linear(c.FFN, c.Hidden)},
		})
	}
	m.norm = nn.NewRMSNorm(s, c.Hidden, c.Eps)
	if !c.Tied {
		m.head = linear(c.Hidden, c.Vocab)
	}
	return m, nil
}

// Params implements nn.Module.
func (m *Qwen3) Params() []tensor.Named {
	parts := m.Parts()
	if m.head == nil { // the last part shares the parameters of the first
		parts = parts[:len(parts)-1]
	}
	var ps []tensor.Named
	for _, p := range parts {
		ps = append(ps, p.Params...)
	}
	return ps
}

// Parts implements nn.Parted: model.embed_tokens, model.layers.0, model.layers.1, ...,
// model.norm and lm_head, which has the embedding's parameter if the two are tied.
func (m *Qwen3) Parts() []nn.Part {
	embed := nn.Prefix("model.embed_tokens", m.embed.Params())
	parts := []nn.Part{{Name: "model.embed_tokens", Params: embed, Lookup: true, Forward: m.embedded}}
	for i, b := range m.blocks {
		name := layerName(i)
		parts = append(parts, nn.Part{Name: name, Params: nn.Prefix(name, slices.Concat(
			nn.Prefix("input_layernorm", b.attnNorm.Params()),
			nn.Prefix("self_attn", b.attn.Params()),
			nn.Prefix("post_attention_layernorm", b.mlpNorm.Params()),
			nn.Prefix("mlp", b.mlp.Params()),
		)), Forward: func(h *tensor.Tensor) *tensor.Tensor { return m.block(b, h) }})
	}
	head := embed
	if m.head != nil {
		head = nn.Prefix("lm_head", m.head.Params())
	}
	return append(parts, nn.Part{Name: "model.norm", Params: nn.Prefix("model.norm", m.norm.Params()), Forward: m.normed},
		nn.Part{Name: "lm_head", Params: head, Forward: m.logits})
}

// hidden returns the last layer's normalised output [b, t, hidden] for tokens x [b, t].
func (m *Qwen3) hidden(x *tensor.Tensor) *tensor.Tensor {
	h := m.embedded(x)
	for _, b := range m.blocks {
		h = m.block(b, h)
	}
	return m.normed(h)
}

// block returns the output of layer b for h.
func (m *Qwen3) block(b *block, h *tensor.Tensor) *tensor.Tensor {
	if m.again {
		return nn.Recomputed(b.forward, h)
	}
	return b.forward(h)
}

func (b *block) forward(h *tensor.Tensor) *tensor.Tensor {
	x := signalled(b.name, ".input_layernorm.output", b.attnNorm.Forward(h))
	h = signalled(b.name, ".self_attn.output", h.Add(b.attn.Forward(x)))
	x = signalled(b.name, ".post_attention_layernorm.output", b.mlpNorm.Forward(h))
	return signalled(b.name, ".mlp.output", h.Add(b.mlp.Forward(x)))
}

// signalled gives h the signal part.name, unless part is empty.
func signalled(part, name string, h *tensor.Tensor) *tensor.Tensor {
	if part == "" {
		return h
	}
	return h.Signal(part + name)
}

// SetSignals implements nn.Signaler. The signals are model.embed_tokens.output and
// model.norm.output, and in every layer model.layers.0.self_attn.output and
// model.layers.0.mlp.output, after the residual is added, and their inputs
// model.layers.0.input_layernorm.output and
// model.layers.0.post_attention_layernorm.output.
func (m *Qwen3) SetSignals(on bool) {
	m.signal = on
	for i, b := range m.blocks {
		if b.name = ""; on {
			b.name = layerName(i)
		}
	}
}

func layerName(i int) string { return fmt.Sprintf("model.layers.%d", i) }

// normed returns the last layer's output h after the final norm.
func (m *Qwen3) normed(h *tensor.Tensor) *tensor.Tensor {
	h = m.norm.Forward(h)
	if m.signal {
		h.Signal("model.norm.output")
	}
	return h
}

// embedded returns the embeddings of tokens x.
func (m *Qwen3) embedded(x *tensor.Tensor) *tensor.Tensor {
	h := m.embed.Forward(x)
	if m.signal {
		h.Signal("model.embed_tokens.output")
	}
	return h
}

// SetRecompute implements nn.Recomputer, layer by layer.
func (m *Qwen3) SetRecompute(on bool) { m.again = on }

func (m *Qwen3) logits(h *tensor.Tensor) *tensor.Tensor {
	if m.head != nil {
		return m.head.Forward(h)
	}
	return h.Matmul(m.embed.Weight.T())
}

// Forward returns the logits [b, t, vocab] of the token after each of the tokens x [b, t]
// (i32, i64), where t is at most Context.
func (m *Qwen3) Forward(x *tensor.Tensor) *tensor.Tensor { return m.logits(m.hidden(x)) }

// Loss returns the cross-entropy of x's logits with the tokens that follow, y [b, t].
func (m *Qwen3) Loss(x, y *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(m.Forward(x), y) }

// Published returns the config by the names of config.json, as models of this design are
// published with.
func (m *Qwen3) Published() map[string]any {
	c := &m.Config
	return map[string]any{
		"architectures": []string{"Qwen3ForCausalLM"}, "model_type": "qwen3", "torch_dtype": "float32",
		"vocab_size": c.Vocab, "hidden_size": c.Hidden, "intermediate_size": c.FFN, "num_hidden_layers": c.Layers,
		"num_attention_heads": c.Heads, "num_key_value_heads": c.KVHeads, "head_dim": c.HeadDim,
		"max_position_embeddings": c.Context, "rope_theta": c.Theta, "rms_norm_eps": c.Eps,
		"tie_word_embeddings": c.Tied, "attention_bias": false, "hidden_act": "silu",
		// a token is a byte, and none has another meaning
		"bos_token_id": nil, "eos_token_id": nil,
	}
}
