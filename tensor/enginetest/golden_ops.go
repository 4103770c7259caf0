package enginetest

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// builder records a golden case's operation on c.in.
type builder func(c *goldenCase) []*tensor.Tensor

func unary(f func(*tensor.Tensor) *tensor.Tensor) builder {
	return func(c *goldenCase) []*tensor.Tensor { return []*tensor.Tensor{f(c.in[0])} }
}

func binop(f func(a, b *tensor.Tensor) *tensor.Tensor) builder {
	return func(c *goldenCase) []*tensor.Tensor { return []*tensor.Tensor{f(c.in[0], c.in[1])} }
}

func one(f func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor) builder {
	return func(c *goldenCase) []*tensor.Tensor { return []*tensor.Tensor{f(c, c.in[0])} }
}

func reduction(drop, keep func(x *tensor.Tensor, dims ...int) *tensor.Tensor) builder {
	return one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		if c.int("keepdim") != 0 {
			return keep(x, c.Ints["dim"]...)
		}
		return drop(x, c.Ints["dim"]...)
	})
}

// shaped gives y the shape that the case expects, for operations whose method has no
// keepdim.
func (c *goldenCase) shaped(y *tensor.Tensor) *tensor.Tensor { return y.Reshape(c.Outputs[0].Shape...) }

func arg(x *tensor.Tensor, dims []int, dim func(int) *tensor.Tensor, op tensor.Op) *tensor.Tensor {
	if len(dims) == 0 {
		return x.Session().Apply(op, []int64{0}, tensor.T(x))
	}
	return dim(dims[0])
}

// reduced finishes a loss by its reduction.
func (c *goldenCase) reduced(rows *tensor.Tensor) *tensor.Tensor {
	switch c.Strings["reduction"] {
	case "mean":
		return rows.Mean()
	case "sum":
		return rows.Sum()
	}
	return rows
}

// picked returns minus the logarithms' elements at the targets, 0 where the target is
// ignored, and the mask of those that count.
func (c *goldenCase) picked(log *tensor.Tensor) (rows, counts *tensor.Tensor) {
	target := c.in[1]
	counts = target.NeS(float64(c.int("ignore_index")))
	safe := tensor.WhereS(counts, target, 0)
	rows = log.Gather(1, safe.Unsqueeze(1)).Squeeze(1).Neg()
	return tensor.WhereS(counts, rows, 0), counts
}

var goldenBuilders = map[string]builder{
	"neg": unary((*tensor.Tensor).Neg), "abs": unary((*tensor.Tensor).Abs), "exp": unary((*tensor.Tensor).Exp),
	"log": unary((*tensor.Tensor).Log), "sqrt": unary((*tensor.Tensor).Sqrt), "rsqrt": unary((*tensor.Tensor).Rsqrt),
	"reciprocal": unary((*tensor.Tensor).Reciprocal), "square": unary((*tensor.Tensor).Square), "sin": unary((*tensor.Tensor).Sin),
	"cos": unary((*tensor.Tensor).Cos), "tanh": unary((*tensor.Tensor).Tanh), "sigmoid": unary((*tensor.Tensor).Sigmoid),
	"erf": unary((*tensor.Tensor).Erf), "relu": unary((*tensor.Tensor).ReLU), "silu": unary((*tensor.Tensor).SiLU),
	"sign": unary((*tensor.Tensor).Sign), "floor": unary((*tensor.Tensor).Floor), "ceil": unary((*tensor.Tensor).Ceil),
	"logical_not": unary((*tensor.Tensor).Not),
	"add":         binop((*tensor.Tensor).Add), "sub": binop((*tensor.Tensor).Sub), "mul": binop((*tensor.Tensor).Mul), "div": binop((*tensor.Tensor).Div),
	"maximum": binop((*tensor.Tensor).Maximum), "minimum": binop((*tensor.Tensor).Minimum), "pow": binop((*tensor.Tensor).Pow),
	"eq": binop((*tensor.Tensor).Eq), "ne": binop((*tensor.Tensor).Ne), "lt": binop((*tensor.Tensor).Lt),
	"le": binop((*tensor.Tensor).Le), "gt": binop((*tensor.Tensor).Gt), "ge": binop((*tensor.Tensor).Ge),
	"logical_and": binop((*tensor.Tensor).And), "logical_or": binop((*tensor.Tensor).Or),
	"matmul": binop((*tensor.Tensor).Matmul), "embedding": binop(tensor.Embedding),
	"sum": reduction((*tensor.Tensor).Sum, (*tensor.Tensor).SumKeep), "mean": reduction((*tensor.Tensor).Mean, (*tensor.Tensor).MeanKeep),
	"max": reduction((*tensor.Tensor).Max, (*tensor.Tensor).MaxKeep), "min": reduction((*tensor.Tensor).Min, (*tensor.Tensor).MinKeep),
	"prod": reduction((*tensor.Tensor).Prod, (*tensor.Tensor).ProdKeep),

	"softplus": unary(func(x *tensor.Tensor) *tensor.Tensor { return x.ReLU().Add(x.Abs().Neg().Exp().AddS(1).Log()) }),
	"round": unary(func(x *tensor.Tensor) *tensor.Tensor {
		r := x.AddS(0.5).Floor()
		odd := r.Sub(r.MulS(0.5).Floor().MulS(2))
		// between two integers equally near, the even one
		return r.Sub(tensor.WhereS(r.Sub(x).EqS(0.5), odd, 0))
	}),
	"gelu": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		if c.Strings["approximate"] == "tanh" {
			return x.GELUTanh()
		}
		return x.GELU()
	}),
	"leaky_relu": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return tensor.Where(x.GtS(0), x, x.MulS(c.float("negative_slope", 0)))
	}),
	"pow_scalar": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.PowS(c.float("exponent", 0)) }),
	"where": func(c *goldenCase) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.Where(c.in[0], c.in[1], c.in[2])}
	},
	"masked_fill": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return x.MaskedFill(c.in[1], c.float("value", 0))
	}),
	"clamp": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return x.Clamp(c.float("min", math.Inf(-1)), c.float("max", math.Inf(1)))
	}),
	"cast": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		d, _ := tensor.ParseDType(c.Strings["dtype"])
		return x.Cast(d)
	}),
	"argmax": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return c.shaped(arg(x, c.Ints["dim"], x.Argmax, tensor.OpArgmax))
	}),
	"argmin": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return c.shaped(arg(x, c.Ints["dim"], x.Argmin, tensor.OpArgmin))
	}),
	"cumsum": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Cumsum(c.int("dim")) }),
	"var": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return c.shaped(x.Var(float64(c.int("correction")), c.Ints["dim"]...))
	}),
	"logsumexp": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		m := x.MaxKeep(c.Ints["dim"]...).Detach()
		return c.shaped(x.Sub(m).Exp().SumKeep(c.Ints["dim"]...).Log().Add(m))
	}),
	"linear": func(c *goldenCase) []*tensor.Tensor {
		y := c.in[0].Matmul(c.in[1].T())
		if len(c.in) > 2 {
			y = y.Add(c.in[2])
		}
		return []*tensor.Tensor{y}
	},

	"reshape": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Reshape(c.Ints["shape"]...) }),
	"expand":  one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Expand(c.Ints["shape"]...) }),
	"permute": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Permute(c.Ints["dims"]...) }),
	"transpose": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return x.Transpose(c.Ints["dims"][0], c.Ints["dims"][1])
	}),
	"squeeze":   one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Squeeze(c.int("dim")) }),
	"unsqueeze": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Unsqueeze(c.int("dim")) }),
	"flip":      one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Flip(c.Ints["dims"]...) }),
	"slice": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		var r []tensor.Range
		for d := range c.Ints["start"] {
			r = append(r, tensor.By(c.Ints["start"][d], c.Ints["end"][d], c.Ints["step"][d]))
		}
		return x.Slice(r...)
	}),
	"index_select": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.IndexSelect(c.int("dim"), c.in[1]) }),
	"gather":       one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Gather(c.int("dim"), c.in[1]) }),
	"scatter_add": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		idx, src := c.in[1], c.in[2]
		return x.ScatterAdd(c.int("dim"), idx, src)
	}),
	"cat": func(c *goldenCase) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.Concat(c.int("dim"), c.in...)}
	},
	"stack": func(c *goldenCase) []*tensor.Tensor { return []*tensor.Tensor{tensor.Stack(c.int("dim"), c.in...)} },
	"split": func(c *goldenCase) []*tensor.Tensor {
		x, dim := c.in[0], c.int("dim")
		var sizes []int
		for left := x.Dim(dim); left > 0; left -= c.int("size") {
			sizes = append(sizes, min(left, c.int("size")))
		}
		return x.Split(dim, sizes...)
	},
	"chunk":       func(c *goldenCase) []*tensor.Tensor { return c.in[0].Chunk(c.int("dim"), c.int("chunks")) },
	"split_sizes": func(c *goldenCase) []*tensor.Tensor { return c.in[0].Split(c.int("dim"), c.Ints["sizes"]...) },
	"pad": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		var p [][2]int
		for d := range c.Ints["before"] {
			p = append(p, [2]int{c.Ints["before"][d], c.Ints["after"][d]})
		}
		return x.Pad(c.float("value", 0), p...)
	}),
	"roll": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		dim, n := c.int("dim"), x.Dim(c.int("dim"))
		k := n - c.int("shift")%n
		return tensor.Concat(dim, x.Narrow(dim, k, n-k), x.Narrow(dim, 0, k))
	}),
	"triu": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Triu(c.int("diagonal")) }),
	"tril": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Tril(c.int("diagonal")) }),
	"one_hot": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return x.OneHot(tensor.I64, c.int("num_classes"))
	}),

	"softmax":     one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.Softmax(c.int("dim")) }),
	"log_softmax": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(c.int("dim")) }),
	"layer_norm": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		if len(c.in) == 1 {
			return x.LayerNorm(nil, nil, c.float("eps", 0), 1)
		}
		return x.LayerNorm(c.in[1], c.in[2], c.float("eps", 0), 1)
	}),
	"rms_norm": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		if len(c.in) == 1 {
			return x.RMSNorm(nil, c.float("eps", 0))
		}
		return x.RMSNorm(c.in[1], c.float("eps", 0))
	}),
	"cross_entropy": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		if c.Strings["reduction"] == "mean" {
			return x.CrossEntropy(c.in[1], int64(c.int("ignore_index")))
		}
		rows, _ := c.picked(x.LogSoftmax(1))
		return c.reduced(rows)
	}),
	"nll_loss": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		rows, counts := c.picked(x)
		return rows.Sum().Div(counts.Sum())
	}),
	"mse_loss": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor { return c.reduced(x.Sub(c.in[1]).Square()) }),
	"bce_with_logits": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return c.reduced(x.ReLU().Sub(x.Mul(c.in[1])).Add(x.Abs().Neg().Exp().AddS(1).Log()))
	}),
	"sdpa": one(func(c *goldenCase, q *tensor.Tensor) *tensor.Tensor {
		return tensor.Attention(q, c.in[1], c.in[2], 1/math.Sqrt(float64(q.Dim(-1))), c.int("causal") != 0)
	}),
	"rope": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		n, half := x.Dim(-2), x.Dim(-1)/2
		cos := &array{dt: tensor.F32, sh: tensor.Shape{n, half}}
		sin := &array{dt: tensor.F32, sh: cos.sh}
		for p := range n {
			for i := range half {
				s, u := math.Sincos(float64(c.int("offset")+p) * math.Pow(c.float("theta", 0), -float64(i)/float64(half)))
				sin.f, cos.f = append(sin.f, s), append(cos.f, u)
			}
		}
		return x.Rope(put(x.Session(), cos), put(x.Session(), sin))
	}),
	"conv2d": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		var bias *tensor.Tensor
		if len(c.in) > 2 {
			bias = c.in[2]
		}
		return x.Conv2D(c.in[1], bias, tensor.ConvOptions{Stride: c.pairs("stride"), Pad: c.pairs("padding"), Dilation: c.pairs("dilation"), Groups: c.int("groups")})
	}),
	"max_pool2d": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return x.MaxPool2D(c.int("kernel"), c.int("stride"), c.int("padding"))
	}),
	"avg_pool2d": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		return x.AvgPool2D(c.int("kernel"), c.int("stride"), c.int("padding"))
	}),
	"batch_norm2d": one(func(c *goldenCase, x *tensor.Tensor) *tensor.Tensor {
		mean := x.MeanKeep(0, 2, 3)
		d := x.Sub(mean)
		r := d.Square().MeanKeep(0, 2, 3).AddS(c.float("eps", 0)).Rsqrt()
		return d.Mul(r).Mul(c.in[1].Reshape(-1, 1, 1)).Add(c.in[2].Reshape(-1, 1, 1))
	}),
}
