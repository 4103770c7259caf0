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
func newLoops(f32 *kernel.Table[float32], f64 *kernel.Table[float64], plain *kernel.Plain) map[tensor.DType]loopsOf {
	boolLoops := comparisonLoops(&plain.U8.Comparisons)
	maps.Copy(boolLoops, loopsOf{
		tensor.OpNot: loop1(plain.Not), tensor.OpAnd: loop2(plain.And), tensor.OpOr: loop2(plain.Or), tensor.OpXor: loop2(plain.Xor),
	})
	return map[tensor.DType]loopsOf{
		tensor.F32: floatLoops(f32, &plain.F32), tensor.F64: floatLoops(f64, &plain.F64),
		tensor.I32: integerLoops(&plain.I32), tensor.I64: integerLoops(&plain.I64), tensor.U8: integerLoops(&plain.U8),
		tensor.Bool: boolLoops,
	}
}

// floatLoops returns those of floats: kernels of the table where it has them.
func floatLoops[T float](k *kernel.Table[T], c *kernel.Comparisons[T]) loopsOf {
	l := comparisonLoops(c)
	for op, f := range map[tensor.Op]kernel.Unary[T]{
		tensor.OpNeg: k.Neg, tensor.OpFloor: k.Floor, tensor.OpCeil: k.Ceil, tensor.OpAbs: k.Abs, tensor.OpSquare: k.Square, tensor.OpSqrt: k.Sqrt, tensor.OpRsqrt: k.Rsqrt,
		tensor.OpRecip: k.Recip, tensor.OpSign: k.Sign, tensor.OpExp: k.Exp, tensor.OpLog: k.Log, tensor.OpSin: k.Sin, tensor.OpCos: k.Cos,
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
	maps.Copy(l, adamLoops(k))
	return l
}

func integerLoops[T integer](k *kernel.Integers[T]) loopsOf {
	l := comparisonLoops(&k.Comparisons)
	maps.Copy(l, loopsOf{
		tensor.OpNeg: loop1(k.Neg), tensor.OpAbs: loop1(k.Abs), tensor.OpRelu: loop1(k.ReLU), tensor.OpSign: loop1(k.Sign),
		tensor.OpSquare: loop1(func(dst, x []T) { k.Mul(dst, x, x) }),
		tensor.OpAdd:    loop2(k.Add), tensor.OpSub: loop2(k.Sub), tensor.OpMul: loop2(k.Mul),
		tensor.OpMax: loop2(k.Max), tensor.OpMin: loop2(k.Min),
		tensor.OpPow: map2(power[T]),
		tensor.OpClamp: func(dst pointer, in *[4]pointer, s []float64, n int) {
			k.Clamp(elems[T](dst, n), elems[T](in[0], n), convert[T](s[0]), convert[T](s[1]))
		},
	})
	return l
}

// rowLoops returns the loops of op on operands of dtype t of which the first, or the
// second, is one number; nil where there is none.
func rowLoops(k *kernel.Table[float64], plain *kernel.Plain, op tensor.Op, t tensor.DType) [2]loop {
	switch t {
	case tensor.F64:
		switch op {
		case tensor.OpSub:
			return [2]loop{rowLoop(0, k.RSubS), rowLoop(1, func(dst, x []float64, s float64) { k.AddS(dst, x, -s) })}
		case tensor.OpDiv:
			return [2]loop{rowLoop(0, k.RDivS), nil}
		case tensor.OpMax: // of two zeros the second is the result
			return [2]loop{nil, rowLoop(1, k.MaxS)}
		case tensor.OpMin:
			return [2]loop{nil, rowLoop(1, k.MinS)}
		case tensor.OpAdd:
			return eitherRow(k.AddS)
		case tensor.OpMul:
			return eitherRow(k.MulS)
		}
	case tensor.I32:
		return integerRowLoops(op, &plain.I32)
	case tensor.I64:
		return integerRowLoops(op, &plain.I64)
	case tensor.U8:
		return integerRowLoops(op, &plain.U8)
	}
	return [2]loop{}
}

func integerRowLoops[T integer](op tensor.Op, k *kernel.Integers[T]) [2]loop {
	switch op {
	case tensor.OpAdd:
		return eitherRow(k.AddS)
	case tensor.OpSub:
		return [2]loop{rowLoop(0, k.RSubS), rowLoop(1, func(dst, x []T, s T) { k.AddS(dst, x, -s) })}
	case tensor.OpMul:
		return eitherRow(k.MulS)
	case tensor.OpMax:
		return eitherRow(k.MaxS)
	case tensor.OpMin:
		return eitherRow(k.MinS)
	}
	return [2]loop{}
}

// rowLoop is the loop of f whose operand a, the first or the second, is one number.
func rowLoop[T any](a int, f kernel.Scalar[T]) loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) {
		f(elems[T](dst, n), elems[T](in[1-a], n), *(*T)(in[a]))
	}
}

// eitherRow returns the loops of f, whose operands may be exchanged.
func eitherRow[T any](f kernel.Scalar[T]) [2]loop { return [2]loop{rowLoop(0, f), rowLoop(1, f)} }

// comparisonLoops returns those that every dtype has.
func comparisonLoops[T number](k *kernel.Comparisons[T]) loopsOf {
	return loopsOf{
		tensor.OpEq: loop2(k.Eq), tensor.OpNe: loop2(k.Ne), tensor.OpLt: loop2(k.Lt), tensor.OpLe: loop2(k.Le),
		tensor.OpGt: loop2(func(dst []uint8, a, b []T) { k.Lt(dst, b, a) }),
		tensor.OpGe: loop2(func(dst []uint8, a, b []T) { k.Le(dst, b, a) }),
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

// adamLoops returns the parts of AdamW, as the op table gives them.
func adamLoops[T float](k *kernel.Table[T]) loopsOf {
	return loopsOf{
		tensor.OpAdamM: func(dst pointer, in *[4]pointer, s []float64, n int) {
			k.AdamM(elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n), T(s[0]), T(1-s[0]))
		},
		tensor.OpAdamV: func(dst pointer, in *[4]pointer, s []float64, n int) {
			k.AdamV(elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n), T(s[0]), T(1-s[0]))
		},
		tensor.OpAdamW: func(dst pointer, in *[4]pointer, s []float64, n int) {
			lr, wd, eps, c1, c2 := s[0], s[1], s[2], s[3], s[4]
			k.AdamP(elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n), elems[T](in[2], n), T(1-lr*wd), T(lr/c1), T(1/math.Sqrt(c2)), T(eps))
		},
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
