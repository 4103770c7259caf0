package autograd

import "github.com/ringside-go/ringside/tensor"

// call is what an entry of the table sees: a node and the gradient of its result.
type call struct {
	s     *tensor.Session
	n     *tensor.Node
	dy    *tensor.Tensor
	twice bool // the gradient will be differentiated itself: use what has an entry

	// sum is what the input whose gradient is asked for got from elsewhere already, nil if nothing. An entry that can add to
	// it for less than an addition does so and says so in added.
	sum   *tensor.Tensor
	added bool
}

// vjp is what flows into input i: the gradient of the result times the derivative of the result with respect to the
// input. It may have the result's shape where the input was broadcast to it, and another float dtype. It is never asked for
// an input that has no gradient, as conditions and indices have none.
type vjp func(c *call, i int) *tensor.Tensor

// x is input i, which must be a tensor.
func (c *call) x(i int) *tensor.Tensor { return c.n.In[i].Tensor() }

// y is the result.
func (c *call) y() *tensor.Tensor { return c.n.Out() }

// arg is input i, tensor or scalar, as an argument.
func (c *call) arg(i int) tensor.Arg {
	if e := &c.n.In[i]; !e.IsTensor() {
		return tensor.S(e.F)
	}
	return tensor.T(c.x(i))
}

// tensors is the number of inputs that are tensors or stand for one.
func (c *call) tensors() int { return len(c.n.In) - len(c.n.Op.Info().Scalars) }

func (c *call) apply(op tensor.Op, ints []int64, args ...tensor.Arg) *tensor.Tensor {
	return c.s.Apply(op, ints, args...)
}

// of records a gradient operation of one value of the node and dy.
func (c *call) of(op tensor.Op, v *tensor.Tensor) *tensor.Tensor {
	return c.apply(op, c.n.Ints, tensor.T(v), tensor.T(c.dy))
}

func entry(op tensor.Op) vjp {
	if int(op) >= len(table) {
		return nil
	}
	return table[op]
}

// table has an entry for every operation that the op table calls Differentiable, and for no other.
var table = [...]vjp{
	tensor.OpNeg:      func(c *call, _ int) *tensor.Tensor { return c.dy.Neg() },
	tensor.OpAbs:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).Sign()) },
	tensor.OpExp:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.y()) },
	tensor.OpLog:      func(c *call, _ int) *tensor.Tensor { return c.dy.Div(c.x(0)) },
	tensor.OpSqrt:     func(c *call, _ int) *tensor.Tensor { return c.dy.Div(c.y()).MulS(0.5) },
	tensor.OpRsqrt:    func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.y()).Div(c.x(0)).MulS(-0.5) },
	tensor.OpRecip:    func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.y().Square()).Neg() },
	tensor.OpSquare:   func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).MulS(2)) },
	tensor.OpSin:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).Cos()) },
	tensor.OpCos:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).Sin().Neg()) },
	tensor.OpTanh:     tanh,
	tensor.OpSigmoid:  sigmoid,
	tensor.OpRelu:     relu,
	tensor.OpGelu:     gelu,
	tensor.OpGeluTanh: geluTanh,
	tensor.OpSilu:     silu,
	tensor.OpErf:      erf,
	tensor.OpCast:     same,
	tensor.OpClamp:    clamp,

	tensor.OpAdd:     same,
	tensor.OpSub:     sub,
	tensor.OpMul:     mul,
	tensor.OpDiv:     div,
	tensor.OpPow:     pow,
	tensor.OpMax:     extreme2,
	tensor.OpMin:     extreme2,
	tensor.OpWhere:   where,
	tensor.OpDropout: dropout,

	tensor.OpSum:    sum,
	tensor.OpMean:   mean,
	tensor.OpAmax:   extreme,
	tensor.OpAmin:   extreme,
	tensor.OpProd:   prod,
	tensor.OpCumsum: cumsum,

	tensor.OpReshape:     reshape,
	tensor.OpPermute:     permute,
	tensor.OpExpand:      same,
	tensor.OpBarrier:     same,
	tensor.OpSlice:       slice,
	tensor.OpConcat:      concat,
	tensor.OpPad:         pad,
	tensor.OpTril:        tri,
	tensor.OpTriu:        tri,
	tensor.OpIndexSelect: indexSelect,
	tensor.OpIndexAdd:    indexAdd,
	tensor.OpGather:      gather,
	tensor.OpScatterAdd:  scatterAdd,

	tensor.OpMatmul:        matmul,
	tensor.OpSoftmax:       softmax,
	tensor.OpLogSoftmax:    logSoftmax,
	tensor.OpCausalSoftmax: causalSoftmax,
	tensor.OpLayerNorm:     norm(tensor.OpLayerNormGradX, tensor.OpLayerNormGradW),
	tensor.OpRMSNorm:       norm(tensor.OpRMSNormGradX, tensor.OpRMSNormGradW),
	tensor.OpRope:          rope,
	tensor.OpCrossEntropy:  crossEntropy,
	tensor.OpConv2D:        conv2D,
	tensor.OpMaxPool2D:     maxPool2D,
	tensor.OpAvgPool2D:     avgPool2D,
}

// same passes the gradient on as it is; fit undoes the broadcast and the cast.
func same(c *call, _ int) *tensor.Tensor { return c.dy }
