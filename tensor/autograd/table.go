package autograd

import "github.com/ringside-go/ringside/tensor"

func entry(op tensor.Op) vjp {
	if int(op) >= len(table) {
		return nil
	}
	return table[op]
}

// table has an entry for each operation that the op table calls Differentiable, and for
// no other.
var table = [...]vjp{
	tensor.OpNeg:      func(c *call, _ int) *tensor.Tensor { return c.dy.Neg() },
	tensor.OpAbs:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).Sign()) },
	tensor.OpExp:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.y()) },
	tensor.OpLog:      func(c *call, _ int) *tensor.Tensor { return c.dy.Div(c.x(0)) },
	tensor.OpSqrt:     wide(func(c *call, _ int) *tensor.Tensor { return c.dy.Div(c.y()).MulS(0.5) }),
	tensor.OpRsqrt:    wide(func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.y()).Div(c.x(0)).MulS(-0.5) }),
	tensor.OpRecip:    wide(func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.y().Square()).Neg() }),
	tensor.OpSquare:   wide(func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).MulS(2)) }),
	tensor.OpSin:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).Cos()) },
	tensor.OpCos:      func(c *call, _ int) *tensor.Tensor { return c.dy.Mul(c.x(0).Sin().Neg()) },
	tensor.OpTanh:     wide(tanh),
	tensor.OpSigmoid:  wide(sigmoid),
	tensor.OpRelu:     relu,
	tensor.OpGelu:     wide(gelu),
	tensor.OpGeluTanh: wide(geluTanh),
	tensor.OpSilu:     wide(silu),
	tensor.OpErf:      wide(erf),
	tensor.OpCast:     same,
	tensor.OpClamp:    clamp,

	tensor.OpAdd:     same,
	tensor.OpSub:     sub,
	tensor.OpMul:     mul,
	tensor.OpDiv:     wide(div),
	tensor.OpPow:     wide(pow),
	tensor.OpMax:     extreme2,
	tensor.OpMin:     extreme2,
	tensor.OpWhere:   where,
	tensor.OpDropout: dropout,

	tensor.OpSum:    sum,
	tensor.OpMean:   mean,
	tensor.OpAmax:   wide(extreme),
	tensor.OpAmin:   wide(extreme),
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
	tensor.OpCausalSoftmax: wide(causalSoftmax),
	tensor.OpLayerNorm:     norm(tensor.OpLayerNormGradX, tensor.OpLayerNormGradW),
	tensor.OpRMSNorm:       norm(tensor.OpRMSNormGradX, tensor.OpRMSNormGradW),
	tensor.OpRope:          wide(rope),
	tensor.OpCrossEntropy:  crossEntropy,
	tensor.OpConv2D:        conv2D,
	tensor.OpMaxPool2D:     maxPool2D,
	tensor.OpAvgPool2D:     avgPool2D,
}
