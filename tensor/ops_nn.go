package tensor

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

var errProbability = errors.New("probability must be at least 0 and below 1")

// IgnoreNone as CrossEntropy's ignore means that every target counts.
const IgnoreNone = math.MinInt64

// Matmul returns the matrix product, with NumPy's rules for the other dims: [m k] x [k n]
// is [m n] and earlier dims broadcast. A vector is a row on the left and a column on the
// right, and its dim is dropped. Transposed operands are not copied.
func (t *Tensor) Matmul(o *Tensor) *Tensor {
	a, b := t, T(o).t
	if a.v.failed() != nil || b.v.failed() != nil {
		return a.v.s.Apply(OpMatmul, nil, T(a), T(b))
	}
	row, col := a.Rank() == 1, b.Rank() == 1
	if row {
		a = a.Unsqueeze(0)
	}
	if col {
		b = b.Unsqueeze(1)
	}
	y := t.v.s.Apply(OpMatmul, nil, T(a), T(b))
	if y.v.failed() != nil {
		return y.poison()
	}
	if row {
		y = y.Squeeze(-2)
	}
	if col {
		y = y.Squeeze(-1)
	}
	return y
}

// LayerNorm normalises t over the last dims, those of w, to mean 0 and variance 1, then
// scales by w and adds b. w and b may be nil; then it normalises over the last n dims.
func (t *Tensor) LayerNorm(w, b *Tensor, eps float64, n int) *Tensor {
	switch {
	case w == nil && b != nil:
		return t.wrong(OpLayerNorm, fmt.Errorf("%w: a bias without a weight", ErrShape))
	case w == nil:
		return t.v.s.Apply(OpLayerNorm, []int64{int64(n)}, T(t), S(eps))
	case b == nil:
		return t.v.s.Apply(OpLayerNorm, []int64{int64(w.Rank())}, T(t), T(w), S(eps))
	}
	return t.v.s.Apply(OpLayerNorm, []int64{int64(w.Rank())}, T(t), T(w), T(b), S(eps))
}

// RMSNorm divides t by its root mean square over the last dims, those of w, and scales by
// w. With a nil w it normalises over the last dim.
func (t *Tensor) RMSNorm(w *Tensor, eps float64) *Tensor {
	if w == nil {
		return t.v.s.Apply(OpRMSNorm, []int64{1}, T(t), S(eps))
	}
	return t.v.s.Apply(OpRMSNorm, []int64{int64(w.Rank())}, T(t), T(w), S(eps))
}

// Rope rotates the pairs (i, i+d/2) of the last dim of t [.., s, d] by the angles whose
// cosines and sines are cos and sin [s, d/2].
func (t *Tensor) Rope(cos, sin *Tensor) *Tensor {
	return t.v.s.Apply(OpRope, []int64{0}, T(t), T(cos), T(sin))
}

// CausalSoftmax returns the softmax of t*scale over the last dim, where row i of [.., s,
// t] sees columns j <= i+t-s.
func (t *Tensor) CausalSoftmax(scale float64) *Tensor {
	return t.v.s.Apply(OpCausalSoftmax, nil, T(t), S(scale))
}

// Attention returns softmax(q k^T * scale) v [b, h, s, d] for q [b, h, s, d], and k and v
// [b, kv, t, d]. h is a multiple of kv, and each head of k and v serves h/kv neighbouring
// heads of q. With causal set, a query does not see later keys.
func Attention(q, k, v *Tensor, scale float64, causal bool) *Tensor {
	for _, t := range []*Tensor{q, k, v} {
		if t.v.failed() != nil {
			return t.poison()
		}
	}
	if q.Rank() != 4 || k.Rank() != 4 || !k.v.shape.Equal(v.v.shape) || k.Dim(1) == 0 || q.Dim(1)%k.Dim(1) != 0 {
		return q.wrongName("attention", fmt.Errorf("%w: q %v, k %v, v %v; expected [b h s d] and [b kv t d], h a multiple of kv", ErrShape, q.v.shape, k.v.shape, v.v.shape))
	}
	b, h, s, d, kv := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3), k.Dim(1)
	common := Promote(Promote(q.v.dtype, k.v.dtype), v.v.dtype)
	q, k, v = q.wide(), k.wide(), v.wide()
	if h != kv {
		q, k, v = q.Reshape(b, kv, h/kv, s, d), k.Unsqueeze(2), v.Unsqueeze(2)
	}
	p := q.Matmul(k.T())
	if causal {
		p = p.CausalSoftmax(scale)
	} else {
		p = p.MulS(scale).Softmax(-1)
	}
	y := p.Matmul(v)
	if h != kv {
		y = y.Reshape(b, h, s, d)
	}
	return y.narrow(common)
}

// CrossEntropy returns the mean over rows of -log softmax(t)[target], for logits t [..,
// c] and targets [..] of i32 or i64. Rows with the target ignore do not count; with
// IgnoreNone all count.
func (t *Tensor) CrossEntropy(target *Tensor, ignore int64) *Tensor {
	if t.v.failed() == nil && t.Rank() != 2 && t.Rank() > 0 {
		t, target = t.Reshape(-1, t.Dim(-1)), target.Flatten()
	}
	return t.v.s.Apply(OpCrossEntropy, []int64{ignore}, T(t), T(target))
}

// ConvOptions are the geometry of a convolution, height before width. A zero stride,
// dilation or number of groups means 1.
type ConvOptions struct {
	Stride, Pad, Dilation [2]int
	Groups                int
}

// Conv2D returns the cross-correlation of t [n, c, h, w] with weights [o, c/groups, kh,
// kw]; bias [o] may be nil.
func (t *Tensor) Conv2D(w, bias *Tensor, o ConvOptions) *Tensor {
	for _, n := range []*int{&o.Stride[0], &o.Stride[1], &o.Dilation[0], &o.Dilation[1], &o.Groups} {
		*n = cmp.Or(*n, 1)
	}
	ints := []int64{int64(o.Stride[0]), int64(o.Stride[1]), int64(o.Pad[0]), int64(o.Pad[1]),
		int64(o.Dilation[0]), int64(o.Dilation[1]), int64(o.Groups)}
	y := t.v.s.Apply(OpConv2D, ints, T(t), T(w))
	if bias != nil {
		y = y.Add(bias.Reshape(-1, 1, 1))
	}
	return y
}

func (t *Tensor) pool(op Op, kernel, stride, pad int) *Tensor {
	stride = cmp.Or(stride, kernel)
	k, s, p := int64(kernel), int64(stride), int64(pad)
	return t.v.s.Apply(op, []int64{k, k, s, s, p, p}, T(t))
}

// MaxPool2D returns the largest of every square window; stride 0 is the kernel's size.
func (t *Tensor) MaxPool2D(kernel, stride, pad int) *Tensor {
	return t.pool(OpMaxPool2D, kernel, stride, pad)
}

// AvgPool2D returns the mean of every square window, padding counted as 0; stride 0 is
// the kernel's size.
func (t *Tensor) AvgPool2D(kernel, stride, pad int) *Tensor {
	return t.pool(OpAvgPool2D, kernel, stride, pad)
}
