package enginetest

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
)

// noise disturbs the reference by single units in the last place, at random but by seed.
// The distance of its results is the distance that two right engines may have (stochastic
// arithmetic: Vignes 1993). Operations whose result every engine must give exactly are
// not disturbed.
type noise struct {
	key    uint64
	n      uint64
	factor float64 // 0 stands for 1
	turned bool    // all signs are the others
}

// sign returns 1 or -1, times the factor.
func (n *noise) sign() float64 {
	n.n++
	x := float64(data.Hash(n.key, n.n)>>63)*2 - 1
	if n.turned {
		x = -x
	}
	if n.factor != 0 {
		x *= n.factor
	}
	return x
}

// ulp returns the distance of 1 to the next number of the dtype.
func ulp(d tensor.DType) float64 {
	switch d {
	case tensor.F32:
		return 0x1p-23
	case tensor.F16:
		return 0x1p-10
	case tensor.BF16:
		return 0x1p-7
	}
	return 0x1p-52
}

// nearly is the most units in the last place between numbers that another right engine
// may find equal.
const nearly = 256

// near reports whether to take x and y for equal. Disturbed numbers are never equal by
// themselves. Of nearly equal pairs, one noisy run takes none for equal, one takes all,
// and the others take every second by chance: so later operations may see any pattern.
func (n *noise) near(x, y, ulp float64) bool {
	if n.factor < 2 || math.IsInf(y, 0) || !(math.Abs(x-y) <= nearly*ulp*math.Abs(y)) {
		return false
	}
	return n.factor == 2 || n.sign() > 0
}

// inputs replaces the float arguments of c by neighbours. They are not rounded to their
// dtype again.
func (n *noise) inputs(c *call) {
	c.near = n.near
	if !exact(c.op, c.dt) {
		c.args = c.changed(func(d tensor.DType, x float64) float64 { return x * (1 + n.sign()*ulp(d)) })
	}
}

// changed returns the arguments with f applied to the elements of floats.
func (c *call) changed(f func(d tensor.DType, x float64) float64) []operand {
	args := slices.Clone(c.args)
	for k, o := range args {
		if o.a == nil || !o.a.dt.IsFloat() {
			continue
		}
		b := o.a.clone()
		for j, x := range b.f {
			b.f[j] = f(b.dt, x)
		}
		args[k].a = b
	}
	return args
}

// output disturbs the elements of c's result, and also by the size of its terms where
// they may cancel.
func (n *noise) output(c *call, a *array) error {
	if exact(c.op, c.dt) {
		return nil
	}
	sizes, err := c.sizes()
	if err != nil {
		return err
	}
	u := ulp(a.dt)
	for j, x := range a.f {
		a.f[j] = x*(1+2*n.sign()*u) + n.sign()*slack(c.op)*u
		if sizes != nil {
			a.f[j] += n.sign() * u * sizes.f[j]
			if int(n.factor)%2 == 0 && n.factor > 0 && math.Abs(x) < roundings*u*sizes.f[j] {
				// the rest of terms that cancel may be exactly 0, which is another truth
				// value
				a.f[j] = 0
			}
		}
	}
	return nil
}

// exact reports whether every engine must give the same bits (a zero's sign and a NaN's
// payload aside): integers, bools, everything that only moves or chooses elements, and
// the operations that IEEE 754 rounds correctly.
func exact(op tensor.Op, d tensor.DType) bool {
	if !d.IsFloat() {
		return true
	}
	switch op {
	case tensor.OpRandN, tensor.OpExp, tensor.OpLog, tensor.OpRsqrt, tensor.OpSin, tensor.OpCos, tensor.OpTanh, tensor.OpSigmoid,
		tensor.OpGelu, tensor.OpGeluTanh, tensor.OpSilu, tensor.OpErf, tensor.OpPow, tensor.OpIndexAdd, tensor.OpScatterAdd,
		tensor.OpDropout:
		return false
	case tensor.OpReluGrad, tensor.OpMaxPool2D, tensor.OpAmax, tensor.OpAmin:
		return true
	}
	if k := op.Info().Kind; k == tensor.KindGradient || k == tensor.KindUpdate {
		return false
	}
	switch op.Info().Class {
	case tensor.ClassReduction, tensor.ClassContraction, tensor.ClassRow:
		return false
	}
	return true
}

// sizes returns c's result if nothing in it cancels: the sum of the sizes of all terms of
// each element. It is nil for operations whose error isn't that of a sum.
func (c *call) sizes() (*array, error) {
	d := *c
	switch c.op {
	case tensor.OpSum, tensor.OpMean, tensor.OpCumsum, tensor.OpProd, tensor.OpProdGrad, tensor.OpMatmul, tensor.OpConv2D, tensor.OpConv2DGradX,
		tensor.OpConv2DGradW, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad, tensor.OpIndexAdd, tensor.OpScatterAdd, tensor.OpAdamM, tensor.OpAdamV:
		// linear, or nearly, with coefficients that aren't negative: the result on the
		// operands' sizes
		d.args = c.changed(func(_ tensor.DType, x float64) float64 { return math.Abs(x) })
	case tensor.OpSGD, tensor.OpSGDM, tensor.OpAdamW, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad, tensor.OpCrossEntropyGrad, tensor.OpLayerNorm, tensor.OpRMSNorm, tensor.OpLayerNormGradX, tensor.OpRMSNormGradX,
		tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
		d.terms = true
	default:
		return nil, nil
	}
	return d.eval()
}

// slack returns the absolute error that an operation may have for any operands: of a
// float32 where the mathematical result is a difference of nearly equal terms, in units
// of the last place of 1.
func slack(op tensor.Op) float64 {
	switch op {
	case tensor.OpGelu, tensor.OpGeluTanh, tensor.OpGeluGrad, tensor.OpGeluTanhGrad, tensor.OpSiluGrad, tensor.OpRandN:
		return 16
	case tensor.OpLogSoftmax, tensor.OpCrossEntropy: // the logarithm of a sum near 1
		return 4
	case tensor.OpErf, tensor.OpSin, tensor.OpCos:
		return 2
	}
	return 0
}

// Bounds of a comparison, in units of the last place.
const (
	// roundings is the number of roundings that a kernel may have beside those that the
	// condition of the operation explains.
	roundings = 8
	// samples is the number of disturbed evaluations.
	samples = 6
)

// bound evaluates c exactly and gives each float element the distance that an engine's
// result may have from it. A bound of +Inf excludes the element: a unit in the last place
// of an operand makes it overflow.
func bound(c *call, seed uint64) (want *array, tol []float64, err error) {
	if want, err = c.eval(); err != nil {
		return nil, nil, err
	}
	raw := want.f
	want = want.clone()
	want.settle()
	if exact(c.op, c.dt) {
		return want, nil, nil
	}
	u := ulp(c.dt)
	tol = make([]float64, len(raw))
	tiny := math.SmallestNonzeroFloat32 * 0x1p24 // a kernel may flush subnormals
	if c.op == tensor.OpSilu {
		tiny *= 16 // and their products with -89
	}
	for k, x := range raw {
		tol[k] = roundings*u*math.Abs(x) + slack(c.op)*u + tiny
	}
	sizes, err := c.sizes()
	if err != nil {
		return nil, nil, err
	}
	if sizes != nil {
		most := 0
		for _, o := range c.args {
			if o.a != nil {
				most = max(most, o.a.len())
			}
		}
		terms := math.Sqrt(float64(most)/float64(max(len(raw), 1))) + math.Sqrt(float64(c.innerDim()))
		for k := range tol {
			tol[k] += u * (roundings + terms) * math.Abs(sizes.f[k])
		}
	}
	n := &noise{key: data.Hash(seed, 0x5eed)}
	for range samples {
		d := *c
		n.inputs(&d)
		y, err := d.eval()
		if err != nil {
			return nil, nil, err
		}
		for k := range tol {
			if y.f[k] != y.f[k] && raw[k] == raw[k] {
				continue // no number beside it: a power of a negative one, to a fraction
			}
			tol[k] = max(tol[k], 2*roundings*math.Abs(y.f[k]-raw[k])+roundings*u*math.Abs(raw[k])+slack(c.op)*u)
		}
	}
	return want, tol, nil
}

// innerDim returns the number of terms of each element of a matrix product, 1 otherwise.
func (c *call) innerDim() int {
	if c.op != tensor.OpMatmul {
		return 1
	}
	a := c.tensor(0).sh
	return a[len(a)-1]
}
