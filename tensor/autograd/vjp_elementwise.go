package autograd

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// same returns the gradient unchanged; fit undoes the broadcast and the cast.
func same(c *call, _ int) *tensor.Tensor { return c.dy }

func tanh(c *call, _ int) *tensor.Tensor {
	if c.twice {
		return c.dy.Mul(c.y().Square().RSubS(1))
	}
	return c.of(tensor.OpTanhGrad, c.y())
}

func sigmoid(c *call, _ int) *tensor.Tensor {
	if c.twice {
		y := c.y()
		return c.dy.Mul(y.Mul(y.RSubS(1)))
	}
	return c.of(tensor.OpSigmoidGrad, c.y())
}

func relu(c *call, _ int) *tensor.Tensor {
	if c.twice {
		return c.dy.MaskedFill(c.x(0).LeS(0), 0)
	}
	return c.of(tensor.OpReluGrad, c.x(0))
}

// gelu is the gradient of x P(x): P + x p, with P the normal distribution function and p
// its density.
func gelu(c *call, _ int) *tensor.Tensor {
	if !c.twice {
		return c.of(tensor.OpGeluGrad, c.x(0))
	}
	x := c.x(0)
	cdf := x.MulS(math.Sqrt2 / 2).Erf().AddS(1).MulS(0.5)
	pdf := x.Square().MulS(-0.5).Exp().MulS(1 / math.Sqrt(2*math.Pi))
	return c.dy.Mul(cdf.Add(x.Mul(pdf)))
}

// geluTanh is the gradient of y = x(1+t)/2 with t = tanh(u), u = k(x + a x³).
func geluTanh(c *call, _ int) *tensor.Tensor {
	if !c.twice {
		return c.of(tensor.OpGeluTanhGrad, c.x(0))
	}
	const a = 0.044715
	k := math.Sqrt(2 / math.Pi)
	x := c.x(0)
	t := x.Add(x.Mul(x.Square()).MulS(a)).MulS(k).Tanh()
	du := x.Square().MulS(3 * a).AddS(1).MulS(k)
	return c.dy.Mul(t.AddS(1).Add(x.Mul(t.Square().RSubS(1)).Mul(du)).MulS(0.5))
}

func silu(c *call, _ int) *tensor.Tensor {
	if !c.twice {
		return c.of(tensor.OpSiluGrad, c.x(0))
	}
	x := c.x(0)
	s := x.Sigmoid()
	return c.dy.Mul(s.Mul(x.Mul(s.RSubS(1)).AddS(1)))
}

func erf(c *call, _ int) *tensor.Tensor {
	return c.dy.Mul(c.x(0).Square().Neg().Exp().MulS(2 / math.Sqrt(math.Pi)))
}

func clamp(c *call, _ int) *tensor.Tensor {
	x, lo, hi := c.x(0), c.n.In[1].F, c.n.In[2].F
	switch {
	case math.IsInf(lo, -1) && math.IsInf(hi, 1):
		return c.dy
	case math.IsInf(lo, -1):
		return tensor.WhereS(x.LeS(hi), c.dy, 0)
	case math.IsInf(hi, 1):
		return tensor.WhereS(x.GeS(lo), c.dy, 0)
	}
	return tensor.WhereS(x.GeS(lo).And(x.LeS(hi)), c.dy, 0)
}

func sub(c *call, i int) *tensor.Tensor {
	if i == 1 {
		return c.dy.Neg()
	}
	return c.dy
}

func mul(c *call, i int) *tensor.Tensor {
	return c.apply(tensor.OpMul, nil, tensor.T(c.dy), c.arg(1-i))
}

func div(c *call, i int) *tensor.Tensor {
	if i == 0 {
		return c.apply(tensor.OpDiv, nil, tensor.T(c.dy), c.arg(1))
	}
	return c.dy.Mul(c.y()).Div(c.x(1)).Neg()
}

// pow returns b a^(b-1) for the base, 0 where b is 0. For the exponent it returns a^b log
// a, 0 where a is 0 and b is not negative.
func pow(c *call, i int) *tensor.Tensor {
	a, b := &c.n.In[0], &c.n.In[1]
	if i == 0 {
		x := c.x(0)
		if b.IsTensor() {
			p := c.x(1)
			return c.dy.Mul(p.Mul(x.Pow(p.SubS(1))).MaskedFill(p.EqS(0), 0))
		}
		switch b.F {
		case 0:
			return tensor.Zeros(c.s, x.DType(), x.Shape()...)
		case 1:
			return c.dy
		case 2:
			return c.dy.Mul(x.MulS(2))
		}
		return c.dy.Mul(x.PowS(b.F - 1).MulS(b.F))
	}
	p := c.x(1)
	if !a.IsTensor() {
		g := c.dy.Mul(c.y()).MulS(math.Log(a.F))
		if a.F == 0 {
			return g.MaskedFill(p.GeS(0), 0)
		}
		return g
	}
	x := c.x(0)
	return c.dy.Mul(c.y().Mul(x.Log()).MaskedFill(x.EqS(0).And(p.GeS(0)), 0))
}

// extreme2 is the gradient of the larger or the smaller of two: all of dy to the one,
// half to each where they are equal.
func extreme2(c *call, i int) *tensor.Tensor {
	loses := tensor.OpLt
	if c.n.Op == tensor.OpMin {
		loses = tensor.OpGt
	}
	me, other := c.arg(i), c.arg(1-i)
	lost := c.apply(loses, nil, me, other)
	equal := c.apply(tensor.OpEq, nil, me, other)
	return tensor.Where(equal, c.dy.MulS(0.5), c.dy).MaskedFill(lost, 0)
}

func where(c *call, i int) *tensor.Tensor {
	if i == 1 {
		return tensor.WhereS(c.x(0), c.dy, 0)
	}
	return c.dy.MaskedFill(c.x(0), 0)
}

// dropout repeats the operation with the same random numbers, so the mask is the same.
func dropout(c *call, _ int) *tensor.Tensor {
	return c.apply(tensor.OpDropout, c.n.Ints, tensor.T(c.dy), c.arg(1), c.arg(2), c.arg(3))
}
