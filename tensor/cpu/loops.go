package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

type float interface{ float32 | float64 }
type number interface {
	float32 | float64 | int32 | int64 | uint8
}

// The shapes of loops over slices, and their conversion to a loop.

func loop1[T, U any](f func(dst []U, x []T)) loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) { f(elems[U](dst, n), elems[T](in[0], n)) }
}

func loop2[T, U any](f func(dst []U, a, b []T)) loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) {
		f(elems[U](dst, n), elems[T](in[0], n), elems[T](in[1], n))
	}
}

func map1[T any](f func(T) T) loop {
	return loop1(func(dst, x []T) {
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
		return whereLoop(s.Out.DType)
	case tensor.OpEq, tensor.OpNe, tensor.OpLt, tensor.OpLe, tensor.OpGt, tensor.OpGe:
		return compareLoop(s.Op, t)
	case tensor.OpNot, tensor.OpAnd, tensor.OpOr, tensor.OpXor:
		return logicLoop(s.Op)
	}
	if t == tensor.F32 {
		if f := lw.kernelLoop(s.Op); f != nil {
			return f
		}
	}
	switch t {
	case tensor.F32:
		return floatLoop[float32](s.Op)
	case tensor.F64:
		return floatLoop[float64](s.Op)
	case tensor.I32:
		return numberLoop[int32](s.Op)
	case tensor.I64:
		return numberLoop[int64](s.Op)
	case tensor.U8:
		return numberLoop[uint8](s.Op)
	}
	return nil
}

// kernelLoop returns an f32 loop of the kernel table.
func (lw *lowerer) kernelLoop(op tensor.Op) loop {
	k := lw.table
	if f, ok := map[tensor.Op]func(dst, x []float32){
		tensor.OpNeg: k.Neg, tensor.OpAbs: k.Abs, tensor.OpSquare: k.Square, tensor.OpSqrt: k.Sqrt, tensor.OpRsqrt: k.Rsqrt,
		tensor.OpRecip: k.Recip, tensor.OpExp: k.Exp, tensor.OpLog: k.Log, tensor.OpSin: k.Sin, tensor.OpCos: k.Cos,
		tensor.OpErf: k.Erf, tensor.OpTanh: k.Tanh, tensor.OpSigmoid: k.Sigmoid, tensor.OpRelu: k.ReLU, tensor.OpSilu: k.SiLU,
		tensor.OpGelu: k.GELU, tensor.OpGeluTanh: k.GELUTanh,
	}[op]; ok {
		return loop1(f)
	}
	switch op {
	case tensor.OpSGD:
		return lw.sgd
	case tensor.OpSGDM:
		return lw.sgdMomentum
	}
	if f, ok := map[tensor.Op]func(dst, a, b []float32){
		tensor.OpAdd: k.Add, tensor.OpSub: k.Sub, tensor.OpMul: k.Mul, tensor.OpDiv: k.Div, tensor.OpMax: k.Max, tensor.OpMin: k.Min,
		tensor.OpPow: k.Pow, tensor.OpSigmoidGrad: k.SigmoidGrad, tensor.OpTanhGrad: k.TanhGrad, tensor.OpReluGrad: k.ReLUGrad,
		tensor.OpSiluGrad: k.SiLUGrad, tensor.OpGeluGrad: k.GELUGrad, tensor.OpGeluTanhGrad: k.GELUTanhGrad,
	}[op]; ok {
		return loop2(f)
	}
	return nil
}

// numberLoop returns the loop of an operation that every number type has.
func numberLoop[T number](op tensor.Op) loop {
	switch op {
	case tensor.OpNeg:
		return map1(func(x T) T { return -x })
	case tensor.OpAbs:
		return map1(func(x T) T {
			if x < 0 {
				return -x
			}
			return x
		})
	case tensor.OpSign:
		return map1(func(x T) T {
			switch {
			case x > 0:
				return 1
			case x < 0:
				var one T = 1
				return -one
			}
			return x // 0 and NaN
		})
	case tensor.OpSquare:
		return map1(func(x T) T { return x * x })
	case tensor.OpRelu:
		return map1(func(x T) T {
			if x < 0 {
				return 0
			}
			return x
		})
	case tensor.OpClamp:
		return func(dst pointer, in *[4]pointer, s []float64, n int) {
			lo, hi := convert[T](s[0]), convert[T](s[1])
			x := elems[T](in[0], n)
			for i := range elems[T](dst, n) {
				v := x[i]
				if v < lo {
					v = lo
				}
				if v > hi {
					v = hi
				}
				elems[T](dst, n)[i] = v
			}
		}
	case tensor.OpAdd:
		return map2(func(a, b T) T { return a + b })
	case tensor.OpSub:
		return map2(func(a, b T) T { return a - b })
	case tensor.OpMul:
		return map2(func(a, b T) T { return a * b })
	case tensor.OpPow:
		return map2(power[T])
	case tensor.OpMax:
		return map2(func(a, b T) T {
			if a > b || a != a {
				return a
			}
			return b
		})
	case tensor.OpMin:
		return map2(func(a, b T) T {
			if a < b || a != a {
				return a
			}
			return b
		})
	case tensor.OpReluGrad:
		return map2(func(x, dy T) T {
			if x > 0 {
				return dy
			}
			return 0
		})
	}
	return nil
}

// power returns a^b of integers by squaring, wrapping; a negative exponent gives 0 except
// for bases of 1 and -1.
func power[T number](a, b T) T {
	var half T = 1
	if half/2 != 0 {
		return T(math.Pow(float64(a), float64(b)))
	}
	if b < 0 {
		switch {
		case a == 1:
			return 1
		case a+1 == 0 && int64(b)%2 == 0:
			return 1
		case a+1 == 0:
			return a
		}
		return 0
	}
	out := T(1)
	for e := int64(b); e > 0; e >>= 1 {
		if e&1 == 1 {
			out *= a
		}
		a *= a
	}
	return out
}

// via computes in float64 and rounds once.
func via[T float](f func(float64) float64) loop {
	return map1(func(x T) T { return T(f(float64(x))) })
}

func via2[T float](f func(a, b float64) float64) loop {
	return map2(func(a, b T) T { return T(f(float64(a), float64(b))) })
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// phi is the normal distribution function.
func phi(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

const (
	geluA = 0.7978845608028654 // sqrt(2/pi)
	geluB = 0.044715
)

func geluTanh(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluA*(x+geluB*x*x*x))) }

func geluTanhGrad(x, dy float64) float64 {
	t := math.Tanh(geluA * (x + geluB*x*x*x))
	return dy * (0.5*(1+t) + 0.5*x*(1-t*t)*geluA*(1+3*geluB*x*x))
}

// floatLoop returns the loop of an operation of floats.
func floatLoop[T float](op tensor.Op) loop {
	switch op {
	case tensor.OpAbs:
		return via[T](math.Abs) // of -0 too
	case tensor.OpExp:
		return via[T](math.Exp)
	case tensor.OpLog:
		return via[T](math.Log)
	case tensor.OpSqrt:
		return via[T](math.Sqrt)
	case tensor.OpRsqrt:
		return via[T](func(x float64) float64 { return 1 / math.Sqrt(x) })
	case tensor.OpRecip:
		return via[T](func(x float64) float64 { return 1 / x })
	case tensor.OpSin:
		return via[T](math.Sin)
	case tensor.OpCos:
		return via[T](math.Cos)
	case tensor.OpTanh:
		return via[T](math.Tanh)
	case tensor.OpSigmoid:
		return via[T](sigmoid)
	case tensor.OpGelu:
		return via[T](func(x float64) float64 { return x * phi(x) })
	case tensor.OpGeluTanh:
		return via[T](geluTanh)
	case tensor.OpSilu:
		return via[T](func(x float64) float64 { return x * sigmoid(x) })
	case tensor.OpErf:
		return via[T](math.Erf)
	case tensor.OpFloor:
		return via[T](math.Floor)
	case tensor.OpCeil:
		return via[T](math.Ceil)
	case tensor.OpDiv:
		return map2(func(a, b T) T { return a / b })
	case tensor.OpTanhGrad:
		return via2[T](func(y, dy float64) float64 { return dy * (1 - y*y) })
	case tensor.OpSigmoidGrad:
		return via2[T](func(y, dy float64) float64 { return dy * y * (1 - y) })
	case tensor.OpGeluGrad:
		return via2[T](func(x, dy float64) float64 {
			return dy * (phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi))
		})
	case tensor.OpGeluTanhGrad:
		return via2[T](geluTanhGrad)
	case tensor.OpSiluGrad:
		return via2[T](func(x, dy float64) float64 {
			s := sigmoid(x)
			return dy * s * (1 + x*(1-s))
		})
	case tensor.OpAdamM, tensor.OpAdamV, tensor.OpAdamW, tensor.OpSGD, tensor.OpSGDM:
		return updateLoop[T](op)
	}
	return numberLoop[T](op)
}

// updateLoop returns the loop of an optimizer's formula, as the op table gives it.
func updateLoop[T float](op tensor.Op) loop {
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
		case tensor.OpAdamW:
			lr, wd, eps, c1, c2 := s[0], s[1], s[2], s[3], s[4]
			keep, step, root, e := T(1-lr*wd), T(lr/c1), T(1/math.Sqrt(c2)), T(eps)
			v := elems[T](in[2], n)
			for i := range d {
				d[i] = keep*a[i] - step*b[i]/(T(math.Sqrt(float64(v[i])))*root+e)
			}
		case tensor.OpSGD:
			lr, wd := T(s[0]), T(s[1])
			for i := range d {
				d[i] = a[i] - lr*(b[i]+wd*a[i])
			}
		case tensor.OpSGDM:
			mu, damp, wd := T(s[0]), T(1-s[1]), T(s[2])
			p := elems[T](in[2], n)
			for i := range d {
				d[i] = mu*a[i] + damp*(b[i]+wd*p[i])
			}
		}
	}
}

func compareLoop(op tensor.Op, t tensor.DType) loop {
	switch t {
	case tensor.F32:
		return compare[float32](op)
	case tensor.F64:
		return compare[float64](op)
	case tensor.I32:
		return compare[int32](op)
	case tensor.I64:
		return compare[int64](op)
	case tensor.Bool:
		return compareBool(op)
	}
	return compare[uint8](op)
}

func compare[T number](op tensor.Op) loop {
	switch op {
	case tensor.OpEq:
		return map2(func(a, b T) uint8 { return truth(a == b) })
	case tensor.OpNe:
		return map2(func(a, b T) uint8 { return truth(a != b) })
	case tensor.OpLt:
		return map2(func(a, b T) uint8 { return truth(a < b) })
	case tensor.OpLe:
		return map2(func(a, b T) uint8 { return truth(a <= b) })
	case tensor.OpGt:
		return map2(func(a, b T) uint8 { return truth(a > b) })
	}
	return map2(func(a, b T) uint8 { return truth(a >= b) })
}

// compareBool orders false before true; any byte but 0 is true.
func compareBool(op tensor.Op) loop {
	less := op == tensor.OpLt || op == tensor.OpLe || op == tensor.OpNe
	equal := op == tensor.OpEq || op == tensor.OpLe || op == tensor.OpGe
	greater := op == tensor.OpGt || op == tensor.OpGe || op == tensor.OpNe
	return map2(func(a, b uint8) uint8 {
		x, y := truth(a != 0), truth(b != 0)
		return truth(x < y && less || x == y && equal || x > y && greater)
	})
}

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func logicLoop(op tensor.Op) loop {
	switch op {
	case tensor.OpNot:
		return map1(func(x uint8) uint8 { return truth(x == 0) })
	case tensor.OpAnd:
		return map2(func(a, b uint8) uint8 { return truth(a != 0 && b != 0) })
	case tensor.OpOr:
		return map2(func(a, b uint8) uint8 { return truth(a != 0 || b != 0) })
	}
	return map2(func(a, b uint8) uint8 { return truth((a != 0) != (b != 0)) })
}

func whereLoop(t tensor.DType) loop {
	switch t.Size() {
	case 4:
		return where[uint32]
	case 8:
		return where[uint64]
	}
	return where[uint8]
}

func where[T any](dst pointer, in *[4]pointer, _ []float64, n int) {
	d, c, a, b := elems[T](dst, n), elems[uint8](in[0], n), elems[T](in[1], n), elems[T](in[2], n)
	for i := range d {
		if c[i] != 0 {
			d[i] = a[i]
		} else {
			d[i] = b[i]
		}
	}
}
