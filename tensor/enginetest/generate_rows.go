package enginetest

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

var rowRules = slices.Concat([]rule{
	func(g *generator) *tensor.Tensor { return g.matmul() },
	func(g *generator) *tensor.Tensor { return g.matmul() },
	func(g *generator) *tensor.Tensor { // a product with its own transpose
		x := tame(g.number(2))
		return x.Matmul(x.T())
	},
	func(g *generator) *tensor.Tensor { x := g.float(1); return x.Softmax(g.axis(x)) },
	func(g *generator) *tensor.Tensor { x := g.float(1); return x.LogSoftmax(g.axis(x)) },
}, forOps((*generator).rowGrad, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad), []rule{
	func(g *generator) *tensor.Tensor {
		x := g.float(2)
		if x.Dim(-1) < x.Dim(-2) {
			x = x.T()
		}
		return x.CausalSoftmax(pick(g, 1.0, 0.3))
	},
}, forOps((*generator).norm, tensor.OpLayerNorm, tensor.OpRMSNorm, tensor.OpLayerNormGradX, tensor.OpRMSNormGradX,
	tensor.OpLayerNormGradW, tensor.OpRMSNormGradW), []rule{
	func(g *generator) *tensor.Tensor {
		x := g.float(2)
		if x.Dim(-1)%2 == 1 {
			x = tensor.Concat(-1, x, x)
		}
		a := g.like(x.DType(), []int{x.Dim(-2), x.Dim(-1) / 2})
		return g.s.Apply(tensor.OpRope, []int64{int64(g.n(2))}, tensor.T(x), tensor.T(a.Cos()), tensor.T(a.Sin()))
	},
	func(g *generator) *tensor.Tensor { return g.loss(false) },
	func(g *generator) *tensor.Tensor { return g.loss(true) },
}, forOps((*generator).conv, tensor.OpConv2D, tensor.OpConv2DGradX, tensor.OpConv2DGradW),
	forOps((*generator).pooled, tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad))

// forOps returns a rule for each of the operations.
func forOps(f func(g *generator, op tensor.Op) *tensor.Tensor, ops ...tensor.Op) (l []rule) {
	for _, op := range ops {
		l = append(l, func(g *generator) *tensor.Tensor { return f(g, op) })
	}
	return l
}

// matmul returns a product whose second operand is made to fit, perhaps as a transposed
// view.
func (g *generator) matmul() *tensor.Tensor {
	x := tame(g.number(1))
	sh := []int{x.Dim(-1), g.dim()}
	turned := g.chance(2)
	if turned {
		slices.Reverse(sh)
	}
	for d := x.Rank() - 3; d >= 0 && g.chance(2); d-- {
		sh = append([]int{pick(g, x.Dim(d), 1)}, sh...)
	}
	y := g.like(x.DType(), sh)
	if turned {
		y = y.T()
	}
	if x.Rank() > 1 && g.chance(6) {
		return y.T().Matmul(x.T())
	}
	return x.Matmul(y)
}

func (g *generator) rowGrad(op tensor.Op) *tensor.Tensor {
	x := g.float(1)
	return g.s.Apply(op, []int64{int64(g.axis(x))}, tensor.T(x), tensor.T(g.like(x.DType(), x.Shape())))
}

// norm returns a normalisation over the last one or two dims, or one of its gradients.
func (g *generator) norm(op tensor.Op) *tensor.Tensor {
	x := g.float(1)
	n := 1 + g.n(min(2, x.Rank()))
	last := x.Shape()[x.Rank()-n:]
	args := []tensor.Arg{tensor.T(x)}
	switch op {
	case tensor.OpLayerNorm, tensor.OpRMSNorm:
		for range g.n(op.Info().MaxTensors) {
			args = append(args, tensor.T(g.like(x.DType(), last)))
		}
	default:
		args = append(args, tensor.T(g.like(x.DType(), x.Shape())))
		if op.Info().MaxTensors > 2 && g.chance(2) {
			args = append(args, tensor.T(g.like(x.DType(), last)))
		}
	}
	return g.s.Apply(op, []int64{int64(n)}, append(args, tensor.S(pick(g, 1e-5, 1e-2)))...)
}

func (g *generator) loss(grad bool) *tensor.Tensor {
	x := g.float(2)
	if x.Rank() != 2 {
		x = x.Reshape(x.Elems()/max(x.Dim(-1), 1), x.Dim(-1))
	}
	if x.Dim(1) == 0 {
		return nil
	}
	y := g.indices(x.Dim(1), x.Dim(0))
	ignore := int64(pick(g, -100, 0, 1))
	if !grad {
		return x.CrossEntropy(y, ignore)
	}
	return g.s.Apply(tensor.OpCrossEntropyGrad, []int64{ignore}, tensor.T(x), tensor.T(y), tensor.T(g.upload(x.DType(), nil)))
}

// conv returns a convolution or one of its gradients, of fitting geometry.
func (g *generator) conv(op tensor.Op) *tensor.Tensor {
	d := pick(g, tensor.F32, tensor.F32, tensor.F64)
	groups := 1 + g.n(2)
	x := []int{1 + g.n(2), groups * (1 + g.n(2)), 3 + g.n(5), 3 + g.n(5)}
	w := []int{groups * (1 + g.n(3)), x[1] / groups, 1 + g.n(3), 1 + g.n(3)}
	a := []int64{int64(1 + g.n(2)), int64(1 + g.n(3)), int64(g.n(2)), int64(g.n(2)), 1, 1, int64(groups)}
	y := []int{x[0], w[0], 0, 0}
	for i := range 2 {
		if a[4+i] += int64(g.n(2)); (int(a[4+i])*(w[2+i]-1) + 1) > x[2+i]+2*int(a[2+i]) {
			a[4+i] = 1
		}
		y[2+i] = (x[2+i]+2*int(a[2+i])-int(a[4+i])*(w[2+i]-1)-1)/int(a[i]) + 1
	}
	apply := func(a []int64, p, q []int) *tensor.Tensor {
		return g.s.Apply(op, a, tensor.T(g.like(d, p)), tensor.T(g.like(d, q)))
	}
	switch op {
	case tensor.OpConv2DGradX:
		return apply(append(a, int64(x[2]), int64(x[3])), y, w)
	case tensor.OpConv2DGradW:
		return apply(append(a, int64(w[2]), int64(w[3])), x, y)
	}
	return apply(a, x, w)
}

// pooled returns a pool or its gradient.
func (g *generator) pooled(op tensor.Op) *tensor.Tensor {
	d := pick(g, tensor.F32, tensor.F32, tensor.F64)
	x := []int{1 + g.n(2), 1 + g.n(3), 3 + g.n(5), 3 + g.n(5)}
	a := []int64{int64(1 + g.n(3)), int64(1 + g.n(3)), int64(1 + g.n(3)), int64(1 + g.n(3)), 0, 0}
	y := []int{x[0], x[1], 0, 0}
	for i := range 2 {
		a[4+i] = int64(g.n(int(a[i])/2 + 1))
		y[2+i] = (x[2+i]+2*int(a[4+i])-int(a[i]))/int(a[2+i]) + 1
	}
	switch op {
	case tensor.OpMaxPool2DGrad:
		return g.s.Apply(op, a, tensor.T(g.like(d, x)), tensor.T(g.like(d, y)))
	case tensor.OpAvgPool2DGrad:
		return g.s.Apply(op, append(a, int64(x[2]), int64(x[3])), tensor.T(g.like(d, y)))
	}
	return g.s.Apply(op, a, tensor.T(g.like(d, x)))
}
