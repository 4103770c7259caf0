package cpu

import (
	"maps"
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

type float = kernel.Float
type integer interface{ int32 | int64 | uint8 }
type number interface{ float | integer }

// The shapes of loops over slices, and their conversion to a loop.

func loop1[T, U any](f func(dst []U, x []T)) loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) { f(elems[U](dst, n), elems[T](in[0], n)) }
}

func loop2[T, U any](f func(dst []U, a, b []T)) loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) {
		f(elems[U](dst, n), elems[T](in[0], n), elems[T](in[1], n))
	}
}

func map1[T, U any](f func(T) U) loop {
	return loop1(func(dst []U, x []T) {
		for i := range dst {
			dst[i] = f(x[i])
		}
	})
}

func map2[T, U any](f func(a, b T) U) loop {
	return loop2(func(dst []U, a, b []T) {
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	})
}

// loopFor returns the loop of an elementwise operation on operands of dtype t.
func (lw *lowerer) loopFor(s *compile.Step, t tensor.DType) loop {
	switch s.Op {
	case tensor.OpCast:
		return lw.castLoop(s.In[0].DType, s.Out.DType)
	case tensor.OpWhere:
		return movesBySize[s.Out.DType.Size()].where()
	}
	return lw.loops[t][s.Op]
}

// loopsOf holds the loops of the operations on one dtype.
type loopsOf map[tensor.Op]loop

// newLoops returns the loops of all dtypes of operands. Bools are bytes 0 and 1.
func newLoops(f32 *kernel.Table[float32], f64 *kernel.Table[float64]) map[tensor.DType]loopsOf {
	boolLoops := numberLoops[uint8]()
	maps.Copy(boolLoops, loopsOf{
		tensor.OpNot: loop1(notBools),
		tensor.OpAnd: bools(func(a, b uint64) uint64 { return a & b }),
		tensor.OpOr:  bools(func(a, b uint64) uint64 { return a | b }),
		tensor.OpXor: bools(func(a, b uint64) uint64 { return a ^ b }),
	})
	return map[tensor.DType]loopsOf{
		tensor.F32: floatLoops(f32), tensor.F64: floatLoops(f64),
		tensor.I32: integerLoops[int32](), tensor.I64: integerLoops[int64](), tensor.U8: integerLoops[uint8](),
		tensor.Bool: boolLoops,
	}
}

// floatLoops returns those of floats: kernels of the table where it has them.
func floatLoops[T float](k *kernel.Table[T]) loopsOf {
	l := numberLoops[T]()
	for op, f := range map[tensor.Op]kernel.Unary[T]{
		tensor.OpNeg: k.Neg, tensor.OpFloor: k.Floor, tensor.OpCeil: k.Ceil, tensor.OpAbs: k.Abs, tensor.OpSquare: k.Square, tensor.OpSqrt: k.Sqrt, tensor.OpRsqrt: k.Rsqrt,
		tensor.OpRecip: k.Recip, tensor.OpExp: k.Exp, tensor.OpLog: k.Log, tensor.OpSin: k.Sin, tensor.OpCos: k.Cos,
		tensor.OpErf: k.Erf, tensor.OpTanh: k.Tanh, tensor.OpSigmoid: k.Sigmoid, tensor.OpRelu: k.ReLU, tensor.OpSilu: k.SiLU,
		tensor.OpGelu: k.GELU, tensor.OpGeluTanh: k.GELUTanh,
	} {
		l[op] = loop1(f)
	}
	for op, f := range map[tensor.Op]kernel.Binary[T]{
		tensor.OpAdd: k.Add, tensor.OpSub: k.Sub, tensor.OpMul: k.Mul, tensor.OpDiv: k.Div, tensor.OpMax: k.Max, tensor.OpMin: k.Min,
		tensor.OpPow: k.Pow, tensor.OpSigmoidGrad: k.SigmoidGrad, tensor.OpTanhGrad: k.TanhGrad, tensor.OpReluGrad: k.ReLUGrad,
		tensor.OpSiluGrad: k.SiLUGrad, tensor.OpGeluGrad: k.GELUGrad, tensor.OpGeluTanhGrad: k.GELUTanhGrad,
	} {
		l[op] = loop2(f)
	}
	maps.Copy(l, loopsOf{
		tensor.OpClamp: clampBy(k),
		tensor.OpSGD:   sgd(k), tensor.OpSGDM: sgdMomentum(k),
	})
	for _, op := range []tensor.Op{tensor.OpAdamM, tensor.OpAdamV, tensor.OpAdamW} {
		l[op] = adamLoop[T](op)
	}
	return l
}

func integerLoops[T integer]() loopsOf {
	l := numberLoops[T]()
	maps.Copy(l, loopsOf{
		tensor.OpNeg: loop1(negInts[T]), tensor.OpAbs: loop1(absInts[T]), tensor.OpSquare: loop1(squareInts[T]), tensor.OpRelu: loop1(reluInts[T]),
		tensor.OpAdd: loop2(addInts[T]), tensor.OpSub: loop2(subInts[T]), tensor.OpMul: loop2(mulInts[T]),
		tensor.OpMax: loop2(maxInts[T]), tensor.OpMin: loop2(minInts[T]),
		tensor.OpPow: map2(power[T]),
	})
	return l
}

// numberLoops returns those that every dtype has.
func numberLoops[T number]() loopsOf {
	return loopsOf{
		tensor.OpSign: loop1(signs[T]),
		tensor.OpClamp: func(dst pointer, in *[4]pointer, s []float64, n int) {
			lo, hi := convert[T](s[0]), convert[T](s[1])
			d := elems[T](dst, n)
			for i, v := range elems[T](in[0], n) {
				if v < lo {
					v = lo
				}
				if v > hi {
					v = hi
				}
				d[i] = v
			}
		},
		tensor.OpEq: loop2(equal[T]), tensor.OpNe: loop2(unequal[T]),
		tensor.OpLt: loop2(less[T]), tensor.OpLe: loop2(lessEqual[T]),
		tensor.OpGt: loop2(func(dst []uint8, a, b []T) { less(dst, b, a) }),
		tensor.OpGe: loop2(func(dst []uint8, a, b []T) { lessEqual(dst, b, a) }),
	}
}

// power returns a^b by squaring, wrapping. A negative exponent gives 0, but for bases of
// 1 and -1.
func power[T integer](a, b T) T {
	if b < 0 {
		switch {
		case a == 1:
			return 1
		case a+1 == 0 && b%2 == 0:
			return 1
		case a+1 == 0:
			return a
		}
		return 0
	}
	out := T(1)
	for ; b > 0; b >>= 1 {
		if b&1 == 1 {
			out *= a
		}
		a *= a
	}
	return out
}

// adamLoop returns the loop of a part of AdamW, as the op table gives it.
func adamLoop[T float](op tensor.Op) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		d, a, b := elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n)
		switch op {
		case tensor.OpAdamM:
			k, l := T(s[0]), T(1-s[0])
			for i := range d {
				d[i] = k*a[i] + l*b[i]
			}
		case tensor.OpAdamV:
			k, l := T(s[0]), T(1-s[0])
			for i := range d {
				d[i] = k*a[i] + l*b[i]*b[i]
			}
		default:
			lr, wd, eps, c1, c2 := s[0], s[1], s[2], s[3], s[4]
			keep, step, root, e := T(1-lr*wd), T(lr/c1), T(1/math.Sqrt(c2)), T(eps)
			v := elems[T](in[2], n)
			for i := range d {
				d[i] = keep*a[i] - step*b[i]/(T(math.Sqrt(float64(v[i])))*root+e)
			}
		}
	}
}

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (movesOf[T]) where() loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) {
		d, c, a, b := elems[T](dst, n), elems[uint8](in[0], n), elems[T](in[1], n), elems[T](in[2], n)
		for i, yes := range c {
			// both are read, and no branch depends on which it is
			v, w := b[i], a[i]
			if yes != 0 {
				v = w
			}
			d[i] = v
		}
	}
}

func (movesOf[T]) copies() loop { return loop1(func(dst, x []T) { copy(dst, x) }) }
