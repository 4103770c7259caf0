package enginetest

import (
	"github.com/ringside-go/ringside/tensor"
)

// rule records one operation, or returns nil where the pool has no operands for it.
type rule func(g *generator) *tensor.Tensor

// buildRules returns the rules, which are drawn with equal chance.
func buildRules() []rule {
	var l []rule
	add := func(r ...rule) { l = append(l, r...) }
	add(leafRules...)
	for _, f := range []func(*tensor.Tensor) *tensor.Tensor{
		(*tensor.Tensor).Neg, (*tensor.Tensor).Abs, (*tensor.Tensor).Sign, (*tensor.Tensor).Square, (*tensor.Tensor).ReLU,
		(*tensor.Tensor).Sin, (*tensor.Tensor).Cos, (*tensor.Tensor).Tanh, (*tensor.Tensor).Sigmoid, (*tensor.Tensor).Exp,
		(*tensor.Tensor).GELU, (*tensor.Tensor).GELUTanh, (*tensor.Tensor).SiLU, (*tensor.Tensor).Erf, (*tensor.Tensor).Floor, (*tensor.Tensor).Ceil,
	} {
		add(func(g *generator) *tensor.Tensor { return f(tame(g.number(0))) })
	}
	for _, f := range []func(*tensor.Tensor) *tensor.Tensor{
		(*tensor.Tensor).Log, (*tensor.Tensor).Sqrt, (*tensor.Tensor).Rsqrt, (*tensor.Tensor).Reciprocal,
	} {
		add(func(g *generator) *tensor.Tensor { return f(g.float(0).Abs().AddS(0.25)) })
	}
	for _, op := range []tensor.Op{tensor.OpAdd, tensor.OpSub, tensor.OpMul, tensor.OpMax, tensor.OpMin} {
		add(arithmetic(op), arithmetic(op))
	}
	for _, op := range tensor.Ops() {
		switch info := op.Info(); {
		case info.Kind == tensor.KindComparison:
			add(comparison(op))
		case info.Kind == tensor.KindLogic && info.MinTensors == 2:
			add(func(g *generator) *tensor.Tensor {
				x := truth(g.any(0))
				return g.s.Apply(op, nil, tensor.T(x), tensor.T(truth(g.beside(x))))
			})
		case info.Kind == tensor.KindGradient:
			add(func(g *generator) *tensor.Tensor {
				x := g.float(0)
				return g.s.Apply(op, nil, tensor.T(x), tensor.T(tame(g.beside(x).Cast(x.DType()))))
			})
		}
	}
	add(elementwiseRules...)
	for _, op := range []tensor.Op{tensor.OpSum, tensor.OpMean, tensor.OpAmax, tensor.OpAmin, tensor.OpProd, tensor.OpAny, tensor.OpAll} {
		add(fold(op))
	}
	add(reductionRules...)
	add(viewRules...)
	add(viewRules...)
	add(movementRules...)
	add(rowRules...)
	return l
}

var leafRules = []rule{
	func(g *generator) *tensor.Tensor { return g.upload(pick(g, tensor.DTypes()...), g.shape(4)) },
	func(g *generator) *tensor.Tensor {
		return tensor.Full(g.s, pick(g, tensor.DTypes()...), float64(g.n(7))/2, g.shape(3)...)
	},
	func(g *generator) *tensor.Tensor {
		return tensor.Arange(g.s, pick(g, tensor.F32, tensor.F64, tensor.I32, tensor.I64), float64(g.n(9)-4), pick(g, 1, 2, -1, 0.5), g.n(40))
	},
	func(g *generator) *tensor.Tensor {
		return tensor.Rand(g.s, pick(g, tensor.F32, tensor.F64), g.shape(3)...)
	},
	func(g *generator) *tensor.Tensor {
		return tensor.RandN(g.s, pick(g, tensor.F32, tensor.F64), g.shape(3)...)
	},
	func(g *generator) *tensor.Tensor { return g.float(0).Dropout(pick(g, 0, 0.25, 0.5)) },
	func(g *generator) *tensor.Tensor { return g.any(0).Barrier() },
}

// constant returns a number within x's dtype, if x is of integers. It may have a fraction
// then too, so that the result is of floats.
func (g *generator) constant(x *tensor.Tensor) float64 {
	if x.DType() == tensor.U8 || x.DType() == tensor.Bool {
		return pick(g, 0, 1, 3, 1.5)
	}
	return pick(g, 0, 1, -2, 3, 0.5, -1.25, 0.1)
}

// arithmetic returns the rule of a binary operation of two tensors, or of a tensor and a
// number on either side.
func arithmetic(op tensor.Op) rule {
	return func(g *generator) *tensor.Tensor {
		x := tame(g.any(0))
		if x.DType() == tensor.Bool && op == tensor.OpSub {
			x = x.Cast(tensor.I32)
		}
		switch g.n(5) {
		case 0:
			return g.s.Apply(op, nil, tensor.T(x), tensor.S(g.constant(x)))
		case 1:
			return g.s.Apply(op, nil, tensor.S(g.constant(x)), tensor.T(x))
		case 2:
			return g.s.Apply(op, nil, tensor.T(x), tensor.T(x))
		}
		return g.s.Apply(op, nil, tensor.T(x), tensor.T(g.beside(x)))
	}
}

func comparison(op tensor.Op) rule {
	return func(g *generator) *tensor.Tensor {
		x := g.any(0)
		if g.chance(4) && x.DType() != tensor.Bool {
			return g.s.Apply(op, nil, tensor.T(x), tensor.S(g.constant(x)))
		}
		return g.s.Apply(op, nil, tensor.T(x), tensor.T(g.beside(x)))
	}
}

var elementwiseRules = []rule{
	func(g *generator) *tensor.Tensor { return truth(g.any(0)).Not() },
	func(g *generator) *tensor.Tensor {
		x, d := g.any(0), pick(g, tensor.DTypes()...)
		if d == tensor.Bool && x.DType().IsFloat() {
			return truth(x)
		}
		return g.s.Apply(tensor.OpCast, []int64{int64(d)}, tensor.T(x))
	},
	func(g *generator) *tensor.Tensor { return g.number(0).Clamp(pick(g, -1, 0, 0.5), pick(g, 1, 2.5, 3)) },
	func(g *generator) *tensor.Tensor {
		x := g.float(0)
		return x.Div(g.beside(x).Cast(x.DType()).Abs().AddS(0.5))
	},
	func(g *generator) *tensor.Tensor { return g.number(0).DivS(pick(g, 2, 3, -0.7)) },
	func(g *generator) *tensor.Tensor { return g.float(0).Abs().AddS(0.5).RDivS(1) },
	func(g *generator) *tensor.Tensor {
		x := g.float(0).Abs().AddS(0.5)
		return x.Pow(tame(g.beside(x).Cast(x.DType())))
	},
	func(g *generator) *tensor.Tensor { return g.float(0).PowS(pick(g, 2.0, 3, 0, 1)) },
	func(g *generator) *tensor.Tensor {
		x := g.any(0).Cast(pick(g, tensor.I32, tensor.I64, tensor.U8))
		return x.Pow(g.beside(x).Cast(x.DType()))
	},
	func(g *generator) *tensor.Tensor {
		x := tame(g.any(0))
		y := g.beside(x)
		c := truth(g.beside(x))
		if sh, err := tensor.Broadcast(y.Shape(), c.Shape()); err != nil || sh.Elems() > maxElems {
			return nil
		}
		return tensor.Where(c, x, y)
	},
	func(g *generator) *tensor.Tensor {
		x := g.number(0)
		return tensor.WhereS(g.like(tensor.Bool, x.Shape()), x, g.constant(x))
	},
	func(g *generator) *tensor.Tensor {
		x := g.number(0)
		return x.MaskedFill(x.GtS(1), g.constant(x))
	},
	func(g *generator) *tensor.Tensor { return g.update(tensor.OpAdamM, 2, 0.9) },
	func(g *generator) *tensor.Tensor { return g.update(tensor.OpAdamV, 2, 0.999) },
	func(g *generator) *tensor.Tensor { return g.update(tensor.OpSGD, 2, 0.1, 0.01) },
	func(g *generator) *tensor.Tensor { return g.update(tensor.OpSGDM, 3, 0.9, 0.1, 0.01) },
	func(g *generator) *tensor.Tensor { return g.update(tensor.OpAdamW, 3, 0.01, 0.1, 1e-8, 0.1, 0.002) },
}

// update returns an optimizer's operation on n tensors of one shape; the last one isn't
// negative.
func (g *generator) update(op tensor.Op, n int, scalars ...float64) *tensor.Tensor {
	x := g.float(0)
	args := []tensor.Arg{tensor.T(x)}
	for range n - 1 {
		args = append(args, tensor.T(g.like(x.DType(), x.Shape())))
	}
	if op == tensor.OpAdamW {
		args[2] = tensor.T(g.like(x.DType(), x.Shape()).Square())
	}
	for _, f := range scalars {
		args = append(args, tensor.S(f))
	}
	return g.s.Apply(op, nil, args...)
}

// fold returns the rule of a reduction over random dims.
func fold(op tensor.Op) rule {
	return func(g *generator) *tensor.Tensor {
		x := tame(g.any(0))
		switch op {
		case tensor.OpAny, tensor.OpAll:
			x = truth(x)
		case tensor.OpAmax, tensor.OpAmin:
			if x = tame(g.number(0)); x.Elems() == 0 {
				return nil
			}
		}
		ints := []int64{int64(g.n(2))}
		return g.s.Apply(op, append(ints, ints64(g.dims(x), x.Rank())...), tensor.T(x))
	}
}

var reductionRules = []rule{
	func(g *generator) *tensor.Tensor {
		x := g.number(1)
		if x.Elems() == 0 {
			return nil
		}
		return pick(g, x.Argmax, x.Argmin)(g.axis(x))
	},
	func(g *generator) *tensor.Tensor {
		if x := g.number(0); x.Elems() > 0 {
			return x.ArgmaxAll()
		}
		return nil
	},
	func(g *generator) *tensor.Tensor {
		x := tame(g.any(1))
		return g.s.Apply(tensor.OpCumsum, []int64{int64(g.axis(x)), int64(g.n(2))}, tensor.T(x))
	},
	func(g *generator) *tensor.Tensor {
		x := g.float(1)
		dims := g.dims(x)
		return g.s.Apply(tensor.OpProdGrad, ints64(dims, x.Rank()), tensor.T(x), tensor.T(x.SumKeep(dims...).Clamp(-2, 2)))
	},
}

func ints64(dims []int, rank int) []int64 {
	var out []int64
	for _, d := range dims {
		out = append(out, int64((d+rank)%rank))
	}
	return out
}

var viewRules = []rule{
	func(g *generator) *tensor.Tensor { // reshape: two dims into one, or one into two
		x := g.any(1)
		sh := append([]int(nil), x.Shape()...)
		d := g.axis(x)
		if d+1 < len(sh) && g.chance(2) {
			sh[d] *= sh[d+1]
			return x.Reshape(append(sh[:d+1], sh[d+2:]...)...)
		}
		for _, f := range []int{2, 3, 5, 1} {
			if sh[d]%f == 0 && len(sh) < 6 {
				sh[d] /= f
				return x.Reshape(append(sh[:d:d], append([]int{f}, sh[d:]...)...)...)
			}
		}
		return x.Flatten()
	},
	func(g *generator) *tensor.Tensor { return g.any(0).Flatten() },
	func(g *generator) *tensor.Tensor { return g.any(0).Squeeze() },
	func(g *generator) *tensor.Tensor {
		if x := g.any(0); x.Rank() < 6 {
			return x.Unsqueeze(g.n(x.Rank() + 1))
		}
		return nil
	},
	func(g *generator) *tensor.Tensor {
		x := g.any(2)
		p := make([]int, x.Rank())
		for d := range p {
			j := g.n(d + 1)
			p[d], p[j] = p[j], d
		}
		return x.Permute(p...)
	},
	func(g *generator) *tensor.Tensor { return g.any(2).T() },
	func(g *generator) *tensor.Tensor {
		x := g.any(1)
		return x.Flip(g.axis(x))
	},
	func(g *generator) *tensor.Tensor { // expand: repeat dims of 1, add dims
		x := g.any(0)
		sh := append([]int(nil), x.Shape()...)
		for d := range sh {
			if sh[d] == 1 {
				sh[d] = 1 + g.n(4)
			}
		}
		if len(sh) < 5 {
			sh = append([]int{1 + g.n(3)}, sh...)
		}
		if tensor.Shape(sh).Elems() > maxElems {
			return nil
		}
		return x.Expand(sh...)
	},
	func(g *generator) *tensor.Tensor { // slice: any start, step and count that fit
		x := g.any(1)
		var ints []int64
		for _, n := range x.Shape() {
			start, step, count := 0, 1, n
			if n > 0 && g.chance(2) {
				start, step = g.n(n), pick(g, 1, 1, 2, 3, -1, -2)
				most := (n-1-start)/max(step, 1) + 1
				if step < 0 {
					most = start/-step + 1
				}
				count = g.n(most + 1)
				if g.chance(2) {
					count = most
				}
			}
			ints = append(ints, int64(start), int64(step), int64(count))
		}
		return g.s.Apply(tensor.OpSlice, ints, tensor.T(x))
	},
}

var movementRules = []rule{
	func(g *generator) *tensor.Tensor {
		x := g.any(1)
		d := g.axis(x)
		sh := append([]int(nil), x.Shape()...)
		sh[d] = g.n(4)
		parts := []*tensor.Tensor{x, g.like(x.DType(), sh), x.Flip(d)}
		return tensor.Concat(d, parts[:1+g.n(3)]...)
	},
	func(g *generator) *tensor.Tensor {
		x := g.any(0)
		var p [][2]int
		for range x.Rank() {
			p = append(p, [2]int{g.n(3), g.n(3)})
		}
		return x.Pad(float64(g.n(3)), p...)
	},
	func(g *generator) *tensor.Tensor {
		return pick(g, (*tensor.Tensor).Tril, (*tensor.Tensor).Triu)(g.any(2), g.n(5)-2)
	},
	func(g *generator) *tensor.Tensor {
		x := g.any(1)
		d := g.axis(x)
		sh := g.shape(2)
		if x.Dim(d) == 0 || x.Elems()/x.Dim(d)*tensor.Shape(sh).Elems() > maxElems {
			return nil
		}
		return x.IndexSelect(d, g.fromEnd(x.Dim(d), sh...))
	},
	func(g *generator) *tensor.Tensor {
		x := tame(g.number(1))
		d := g.axis(x)
		if x.Dim(d) == 0 {
			return nil
		}
		sh := append([]int(nil), x.Shape()...)
		n := g.n(5)
		sh[d] = n
		if tensor.Shape(sh).Elems() > maxElems {
			return nil
		}
		return x.IndexAdd(d, g.fromEnd(x.Dim(d), n), g.like(x.DType(), sh))
	},
	func(g *generator) *tensor.Tensor {
		x, d, idx := g.scattered()
		if x == nil {
			return nil
		}
		return x.Gather(d, idx)
	},
	func(g *generator) *tensor.Tensor {
		x, d, idx := g.scattered()
		if x == nil || x.DType() == tensor.Bool {
			return nil
		}
		return tame(x).ScatterAdd(d, idx, g.like(x.DType(), idx.Shape()))
	},
	func(g *generator) *tensor.Tensor {
		n := 1 + g.n(6)
		return g.indices(n, g.shape(2)...).OneHot(pick(g, tensor.DTypes()...), n)
	},
}

// scattered returns a tensor, a dim of it, and indices of gather's shape: any size in
// that dim, no larger in the others.
func (g *generator) scattered() (x *tensor.Tensor, dim int, idx *tensor.Tensor) {
	x = g.any(1)
	dim = g.axis(x)
	if x.Dim(dim) == 0 {
		return nil, 0, nil
	}
	sh := append([]int(nil), x.Shape()...)
	for d := range sh {
		sh[d] = g.n(sh[d] + 1)
	}
	sh[dim] = g.n(6)
	if tensor.Shape(sh).Elems() > maxElems {
		return nil, 0, nil
	}
	return x, dim, g.indices(x.Dim(dim), sh...)
}
