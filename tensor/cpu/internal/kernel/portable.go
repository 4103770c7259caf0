package kernel

import (
	"math"
	"sync/atomic"

	"github.com/ringside-go/ringside/tensor/internal/elementary"
)

// Portable returns a new table of level Go. Its transcendental functions are those of
// package math, rounded once; its reductions accumulate in float64. The other levels are
// tested against it.
func Portable[T Float]() *Table[T] {
	return &Table[T]{
		Level: Go,
		Products: Products[T]{
			Gemm: func(m, n, k int, alpha T, a, b Matrix[T], accumulate bool, c []T, ldc int, _ []T, stop *atomic.Bool) {
				Gemm(m, n, k, alpha, a, b, accumulate, c, ldc, stop)
			},
			GemmTaps:   tapsGo[T],
			Windows:    windowsGo[T],
			WindowDots: func(p Plane, a, b, c []T) { windowsGo(p, a, b, 1, c) },
			Transpose:  transposeGo[T], Transpose16: transposeGo[uint16], Transpose8: transposeGo[uint8],
		},
		Arithmetic: portableArithmetic[T](),
		Conversions: Conversions[T]{
			WidenF16: widenF16Go[T], WidenBF16: widenBF16Go[T], NarrowF16: narrowF16Go[T], NarrowBF16: narrowBF16Go[T],
			Double: doubleGo, Single: singleGo, ToI32: toI32Go[T], ToI64: toI64Go[T],
			Units: unitsGo[T], Fill: fillGo[T],
		},
		Functions: portableFunctions[T](),
		Gradients: Gradients[T]{
			SigmoidGrad:  mapBinary(func(y, dy T) T { return dy * y * (1 - y) }),
			TanhGrad:     mapBinary(func(y, dy T) T { return dy * (1 - y*y) }),
			ReLUGrad:     mapBinary(reluGrad[T]),
			SiLUGrad:     via2[T](siluGrad),
			GELUGrad:     via2[T](geluGrad),
			GELUTanhGrad: via2[T](geluTanhGrad),
		},
		Reductions: Reductions[T]{
			Sum: sumGo[T], RowMax: rowMaxGo[T], RowMin: rowMinGo[T], Dot: dotGo[T], SumSqDev: sumSqDevGo[T], ExpSum: expSumGo[T],
		},
		Packs: portablePacks(),
		parts: parts[T]{
			expTotal: expTotalGo[T], absMax: absMaxGo[T], dlogsm: dlogsmGo[T],
			scaled: scaledGo[T], shifted: shiftedGo[T], plain: plainGo[T],
			normSums: normSumsGo[T], normSums1: normSums1Go[T], normGrad: normGradGo[T], normGrad1: normGrad1Go[T],
			addGrad: addGradGo[T], adamw: adamwGo[T],
		},
		Philox:  philoxGo,
		Normals: normalsGo,
		Chain:   func(int, []ChainOp) int { return 0 },
	}
}

func portableArithmetic[T Float]() Arithmetic[T] {
	pow, powS := powers[T]()
	return Arithmetic[T]{
		Add: addGo[T], Sub: subGo[T], Mul: mulGo[T], Div: divGo[T],
		Max: mapBinary(func(a, b T) T { return max(a, b) }),
		Min: mapBinary(func(a, b T) T { return min(a, b) }),
		Pow: pow,

		AddS:  mapScalar(func(x, s T) T { return x + s }),
		RSubS: mapScalar(func(x, s T) T { return s - x }),
		MulS:  mapScalar(func(x, s T) T { return x * s }),
		RDivS: mapScalar(func(x, s T) T { return s / x }),
		MaxS:  mapScalar(func(x, s T) T { return max(x, s) }),
		MinS:  mapScalar(func(x, s T) T { return min(x, s) }),
		PowS:  powS,

		Keep: keepGo[T],
		Axpy: axpyGo[T],

		AdamM: adamMGo[T], AdamV: adamVGo[T], AdamP: adamPGo[T],

		Momentum: momentumGo[T],
	}
}

func portableFunctions[T Float]() Functions[T] {
	return Functions[T]{
		Neg:      mapUnary(func(x T) T { return -x }),
		Sign:     mapUnary(sign[T]),
		Floor:    via[T](math.Floor),
		Ceil:     via[T](math.Ceil),
		Abs:      via[T](math.Abs),
		Square:   mapUnary(func(x T) T { return x * x }),
		Sqrt:     mapUnary(sqrt[T]),
		Rsqrt:    mapUnary(func(x T) T { return 1 / sqrt(x) }),
		Recip:    mapUnary(func(x T) T { return 1 / x }),
		Exp:      via[T](elementary.Exp),
		Log:      via[T](elementary.Log),
		Sin:      via[T](math.Sin),
		Cos:      via[T](math.Cos),
		Erf:      via[T](math.Erf),
		Tanh:     via[T](math.Tanh),
		Sigmoid:  via[T](sigmoid),
		ReLU:     mapUnary(relu[T]),
		SiLU:     via[T](func(x float64) float64 { return x * sigmoid(x) }),
		GELU:     via[T](func(x float64) float64 { return x * normalCDF(x) }),
		GELUTanh: via[T](func(x float64) float64 { return x * sigmoid(2*geluInner(x)) }),
	}
}

func mapUnary[T any](f func(x T) T) Unary[T] {
	return func(dst, x []T) {
		x = x[:len(dst)]
		for i, v := range x {
			dst[i] = f(v)
		}
	}
}

func mapBinary[T any](f func(a, b T) T) Binary[T] {
	return func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i, v := range a {
			dst[i] = f(v, b[i])
		}
	}
}

func mapScalar[T any](f func(x, s T) T) Scalar[T] {
	return func(dst, x []T, s T) {
		x = x[:len(dst)]
		for i, v := range x {
			dst[i] = f(v, s)
		}
	}
}

// via and via2 compute in float64 and round once.
func via[T Float](f func(x float64) float64) Unary[T] {
	return mapUnary(func(x T) T { return T(f(float64(x))) })
}

func via2[T Float](f func(a, b float64) float64) Binary[T] {
	return mapBinary(func(a, b T) T { return T(f(float64(a), float64(b))) })
}

func sign[T Float](x T) T {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

func sqrt[T Float](x T) T { return T(math.Sqrt(float64(x))) }

func sigmoid(x float64) float64   { return 1 / (1 + elementary.Exp(-x)) }
func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
func normalPDF(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

const (
	geluRoot  = 0.79788456080286535588 // √(2/π)
	geluCubic = 0.044715
)

// geluInner is the argument of the hyperbolic tangent in GELUTanh.
func geluInner(x float64) float64 { return geluRoot * (x + geluCubic*x*x*x) }

func relu[T Float](x T) T {
	if x < 0 {
		return 0
	}
	return x
}

func reluGrad[T Float](x, dy T) T {
	if x <= 0 {
		return 0
	}
	return dy
}

func siluGrad(x, dy float64) float64 {
	s := sigmoid(x)
	return dy * s * (1 + x*(1-s))
}

func geluGrad(x, dy float64) float64 { return dy * (normalCDF(x) + x*normalPDF(x)) }

func geluTanhGrad(x, dy float64) float64 {
	s := sigmoid(2 * geluInner(x))
	return dy * (s + x*s*(1-s)*2*geluRoot*(1+3*geluCubic*x*x))
}

func addGo[T Number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func subGo[T Number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v - b[i]
	}
}

func mulGo[T Number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v * b[i]
	}
}

func divGo[T Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v / b[i]
	}
}

func axpyGo[T Float](dst, x, y []T, a T) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i, v := range x {
		dst[i] = T(float64(a)*float64(v) + float64(y[i]))
	}
}

func fillGo[T Float](dst []T, s T) {
	for i := range dst {
		dst[i] = s
	}
}
