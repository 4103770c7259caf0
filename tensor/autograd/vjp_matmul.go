package autograd

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// matmul returns dy bᵀ for a [.., m, k] and aᵀ dy for b [.., k, n].
//
// Transposed operands are views. If an operand is itself a transposed view (the weight of
// a Linear, the keys of an attention), its gradient is computed transposed and viewed
// transposed again. The gradient of the tensor behind the view is then contiguous.
func matmul(c *call, i int) *tensor.Tensor {
	a, b, dy := c.x(0), c.x(1), c.dy
	turned := isTransposed(&c.n.In[i])
	if i == 0 {
		if turned {
			return b.Matmul(dy.T()).T()
		}
		return dy.Matmul(b.T())
	}
	var room [tensor.MaxRank]int
	a, dy, shape := fold(room[:0], a, dy, b)
	var g *tensor.Tensor
	if turned {
		g = dy.T().Matmul(a).T()
	} else {
		g = a.T().Matmul(dy)
	}
	return withShape(g, shape)
}

// isTransposed reports whether e is a view that exchanges the last two dims.
func isTransposed(e *tensor.Edge) bool {
	if e.Node == nil || e.Node.Op != tensor.OpPermute {
		return false
	}
	p := e.Node.Ints
	n := len(p)
	for i, d := range p[:n-2] {
		if int(d) != i {
			return false
		}
	}
	return int(p[n-2]) == n-1
}

// fold turns the many products whose sum is b's gradient into one long product: the
// innermost dims over which b was broadcast become rows of a and dy. It leaves other
// dims, over which fit sums. It returns the gradient's shape, with 1 for each folded dim,
// in the memory of room.
//
//	a [4 8 16 m k], b [k n]: a becomes [4*8*16*m, k], dy likewise
//	a [4 8 16 m k], b [8 1 k n]: a becomes [4 8 16*m k]
func fold(room []int, a, dy, b *tensor.Tensor) (fa, fdy *tensor.Tensor, shape []int) {
	as, bs, ys := a.Shape(), b.Shape(), dy.Shape()
	batch := len(ys) - 2
	at := func(s tensor.Shape, d int) int { // size of batch dim d of the result in s
		if d -= batch - (len(s) - 2); d >= 0 {
			return s[d]
		}
		return 1
	}
	from := batch
	for from > 0 && at(bs, from-1) == 1 && at(as, from-1) == ys[from-1] && batch-(from-1) <= len(as)-2 {
		from--
	}
	shape = append(room, ys...)
	for d := from; d < batch; d++ {
		shape[d] = 1
	}
	shape[batch] = as[len(as)-1]
	for len(shape) > len(bs) && shape[0] == 1 {
		shape = shape[1:]
	}
	rows := 1
	for _, n := range ys[from : batch+1] {
		rows *= n
	}
	if from == batch || slices.Contains(ys, 0) {
		if from < batch { // nothing to multiply, and -1 has no meaning
			shape = append(room, ys...)
			shape[batch] = as[len(as)-1]
		}
		return a, dy, shape
	}
	var dims [tensor.MaxRank]int
	fa = a.Reshape(append(append(dims[:0], as[:len(as)-2-(batch-from)]...), rows, as[len(as)-1])...)
	fdy = dy.Reshape(append(append(dims[:0], ys[:from]...), rows, ys[batch+1])...)
	return fa, fdy, shape
}
