package autograd

import "github.com/ringside-go/ringside/tensor"

// call holds the arguments of an entry of the table: a node and the gradient of its
// result.
type call struct {
	s  *tensor.Session
	n  *tensor.Node
	dy *tensor.Tensor
	// twice says that the gradient will be differentiated too, so that only operations
	// with an entry may be used.
	twice bool
	// wide says that x and y return halves as f32, see wide.
	wide bool

	// sum is the gradient that the input has got from other nodes, or nil. An entry that
	// can add to it at a lower cost than an addition does so and sets added.
	sum   *tensor.Tensor
	added bool
}

// vjp returns the gradient of input i: the gradient of the result times the derivative of
// the result with respect to the input. It may have the shape of the result where the
// input was broadcast, and another float dtype. It is not called for inputs that have no
// gradient, such as conditions and indices.
type vjp func(c *call, i int) *tensor.Tensor

// x returns input i, which must be a tensor.
func (c *call) x(i int) *tensor.Tensor { return c.widened(c.n.In[i].Tensor()) }

// y returns the result.
func (c *call) y() *tensor.Tensor { return c.widened(c.n.Out()) }

func (c *call) widened(t *tensor.Tensor) *tensor.Tensor {
	if c.wide {
		return t.Cast(t.DType().Wide())
	}
	return t
}

// wide returns an entry of several operations that computes the gradient of halves in
// f32, so that only the gradient is rounded.
func wide(f vjp) vjp {
	return func(c *call, i int) *tensor.Tensor {
		dy := c.dy
		c.wide = true
		c.dy = c.widened(dy)
		g := f(c, i)
		c.wide, c.dy = false, dy
		return g
	}
}

// arg returns input i, a tensor or a scalar, as an argument.
func (c *call) arg(i int) tensor.Arg {
	if e := &c.n.In[i]; !e.IsTensor() {
		return tensor.S(e.F)
	}
	return tensor.T(c.x(i))
}

// tensors returns the number of inputs that are tensors or scalars in the place of one.
func (c *call) tensors() int { return len(c.n.In) - len(c.n.Op.Info().Scalars) }

func (c *call) apply(op tensor.Op, ints []int64, args ...tensor.Arg) *tensor.Tensor {
	return c.s.Apply(op, ints, args...)
}

// of records a gradient operation whose operands are v, a value of the node, and dy.
func (c *call) of(op tensor.Op, v *tensor.Tensor) *tensor.Tensor {
	return c.apply(op, c.n.Ints, tensor.T(v), tensor.T(c.dy))
}
