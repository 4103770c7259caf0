package bench

import (
	"fmt"
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
)

// decoder generates tokens with a model of GPT-2's design, one at a time. It keeps the
// keys and values of the positions before. The tokens are given, so that both sides
// decode the same text: Decoder of torch/models.py does.
type decoder struct {
	form     *form
	wte, wpe *nn.Embedding
	blocks   []*decoderBlock
	norm     *nn.LayerNorm
	tokens   []int64
	place    *tensor.Tensor // the numbers of the positions, [seq, 1]
	next     int            // the position of the next token
}

// decoderBlock is one layer, and its keys and values [seq, hidden].
type decoderBlock struct {
	ln1, ln2           *nn.LayerNorm
	qkv, proj, fc, out *nn.Linear
	keys, values       *tensor.Tensor
}

func newDecoder(s *tensor.Session, f *form) *decoder {
	d := f.Hidden
	m := &decoder{form: f, wte: nn.NewEmbedding(s, f.Vocab, d), wpe: nn.NewEmbedding(s, f.Seq, d), norm: nn.NewLayerNorm(s, d), tokens: make([]int64, f.Seq+1)}
	data.FillIndices(m.tokens, "x", uint64(f.Vocab))
	m.place = tensor.Arange(s, tensor.I64, 0, 1, f.Seq).Reshape(f.Seq, 1)
	for range f.Layers {
		m.blocks = append(m.blocks, &decoderBlock{
			ln1: nn.NewLayerNorm(s, d), qkv: nn.NewLinear(s, d, 3*d, true), proj: nn.NewLinear(s, d, d, true),
			ln2: nn.NewLayerNorm(s, d), fc: nn.NewLinear(s, d, 4*d, true), out: nn.NewLinear(s, 4*d, d, true),
			keys: tensor.Zeros(s, tensor.F32, f.Seq, d), values: tensor.Zeros(s, tensor.F32, f.Seq, d),
		})
	}
	return m
}

// Params implements nn.Module.
func (m *decoder) Params() []tensor.Named {
	ps := slices.Concat(nn.Prefix("wte", m.wte.Params()), nn.Prefix("wpe", m.wpe.Params()))
	for i, b := range m.blocks {
		ps = append(ps, nn.Prefix(fmt.Sprintf("blocks.%d", i), slices.Concat(
			nn.Prefix("ln1", b.ln1.Params()), nn.Prefix("ln2", b.ln2.Params()), nn.Prefix("qkv", b.qkv.Params()),
			nn.Prefix("proj", b.proj.Params()), nn.Prefix("fc", b.fc.Params()), nn.Prefix("out", b.out.Params())))...)
	}
	return append(ps, nn.Prefix("lnf", m.norm.Params())...)
}

// state returns what belongs to the decoder beside its parameters.
func (m *decoder) state() []*tensor.Tensor {
	ts := []*tensor.Tensor{m.place}
	for _, b := range m.blocks {
		ts = append(ts, b.keys, b.values)
	}
	return ts
}

// Loss returns the cross-entropy of the logits after token x [1] with the next token,
// y [1]. It goes on to the next position, after the last one to the first.
func (m *decoder) Loss(x, y *tensor.Tensor) *tensor.Tensor {
	at := tensor.From(x.Session(), []int64{int64(m.next)}, 1)
	m.next = (m.next + 1) % m.form.Seq
	here, after := m.place.Eq(at), m.place.Gt(at).Reshape(m.form.Seq)
	h := m.wte.Forward(x).Add(m.wpe.Forward(at))
	for _, b := range m.blocks {
		h = b.forward(h, here, after, m.form.Heads)
	}
	return nn.CrossEntropy(m.norm.Forward(h).Matmul(m.wte.Weight.T()), y)
}

// forward returns the layer's result for h [1, hidden] at the position where here
// [seq, 1] is true; after [seq] is true behind it.
func (b *decoderBlock) forward(h, here, after *tensor.Tensor, heads int) *tensor.Tensor {
	seq, d := b.keys.Dim(0), b.keys.Dim(1)
	qkv := b.qkv.Forward(b.ln1.Forward(h))
	check(b.keys.Assign(tensor.Where(here, qkv.Narrow(1, d, d), b.keys)))
	check(b.values.Assign(tensor.Where(here, qkv.Narrow(1, 2*d, d), b.values)))
	split := func(x *tensor.Tensor, rows int) *tensor.Tensor {
		return x.Reshape(rows, heads, d/heads).Transpose(0, 1)
	}
	scores := split(qkv.Narrow(1, 0, d), 1).Matmul(split(b.keys, seq).T()).MulS(1 / math.Sqrt(float64(d/heads)))
	y := scores.MaskedFill(after, math.Inf(-1)).Softmax(-1).Matmul(split(b.values, seq))
	h = h.Add(b.proj.Forward(y.Transpose(0, 1).Reshape(1, d)))
	return h.Add(b.out.Forward(b.fc.Forward(b.ln2.Forward(h)).GELU()))
}

// decode decodes one token and returns its loss.
func (m *decoder) decode(s *tensor.Session) (loss *tensor.Tensor) {
	s.NoGrad(func() {
		x, y := tensor.From(s, m.tokens[m.next:m.next+1], 1), tensor.From(s, m.tokens[m.next+1:m.next+2], 1)
		loss = m.Loss(x, y)
	})
	return loss
}
