package autograd

import "github.com/ringside-go/ringside/tensor"

// kept returns the shape of x with size 1 in the reduced dims.
func (c *call) kept() []int {
	x := c.x(0).Shape()
	out := make([]int, len(x))
	copy(out, x)
	dims := c.n.Ints[1:]
	if len(dims) == 0 {
		for i := range out {
			out[i] = 1
		}
	}
	for _, d := range dims {
		out[d] = 1
	}
	return out
}

func withShape(t *tensor.Tensor, shape []int) *tensor.Tensor {
	if t.Err() != nil || t.Shape().Equal(shape) {
		return t
	}
	return t.Reshape(shape...)
}

func sum(c *call, _ int) *tensor.Tensor {
	return withShape(c.dy, c.kept()).Expand(c.x(0).Shape()...)
}

func mean(c *call, _ int) *tensor.Tensor {
	x := c.x(0)
	n := float64(x.Elems()) / float64(max(c.dy.Elems(), 1))
	return withShape(c.dy, c.kept()).MulS(1 / n).Expand(x.Shape()...)
}

// extreme divides dy among the elements that equal the extreme. If that is NaN no element
// does, and the gradient is NaN.
func extreme(c *call, _ int) *tensor.Tensor {
	x, kept := c.x(0), c.kept()
	at := x.Eq(withShape(c.y(), kept))
	dims := make([]int, len(c.n.Ints)-1)
	for i, d := range c.n.Ints[1:] {
		dims[i] = int(d)
	}
	mask := at.Cast(x.DType())
	return mask.Mul(withShape(c.dy, kept).Div(mask.SumKeep(dims...)))
}

func prod(c *call, _ int) *tensor.Tensor {
	return c.apply(tensor.OpProdGrad, c.n.Ints[1:], tensor.T(c.x(0)), tensor.T(withShape(c.dy, c.kept())))
}

// cumsum runs in the other direction.
func cumsum(c *call, _ int) *tensor.Tensor {
	return c.apply(tensor.OpCumsum, []int64{c.n.Ints[0], 1 - c.n.Ints[1]}, tensor.T(c.dy))
}
