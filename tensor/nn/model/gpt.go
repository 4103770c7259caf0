package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// GPTConfig configures a GPT.
type GPTConfig struct {
	Vocab   int
	Hidden  int // a multiple of Heads
	Layers  int
	Heads   int
	Context int // longest sequence
}

// GPTTiny returns the config of a model of bytes with 2 layers of 64.
func GPTTiny() GPTConfig { return GPTConfig{Vocab: 256, Hidden: 64, Layers: 2, Heads: 4, Context: 64} }

// GPTSmall returns the config of a model with 4 layers of 128.
func GPTSmall() GPTConfig {
	return GPTConfig{Vocab: 1000, Hidden: 128, Layers: 4, Heads: 4, Context: 64}
}

// GPTMid returns the config of a model with 6 layers of 384, 10.8 million parameters.
func GPTMid() GPTConfig {
	return GPTConfig{Vocab: 256, Hidden: 384, Layers: 6, Heads: 6, Context: 256}
}

func (c *GPTConfig) check() error {
	for _, n := range []struct {
		name string
		got  int
	}{{"Vocab", c.Vocab}, {"Hidden", c.Hidden}, {"Layers", c.Layers}, {"Heads", c.Heads}, {"Context", c.Context}} {
		if n.got < 1 {
			return fmt.Errorf("%w: %s is %d, expected 1 or more", ErrConfig, n.name, n.got)
		}
	}
	if c.Hidden%c.Heads != 0 {
		return fmt.Errorf("%w: Hidden is %d, expected a multiple of Heads, %d", ErrConfig, c.Hidden, c.Heads)
	}
	return nil
}

// GPT is a decoder of GPT-2's design (Radford et al. 2019): learned positions, LayerNorm
// before each part, one projection for queries, keys and values, GELU, and biases
// everywhere except in the output layer, which is the embedding. Its parameters are
// wte.weight, wpe.weight, blocks.0.ln1.weight, blocks.0.qkv.weight, ..., lnf.weight,
// lnf.bias.
type GPT struct {
	Config   GPTConfig
	wte, wpe *nn.Embedding
	blocks   []*gptBlock
	norm     *nn.LayerNorm
	again    bool // recompute the blocks
}

// gptBlock is one layer.
type gptBlock struct {
	ln1, ln2       *nn.LayerNorm
	qkv, proj      *nn.Linear
	inner, outward *nn.Linear
}

// NewGPT returns a model with normal weights of deviation 0.02.
func NewGPT(s *tensor.Session, c GPTConfig) (*GPT, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := c.Hidden
	linear := func(in, out int) *nn.Linear {
		return &nn.Linear{Weight: nn.Normal(s, deviation, out, in), Bias: nn.Constant(s, 0, out)}
	}
	m := &GPT{
		Config: c,
		wte:    &nn.Embedding{Weight: nn.Normal(s, deviation, c.Vocab, d)},
		wpe:    &nn.Embedding{Weight: nn.Normal(s, deviation, c.Context, d)},
		norm:   nn.NewLayerNorm(s, d),
	}
	for range c.Layers {
		m.blocks = append(m.blocks, &gptBlock{
			ln1: nn.NewLayerNorm(s, d), qkv: linear(d, 3*d), proj: linear(d, d),
			ln2: nn.NewLayerNorm(s, d), inner: linear(d, 4*d), outward: linear(4*d, d),
		})
	}
	return m, nil
}

// Params implements nn.Module.
func (m *GPT) Params() []tensor.Named {
	ps := slices.Concat(nn.Prefix("wte", m.wte.Params()), nn.Prefix("wpe", m.wpe.Params()))
	for i, b := range m.blocks {
		ps = append(ps, nn.Prefix(fmt.Sprintf("blocks.%d", i), slices.Concat(
			nn.Prefix("ln1", b.ln1.Params()), nn.Prefix("ln2", b.ln2.Params()),
			nn.Prefix("qkv", b.qkv.Params()), nn.Prefix("proj", b.proj.Params()),
			nn.Prefix("fc", b.inner.Params()), nn.Prefix("out", b.outward.Params()),
		))...)
	}
	return append(ps, nn.Prefix("lnf", m.norm.Params())...)
}

// attend returns causal self-attention of x [b, t, hidden], before the projection.
func (b *gptBlock) attend(x *tensor.Tensor, heads int) *tensor.Tensor {
	qkv := b.qkv.Forward(x)
	if qkv.Err() != nil {
		return qkv
	}
	n, t, d := x.Dim(0), x.Dim(1), x.Dim(2)
	part := func(i int) *tensor.Tensor {
		return qkv.Narrow(2, i*d, d).Reshape(n, t, heads, d/heads).Transpose(1, 2)
	}
	y := tensor.Attention(part(0), part(1), part(2), 1/math.Sqrt(float64(d/heads)), true)
	return y.Transpose(1, 2).Reshape(n, t, d)
}

func (b *gptBlock) forward(h *tensor.Tensor, heads int) *tensor.Tensor {
	h = h.Add(b.proj.Forward(b.attend(b.ln1.Forward(h), heads)))
	return h.Add(b.outward.Forward(b.inner.Forward(b.ln2.Forward(h)).GELU()))
}

// SetRecompute implements nn.Recomputer, layer by layer.
func (m *GPT) SetRecompute(on bool) { m.again = on }

// Forward returns the logits [b, t, vocab] of the token after each of the tokens x [b, t]
// (i32, i64), where t is at most Context.
func (m *GPT) Forward(x *tensor.Tensor) *tensor.Tensor {
	h := m.wte.Forward(x)
	if h.Err() != nil {
		return h
	}
	place := m.wpe.Weight
	if t := x.Dim(1); t != m.Config.Context {
		place = place.Narrow(0, 0, t)
	}
	h = h.Add(place)
	for _, b := range m.blocks {
		f := func(h *tensor.Tensor) *tensor.Tensor { return b.forward(h, m.Config.Heads) }
		if m.again {
			h = nn.Recomputed(f, h)
		} else {
			h = f(h)
		}
	}
	return m.norm.Forward(h).Matmul(m.wte.Weight.T())
}

// Loss returns the cross-entropy of x's logits with the tokens that follow, y [b, t].
func (m *GPT) Loss(x, y *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(m.Forward(x), y) }
