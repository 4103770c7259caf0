package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// Rotary is a table of rotary positions (Su et al. 2021): the angles of position p are p
// theta^(-2i/dim). It is not a parameter and is not saved. Layers share one.
type Rotary struct {
	Cos, Sin *tensor.Tensor // [positions, dim/2]
}

// NewRotary returns the table for positions 0 to n-1 of heads of an even dim. It computes
// angles in double precision.
func NewRotary(s *tensor.Session, n, dim int, theta float64) *Rotary {
	half := dim / 2
	cos, sin := make([]float32, n*half), make([]float32, n*half)
	for i := range half {
		f := math.Pow(theta, -2*float64(i)/float64(dim))
		for p := range n {
			sn, cs := math.Sincos(float64(p) * f)
			cos[p*half+i], sin[p*half+i] = float32(cs), float32(sn)
		}
	}
	return &Rotary{Cos: tensor.From(s, cos, n, half), Sin: tensor.From(s, sin, n, half)}
}

// Turn rotates x [.., t, dim] by the positions 0 to t-1.
func (r *Rotary) Turn(x *tensor.Tensor) *tensor.Tensor {
	if x.Err() != nil {
		return x
	}
	cos, sin := r.Cos, r.Sin
	if t := x.Dim(-2); t != cos.Dim(0) {
		cos, sin = cos.Narrow(0, 0, t), sin.Narrow(0, 0, t)
	}
	return x.Rope(cos, sin)
}

// AttentionConfig configures an Attention.
type AttentionConfig struct {
	Hidden  int
	Heads   int
	KVHeads int     // number of heads of keys and values, which divides Heads; 0 is Heads
	HeadDim int     // 0 is Hidden/Heads
	Bias    bool    // biases in the four projections
	QKNorm  bool    // an RMSNorm over each head's queries and keys
	Eps     float64 // of that norm
	Causal  bool    // a position sees itself and earlier ones
}

// Attention is multi-head attention. If KVHeads is less than Heads, groups of queries
// share keys and values (Ainslie et al. 2023).
type Attention struct {
	Q, K, V, O   *Linear
	QNorm, KNorm *RMSNorm // nil without QKNorm
	Rotary       *Rotary  // nil if the layer does not handle positions

	Heads, KVHeads, HeadDim int
	Causal                  bool
}

// NewAttention returns a layer; rotary may be nil.
func NewAttention(s *tensor.Session, c AttentionConfig, rotary *Rotary) *Attention {
	c.KVHeads, c.HeadDim = cmp.Or(c.KVHeads, c.Heads), cmp.Or(c.HeadDim, c.Hidden/max(c.Heads, 1))
	a := &Attention{
		Q: NewLinear(s, c.Hidden, c.Heads*c.HeadDim, c.Bias),
		K: NewLinear(s, c.Hidden, c.KVHeads*c.HeadDim, c.Bias),
		V: NewLinear(s, c.Hidden, c.KVHeads*c.HeadDim, c.Bias),
		O: NewLinear(s, c.Heads*c.HeadDim, c.Hidden, c.Bias),

		Rotary: rotary,
		Heads:  c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Causal: c.Causal,
	}
	if c.QKNorm {
		a.QNorm, a.KNorm = NewRMSNorm(s, c.HeadDim, c.Eps), NewRMSNorm(s, c.HeadDim, c.Eps)
	}
	return a
}

// Params implements Module: q_proj, k_proj, v_proj, o_proj, q_norm, k_norm.
func (a *Attention) Params() []tensor.Named {
	ps := slices.Concat(Prefix("q_proj", a.Q.Params()), Prefix("k_proj", a.K.Params()),
		Prefix("v_proj", a.V.Params()), Prefix("o_proj", a.O.Params()))
	if a.QNorm != nil {
		ps = slices.Concat(ps, Prefix("q_norm", a.QNorm.Params()), Prefix("k_norm", a.KNorm.Params()))
	}
	return ps
}

// heads projects x [b, t, hidden] to [b, n, t, dim], normalised and rotated.
func (a *Attention) heads(x *tensor.Tensor, l *Linear, n int, norm *RMSNorm, r *Rotary) *tensor.Tensor {
	if x.Err() != nil {
		return x
	}
	y := l.Forward(x).Reshape(x.Dim(0), -1, n, a.HeadDim)
	if norm != nil {
		y = norm.Forward(y)
	}
	y = y.Transpose(1, 2)
	if r != nil {
		y = r.Turn(y)
	}
	return y
}

// Forward maps [b, t, hidden] to the same shape.
func (a *Attention) Forward(x *tensor.Tensor) *tensor.Tensor {
	q := a.heads(x, a.Q, a.Heads, a.QNorm, a.Rotary)
	k := a.heads(x, a.K, a.KVHeads, a.KNorm, a.Rotary)
	v := a.heads(x, a.V, a.KVHeads, nil, nil)
	y := tensor.Attention(q, k, v, 1/math.Sqrt(float64(a.HeadDim)), a.Causal)
	if y.Err() != nil {
		return y
	}
	return a.O.Forward(y.Transpose(1, 2).Reshape(x.Dim(0), -1, a.Heads*a.HeadDim))
}

// SwiGLU is the gated feed-forward layer down(silu(gate x) * up x) (Shazeer 2020).
type SwiGLU struct {
	Gate, Up, Down *Linear
}

// NewSwiGLU returns a layer without biases.
func NewSwiGLU(s *tensor.Session, hidden, inner int) *SwiGLU {
	return &SwiGLU{Gate: NewLinear(s, hidden, inner, false), Up: NewLinear(s, hidden, inner, false), Down: NewLinear(s, inner, hidden, false)}
}

// Params implements Module: gate_proj, up_proj, down_proj.
func (l *SwiGLU) Params() []tensor.Named {
	return slices.Concat(Prefix("gate_proj", l.Gate.Params()), Prefix("up_proj", l.Up.Params()), Prefix("down_proj", l.Down.Params()))
}

// Forward implements Layer.
func (l *SwiGLU) Forward(x *tensor.Tensor) *tensor.Tensor {
	return l.Down.Forward(l.Gate.Forward(x).SiLU().Mul(l.Up.Forward(x)))
}

// MLP is two linear layers with an activation between them.
type MLP struct {
	In, Out    *Linear
	Activation Func
}

// NewMLP returns a layer with biases; a nil activation is GELU.
func NewMLP(s *tensor.Session, in, inner, out int, activation Func) *MLP {
	if activation == nil {
		activation = GELU()
	}
	return &MLP{In: NewLinear(s, in, inner, true), Out: NewLinear(s, inner, out, true), Activation: activation}
}

// Params implements Module: fc1 and fc2.
func (l *MLP) Params() []tensor.Named {
	return slices.Concat(Prefix("fc1", l.In.Params()), Prefix("fc2", l.Out.Params()))
}

// Forward implements Layer.
func (l *MLP) Forward(x *tensor.Tensor) *tensor.Tensor {
	return l.Out.Forward(l.Activation(l.In.Forward(x)))
}
