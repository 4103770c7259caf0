package enginetest

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/elementary"
)

// operand is an argument of an instruction: a tensor, or a number where a is nil.
type operand struct {
	a *array
	x float64
}

// call is one instruction and its arguments: tensors first, then scalars (see
// tensor.OpInfo).
type call struct {
	op   tensor.Op
	dt   tensor.DType
	sh   tensor.Shape
	ints []int64
	args []operand

	// terms has differences evaluated as sums of absolute values: the size of the numbers
	// that an engine rounds on its way.
	terms bool
	// near reports whether another right engine may find two floats equal.
	near func(x, y, ulp float64) bool
}

// minus returns a-b, or the size of its terms.
func (c *call) minus(a, b float64) float64 {
	if c.terms {
		return math.Abs(a) + math.Abs(b)
	}
	return a - b
}

// term returns x, or its size.
func (c *call) term(x float64) float64 {
	if c.terms {
		return math.Abs(x)
	}
	return x
}

func (c *call) tensor(k int) *array { return c.args[k].a }

// scalar returns the k-th of the scalars that follow the tensors.
func (c *call) scalar(k int) float64 {
	return c.args[len(c.args)-len(c.op.Info().Scalars)+k].x
}

// tensors returns the number of tensor arguments.
func (c *call) tensors() int { return len(c.args) - len(c.op.Info().Scalars) }

// inputs returns a description of the arguments for errors.
func (c *call) inputs() string {
	var s []string
	for _, o := range c.args {
		if o.a == nil {
			s = append(s, fmt.Sprint(o.x))
		} else {
			s = append(s, fmt.Sprintf("%v%v", o.a.dt, o.a.sh))
		}
	}
	return strings.Join(s, ", ")
}

// eval computes the instruction with floats in double precision, without the last
// rounding to c.dt, which settle does.
func (c *call) eval() (*array, error) {
	out := newArray(c.dt, c.sh)
	switch c.op.Info().Class {
	case tensor.ClassLeaf:
		c.leaf(out)
	case tensor.ClassElementwise:
		c.elementwise(out)
	case tensor.ClassReduction:
		c.reduce(out)
	case tensor.ClassView:
		c.view(out)
	case tensor.ClassMovement:
		return out, c.move(out)
	case tensor.ClassContraction:
		c.contract(out)
	case tensor.ClassRow:
		return out, c.row(out)
	}
	return out, nil
}

func (c *call) leaf(out *array) {
	switch c.op {
	case tensor.OpFull:
		x := scalarArray(c.dt, c.scalar(0))
		for k := range out.len() {
			out.copyFrom(k, x, 0)
		}
	case tensor.OpArange:
		start, step := c.scalar(0), c.scalar(1)
		for k := range out.len() {
			x := start + float64(k)*step
			out.set(k, x, toInt(c.dt, x))
		}
	case tensor.OpRand, tensor.OpRandN:
		s := stream{uint64(c.scalar(0)), uint64(c.scalar(1)) + uint64(c.ints[1])}
		for k := range out.len() {
			if c.op == tensor.OpRand {
				out.f[k] = s.uniform(c.dt, k)
			} else {
				out.f[k] = s.normal(c.dt, k)
			}
		}
	}
}

// elementwise broadcasts the tensors to the result's shape, in one dtype, and computes
// element by element.
func (c *call) elementwise(out *array) {
	first := 0
	if c.op == tensor.OpWhere {
		first = 1
	}
	n := c.tensors()
	common := tensor.Invalid
	for _, o := range c.args[first:n] {
		if o.a != nil {
			common = o.a.dt
		}
	}
	in := make([]*array, n)
	for k, o := range c.args[:n] {
		if o.a == nil {
			in[k] = scalarArray(common, o.x).expand(c.sh)
		} else {
			in[k] = o.a.expand(c.sh)
		}
	}
	switch {
	case c.op == tensor.OpCast:
		*out = *in[0].cast(c.dt)
	case c.op == tensor.OpWhere:
		for k := range out.len() {
			if in[0].i[k] != 0 {
				out.copyFrom(k, in[1], k)
			} else {
				out.copyFrom(k, in[2], k)
			}
		}
	case c.op.Info().Kind == tensor.KindComparison:
		for k := range out.len() {
			if c.compare(in[0], in[1], k) {
				out.i[k] = 1
			}
		}
	case c.op == tensor.OpDropout:
		p := c.scalar(0)
		s := stream{uint64(c.scalar(1)), uint64(c.scalar(2)) + uint64(c.ints[0])}
		for k := range out.len() {
			if s.uniform32(k) >= p {
				out.f[k] = in[0].f[k] / (1 - p)
			}
		}
	case out.dt.IsFloat():
		perElement(out.f, in, func(a *array) []float64 { return a.f }, c.floats())
	default:
		perElement(out.i, in, func(a *array) []int64 { return a.i }, c.integers())
	}
}

func (c *call) compare(a, b *array, k int) bool {
	if !a.dt.IsFloat() {
		return ordered(c.op, a.i[k], b.i[k])
	}
	x, y := a.f[k], b.f[k]
	if (c.op == tensor.OpEq || c.op == tensor.OpNe) && c.near != nil && c.near(x, y, ulp(a.dt)) {
		x = y
	}
	return ordered(c.op, x, y)
}

func ordered[T int64 | float64](op tensor.Op, a, b T) bool {
	switch op {
	case tensor.OpEq:
		return a == b
	case tensor.OpNe:
		return a != b
	case tensor.OpLt:
		return a < b
	case tensor.OpLe:
		return a <= b
	case tensor.OpGt:
		return a > b
	}
	return a >= b
}

const (
	invSqrt2   = 1 / math.Sqrt2
	invSqrt2Pi = 0.3989422804014327 // 1/sqrt(2 pi)
	sqrt2OverP = 0.7978845608028654 // sqrt(2/pi)
	geluCubic  = 0.044715
)

func sigmoid(x float64) float64 { return 1 / (1 + elementary.Exp(-x)) }

// onOne and onTwo make an operation on the list of all operands of one on the first, or
// of one on the first two.
func onOne[T float64 | int64](f func(x T) T) func(x []T) T {
	return func(x []T) T { return f(x[0]) }
}

func onTwo[T float64 | int64](f func(a, b T) T) func(x []T) T {
	return func(x []T) T { return f(x[0], x[1]) }
}

// withNumberOps adds to ops the operations with one definition for floats and integers.
func withNumberOps[T float64 | int64](ops map[tensor.Op]func(x []T) T) map[tensor.Op]func(x []T) T {
	maps.Copy(ops, map[tensor.Op]func(x []T) T{
		tensor.OpNeg:    onOne(func(x T) T { return -x }),
		tensor.OpSquare: onOne(func(x T) T { return x * x }),
		tensor.OpRelu: onOne(func(x T) T {
			if x < 0 {
				return 0
			}
			return x
		}),
		tensor.OpAdd: onTwo(func(a, b T) T { return a + b }),
		tensor.OpSub: onTwo(func(a, b T) T { return a - b }),
		tensor.OpMul: onTwo(func(a, b T) T { return a * b }),
		tensor.OpMax: onTwo(func(a, b T) T { return max(a, b) }),
		tensor.OpMin: onTwo(func(a, b T) T { return min(a, b) }),
	})
	return ops
}

var floatOps = withNumberOps(map[tensor.Op]func(x []float64) float64{
	tensor.OpAbs:      onOne(math.Abs),
	tensor.OpExp:      onOne(elementary.Exp),
	tensor.OpLog:      onOne(elementary.Log),
	tensor.OpSqrt:     onOne(math.Sqrt),
	tensor.OpRsqrt:    onOne(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	tensor.OpRecip:    onOne(func(x float64) float64 { return 1 / x }),
	tensor.OpSin:      onOne(math.Sin),
	tensor.OpCos:      onOne(math.Cos),
	tensor.OpTanh:     onOne(math.Tanh),
	tensor.OpSigmoid:  onOne(sigmoid),
	tensor.OpGelu:     onOne(func(x float64) float64 { return x * math.Erfc(-x*invSqrt2) / 2 }),
	tensor.OpGeluTanh: onOne(func(x float64) float64 { return x * (1 + math.Tanh(sqrt2OverP*(x+geluCubic*x*x*x))) / 2 }),
	tensor.OpSilu:     onOne(func(x float64) float64 { return x * sigmoid(x) }),
	tensor.OpErf:      onOne(math.Erf),
	tensor.OpFloor:    onOne(math.Floor),
	tensor.OpCeil:     onOne(math.Ceil),
	tensor.OpSign: onOne(func(x float64) float64 {
		if x == 0 || x != x {
			return x
		}
		return math.Copysign(1, x)
	}),

	tensor.OpDiv:         onTwo(func(a, b float64) float64 { return a / b }),
	tensor.OpPow:         onTwo(elementary.Pow),
	tensor.OpTanhGrad:    onTwo(func(a, b float64) float64 { return b * (1 - a*a) }),
	tensor.OpSigmoidGrad: onTwo(func(a, b float64) float64 { return b * a * (1 - a) }),
	tensor.OpReluGrad: onTwo(func(a, b float64) float64 {
		if a <= 0 {
			return 0
		}
		return b
	}),
	tensor.OpGeluGrad: onTwo(func(a, b float64) float64 {
		return b * (math.Erfc(-a*invSqrt2)/2 + a*invSqrt2Pi*math.Exp(-a*a/2))
	}),
	tensor.OpGeluTanhGrad: onTwo(func(a, b float64) float64 {
		t := math.Tanh(sqrt2OverP * (a + geluCubic*a*a*a))
		return b * ((1+t)/2 + a/2*(1-t*t)*sqrt2OverP*(1+3*geluCubic*a*a))
	}),
	tensor.OpSiluGrad: onTwo(func(a, b float64) float64 {
		s := sigmoid(a)
		return b * s * (1 + a*(1-s))
	}),
})

var integerOps = withNumberOps(map[tensor.Op]func(x []int64) int64{
	tensor.OpAbs:  onOne(func(x int64) int64 { return max(x, -x) }),
	tensor.OpSign: onOne(func(x int64) int64 { return min(max(x, -1), 1) }),
	tensor.OpNot:  onOne(func(x int64) int64 { return 1 - x }),
	tensor.OpPow:  onTwo(power),
	tensor.OpAnd:  onTwo(func(a, b int64) int64 { return a & b }),
	tensor.OpOr:   onTwo(func(a, b int64) int64 { return a | b }),
	tensor.OpXor:  onTwo(func(a, b int64) int64 { return a ^ b }),
})

// perElement computes an elementwise operation; of returns the elements of an operand.
func perElement[T float64 | int64](out []T, in []*array, of func(a *array) []T, f func(x []T) T) {
	x := make([]T, len(in))
	for k := range out {
		for j := range x {
			x[j] = of(in[j])[k]
		}
		out[k] = f(x)
	}
}

// floats returns the function of one element of the operation on floats.
func (c *call) floats() func(x []float64) float64 {
	if f := floatOps[c.op]; f != nil {
		return f
	}
	if c.op == tensor.OpClamp {
		lo, hi := scalarArray(c.dt, c.scalar(0)).f[0], scalarArray(c.dt, c.scalar(1)).f[0]
		return onOne(func(x float64) float64 { return min(max(x, lo), hi) })
	}
	return c.update
}

// update computes one element of a step of an optimizer.
func (c *call) update(x []float64) float64 {
	switch b := c.scalar(0); c.op {
	case tensor.OpAdamM:
		return x[0]*b + x[1]*(1-b)
	case tensor.OpAdamV:
		return x[0]*b + x[1]*x[1]*(1-b)
	case tensor.OpAdamW:
		lr, wd, eps, c1, c2 := b, c.scalar(1), c.scalar(2), c.scalar(3), c.scalar(4)
		return c.minus(x[0]*(1-lr*wd), lr/c1*x[1]/(math.Sqrt(x[2])/math.Sqrt(c2)+eps))
	case tensor.OpSGD:
		lr, wd := b, c.scalar(1)
		return c.minus(x[0], lr*(c.term(x[1])+c.term(wd*x[0])))
	case tensor.OpSGDM:
		mu, damp, wd := b, c.scalar(1), c.scalar(2)
		return c.term(x[0]*mu) + (c.term(x[1])+c.term(wd*x[2]))*(1-damp)
	}
	panic("enginetest: no reference for " + c.op.String() + " of floats")
}

// integers returns the function of one element of the operation on integers or bools; the
// caller wraps the result.
func (c *call) integers() func(x []int64) int64 {
	if f := integerOps[c.op]; f != nil {
		return f
	}
	if c.op != tensor.OpClamp {
		panic("enginetest: no reference for " + c.op.String() + " of integers")
	}
	lo, hi := toInt(c.dt, c.scalar(0)), toInt(c.dt, c.scalar(1))
	return onOne(func(x int64) int64 { return min(max(x, lo), hi) })
}

// power returns b^e of integers, wrapping. A negative exponent means 1/b^-e, cut toward
// zero, and 1/0 is 0.
func power(b, e int64) int64 {
	if e < 0 {
		switch b {
		case 1:
			return 1
		case -1:
			return 1 - 2*(e&1)
		}
		return 0
	}
	r := int64(1)
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r *= b
		}
		b *= b
	}
	return r
}
