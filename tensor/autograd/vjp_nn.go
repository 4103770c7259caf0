package autograd

import "github.com/ringside-go/ringside/tensor"

// rowGrad returns y*(dy - sum(y*dy)) along dim.
func rowGrad(c *call, dim int) *tensor.Tensor {
	y := c.y()
	if c.twice {
		p := y.Mul(c.dy)
		return p.Sub(y.Mul(p.SumKeep(dim)))
	}
	return c.apply(tensor.OpSoftmaxGrad, []int64{int64(dim)}, tensor.T(y), tensor.T(c.dy))
}

func softmax(c *call, _ int) *tensor.Tensor { return rowGrad(c, int(c.n.Ints[0])) }

func logSoftmax(c *call, _ int) *tensor.Tensor {
	if c.twice {
		return c.dy.Sub(c.y().Exp().Mul(c.dy.SumKeep(int(c.n.Ints[0]))))
	}
	return c.of(tensor.OpLogSoftmaxGrad, c.y())
}

// causalSoftmax needs no mask: masked elements have y = 0 and so no gradient.
func causalSoftmax(c *call, _ int) *tensor.Tensor {
	return rowGrad(c, c.dy.Rank()-1).MulS(c.n.In[1].F)
}

// norm returns the entry of layer_norm (x, w, b) or rms_norm (x, w).
func norm(gradX, gradW tensor.Op) vjp {
	return func(c *call, i int) *tensor.Tensor {
		eps := c.arg(len(c.n.In) - 1)
		switch i {
		case 0:
			if c.tensors() > 1 {
				return c.apply(gradX, c.n.Ints, c.arg(0), tensor.T(c.dy), c.arg(1), eps)
			}
			return c.apply(gradX, c.n.Ints, c.arg(0), tensor.T(c.dy), eps)
		case 1:
			return c.apply(gradW, c.n.Ints, c.arg(0), tensor.T(c.dy), eps)
		}
		return c.dy
	}
}

// rope rotates the gradient back. The result for a pair (p, q) is (p cos - q sin, q cos +
// p sin), which gives the gradients of the tables. The sign of sin changes in a node that
// itself rotates back.
func rope(c *call, i int) *tensor.Tensor {
	back := c.n.Ints[0]
	if i == 0 {
		return c.apply(tensor.OpRope, []int64{1 - back}, tensor.T(c.dy), c.arg(1), c.arg(2))
	}
	x, dy := c.x(0).Chunk(-1, 2), c.dy.Chunk(-1, 2)
	if i == 1 {
		return dy[0].Mul(x[0]).Add(dy[1].Mul(x[1]))
	}
	g := dy[1].Mul(x[0]).Sub(dy[0].Mul(x[1]))
	if back == 1 {
		return g.Neg()
	}
	return g
}

func crossEntropy(c *call, _ int) *tensor.Tensor {
	return c.apply(tensor.OpCrossEntropyGrad, c.n.Ints, c.arg(0), c.arg(1), tensor.T(c.dy))
}

// sized returns the attributes of the node followed by the height and width of t.
func (c *call) sized(t *tensor.Tensor) []int64 {
	return append(append([]int64(nil), c.n.Ints...), int64(t.Dim(2)), int64(t.Dim(3)))
}

func conv2D(c *call, i int) *tensor.Tensor {
	if i == 0 {
		return c.apply(tensor.OpConv2DGradX, c.sized(c.x(0)), tensor.T(c.dy), c.arg(1))
	}
	return c.apply(tensor.OpConv2DGradW, c.sized(c.x(1)), c.arg(0), tensor.T(c.dy))
}

func maxPool2D(c *call, _ int) *tensor.Tensor { return c.of(tensor.OpMaxPool2DGrad, c.x(0)) }

func avgPool2D(c *call, _ int) *tensor.Tensor {
	return c.apply(tensor.OpAvgPool2DGrad, c.sized(c.x(0)), tensor.T(c.dy))
}
