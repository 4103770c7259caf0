package cuda

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// maxScores is the most bytes of the weights of an attention that are in memory at once.
// The gradient has twice that: the weights and their gradient.
const maxScores = 1 << 30

// transposed returns the matrices of o with rows and columns exchanged.
func transposed(o compile.Operand) compile.Operand {
	n := len(o.Shape)
	o.Shape, o.Strides, o.Dense = slices.Clone(o.Shape), slices.Clone(o.Strides), false
	o.Shape[n-2], o.Shape[n-1] = o.Shape[n-1], o.Shape[n-2]
	o.Strides[n-2], o.Strides[n-1] = o.Strides[n-1], o.Strides[n-2]
	return o
}

// productOf adds a product in memory of its own, and returns it.
func (k *kernel) productOf(a, b compile.Operand) compile.Operand {
	n := len(a.Shape)
	shape := slices.Clone(a.Shape)
	shape[n-1] = b.Shape[n-1]
	t := k.temp(a.DType, shape)
	k.product(t, a, b)
	return t
}

// weights adds the softmax of the scaled products of queries and keys, and returns it.
func (k *kernel) weights(s *compile.Step) compile.Operand {
	p := k.productOf(s.In[0], transposed(s.In[1]))
	n := len(p.Shape)
	rows, columns := p.Shape[n-2], p.Shape[n-1]
	sees := rows
	if s.Ints[0] == 0 {
		sees = 1 // every row is the last of its matrix: it sees all columns
	}
	k.row("softmax", "causal_softmax_"+p.DType.String(), p.Shape.Elems()/columns, columns, p, p, uint32(sees), uint32(columns), scalar(p.DType, s.In[3]))
	return p
}

// attends reports whether there are kernels for an attention.
func attends(s *compile.Step) bool {
	q, key := s.In[0].Shape, s.In[1].Shape
	n := len(q)
	d := s.Out.DType
	return real(d) && q[:n-1].Elems() < maxScores/d.Size()/key[n-2]
}

// attention adds an attention by way of all its weights.
func (k *kernel) attention(s *compile.Step) {
	if k.host = !attends(s); !k.host {
		k.copy(s.Out, k.productOf(k.weights(s), s.In[2]))
	}
}

// attentionGrad adds the gradients by queries, keys and values. Those of keys and values
// are summed over the dims in which these are broadcast.
func (k *kernel) attentionGrad(s *compile.Step) {
	if k.host = !attends(s); k.host {
		return
	}
	q, key, value, dy := s.In[0], s.In[1], s.In[2], s.In[4]
	p := k.weights(s)
	columns := p.Shape[len(p.Shape)-1]
	dp := k.productOf(dy, transposed(value))
	// The gradient by the scores takes the place of dp.
	k.row("softmax", "softmax_grad_"+p.DType.String(), p.Shape.Elems()/columns, columns, p, dp, dp, uint32(columns))
	k.tiles(elementwise(tensor.OpMul, dp, dp, s.In[5]))
	for _, g := range []struct{ to, of compile.Operand }{
		{s.Out, k.productOf(dp, key)}, {s.Also[0], k.productOf(transposed(dp), q)}, {s.Also[1], k.productOf(transposed(p), dy)},
	} {
		k.copy(g.to, k.folded(g.of, len(g.to.Shape)))
	}
}

// folded adds the sum of x over the dims before its matrices that a result of rank dims
// does not have, and returns it.
func (k *kernel) folded(x compile.Operand, rank int) compile.Operand {
	n := len(x.Shape)
	if n == rank {
		return x
	}
	var dims []int64
	shape := slices.Clone(x.Shape[:rank-2])
	for d := rank - 2; d < n-2; d++ {
		dims = append(dims, int64(d))
	}
	t := k.temp(x.DType, append(shape, x.Shape[n-2:]...))
	k.reduction(tensor.OpSum, t, x, dims)
	return t
}
