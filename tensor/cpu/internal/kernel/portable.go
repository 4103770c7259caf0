package kernel

import "math"

// portable returns the table of level Go. Its transcendental functions are those of
// package math, rounded once; its reductions accumulate in float64. The other levels are
// tested against it.
func portable() *Table {
	return &Table{
		Level: Go,
		Products: Products{
			Gemm: func(m, n, k int, alpha float32, a, b Matrix[float32], accumulate bool, c []float32, ldc int, _ []float32) {
				Gemm(m, n, k, alpha, a, b, accumulate, c, ldc)
			},
			GemmTaps:  tapsGo,
			Transpose: transposeGo,
		},
		Arithmetic: portableArithmetic(),
		Conversions: Conversions{
			WidenF16: widenF16Go, WidenBF16: widenBF16Go, NarrowF16: narrowF16Go, NarrowBF16: narrowBF16Go,
			Fill: fillGo,
			Copy: func(dst, x []float32) { copy(dst, x[:len(dst)]) },
		},
		Functions: portableFunctions(),
		Gradients: Gradients{
			SigmoidGrad:  mapBinary(func(y, dy float32) float32 { return dy * y * (1 - y) }),
			TanhGrad:     mapBinary(func(y, dy float32) float32 { return dy * (1 - y*y) }),
			ReLUGrad:     mapBinary(reluGrad),
			SiLUGrad:     mapBinary(siluGrad),
			GELUGrad:     mapBinary(geluGrad),
			GELUTanhGrad: mapBinary(geluTanhGrad),
			SwiGLU:       swigluGo,
			SwiGLUGrad:   swigluGradGo,
		},
		Reductions: Reductions{
			Sum: sumGo, RowMax: rowMaxGo, RowMin: rowMinGo, Dot: dotGo, SumSqDev: sumSqDevGo, ExpSum: expSumGo,
		},
		parts: parts{
			expTotal: expTotalGo, dlogsm: dlogsmGo,
			scaled: scaledGo, shifted: shiftedGo, plain: plainGo,
			normSums: normSumsGo, normSums1: normSums1Go, normGrad: normGradGo, normGrad1: normGrad1Go,
			addGrad: addGradGo, rope: ropeGo,
		},
		AdamW: adamwGo,
	}
}

func portableArithmetic() Arithmetic {
	return Arithmetic{
		Add: addGo, Sub: subGo, Mul: mulGo, Div: divGo,
		Max: mapBinary(func(a, b float32) float32 { return max(a, b) }),
		Min: mapBinary(func(a, b float32) float32 { return min(a, b) }),
		Pow: mapBinary(pow),

		AddS:  mapScalar(func(x, s float32) float32 { return x + s }),
		RSubS: mapScalar(func(x, s float32) float32 { return s - x }),
		MulS:  mapScalar(func(x, s float32) float32 { return x * s }),
		RDivS: mapScalar(func(x, s float32) float32 { return s / x }),
		MaxS:  mapScalar(func(x, s float32) float32 { return max(x, s) }),
		MinS:  mapScalar(func(x, s float32) float32 { return min(x, s) }),
		PowS:  mapScalar(pow),

		Axpy: axpyGo, MulAdd: mulAddGo,
	}
}

func portableFunctions() Functions {
	return Functions{
		Neg:      mapUnary(func(x float32) float32 { return -x }),
		Abs:      mapUnary(func(x float32) float32 { return float32(math.Abs(float64(x))) }),
		Square:   mapUnary(func(x float32) float32 { return x * x }),
		Sqrt:     mapUnary(sqrt),
		Rsqrt:    mapUnary(func(x float32) float32 { return 1 / sqrt(x) }),
		Recip:    mapUnary(func(x float32) float32 { return 1 / x }),
		Exp:      mapUnary(exp),
		Log:      mapUnary(func(x float32) float32 { return float32(math.Log(float64(x))) }),
		Sin:      mapUnary(func(x float32) float32 { return float32(math.Sin(float64(x))) }),
		Cos:      mapUnary(func(x float32) float32 { return float32(math.Cos(float64(x))) }),
		Erf:      mapUnary(func(x float32) float32 { return float32(math.Erf(float64(x))) }),
		Tanh:     mapUnary(func(x float32) float32 { return float32(math.Tanh(float64(x))) }),
		Sigmoid:  mapUnary(func(x float32) float32 { return float32(sigmoid(float64(x))) }),
		ReLU:     mapUnary(func(x float32) float32 { return max(x, 0) }),
		SiLU:     mapUnary(func(x float32) float32 { return float32(float64(x) * sigmoid(float64(x))) }),
		GELU:     mapUnary(func(x float32) float32 { return float32(float64(x) * normalCDF(float64(x))) }),
		GELUTanh: mapUnary(func(x float32) float32 { return float32(float64(x) * sigmoid(2*geluInner(float64(x)))) }),
	}
}

func mapUnary(f func(x float32) float32) Unary {
	return func(dst, x []float32) {
		x = x[:len(dst)]
		for i, v := range x {
			dst[i] = f(v)
		}
	}
}

func mapBinary(f func(a, b float32) float32) Binary {
	return func(dst, a, b []float32) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i, v := range a {
			dst[i] = f(v, b[i])
		}
	}
}

func mapScalar(f func(x, s float32) float32) Scalar {
	return func(dst, x []float32, s float32) {
		x = x[:len(dst)]
		for i, v := range x {
			dst[i] = f(v, s)
		}
	}
}

func exp(x float32) float32    { return float32(math.Exp(float64(x))) }
func sqrt(x float32) float32   { return float32(math.Sqrt(float64(x))) }
func pow(a, b float32) float32 { return float32(math.Pow(float64(a), float64(b))) }

func sigmoid(x float64) float64   { return 1 / (1 + math.Exp(-x)) }
func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
func normalPDF(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

const (
	geluRoot  = 0.79788456080286535588 // √(2/π)
	geluCubic = 0.044715
)

// geluInner is the argument of the hyperbolic tangent in GELUTanh.
func geluInner(x float64) float64 { return geluRoot * (x + geluCubic*x*x*x) }

func reluGrad(x, dy float32) float32 {
	if x > 0 {
		return dy
	}
	return 0
}

func siluGrad(x, dy float32) float32 {
	s := sigmoid(float64(x))
	return float32(float64(dy) * s * (1 + float64(x)*(1-s)))
}

func geluGrad(x, dy float32) float32 {
	v := float64(x)
	return float32(float64(dy) * (normalCDF(v) + v*normalPDF(v)))
}

func geluTanhGrad(x, dy float32) float32 {
	v := float64(x)
	s := sigmoid(2 * geluInner(v))
	return float32(float64(dy) * (s + v*s*(1-s)*2*geluRoot*(1+3*geluCubic*v*v)))
}

func addGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func subGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v - b[i]
	}
}

func mulGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v * b[i]
	}
}

func divGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v / b[i]
	}
}

func axpyGo(dst, x, y []float32, a float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i, v := range x {
		dst[i] = float32(float64(a)*float64(v) + float64(y[i]))
	}
}

func mulAddGo(dst, x, y, z []float32) {
	x, y, z = x[:len(dst)], y[:len(dst)], z[:len(dst)]
	for i, v := range x {
		dst[i] = float32(float64(v)*float64(y[i]) + float64(z[i]))
	}
}

func fillGo(dst []float32, s float32) {
	for i := range dst {
		dst[i] = s
	}
}

func swigluGo(dst, gate, up []float32) {
	gate, up = gate[:len(dst)], up[:len(dst)]
	for i, g := range gate {
		dst[i] = float32(float64(g) * sigmoid(float64(g)) * float64(up[i]))
	}
}

func swigluGradGo(dgate, dup, gate, up, dy []float32) {
	n := len(dgate)
	dup, gate, up, dy = dup[:n], gate[:n], up[:n], dy[:n]
	for i := range dgate {
		g, u, d := float64(gate[i]), float64(up[i]), float64(dy[i])
		s := sigmoid(g)
		dgate[i] = float32(d * u * s * (1 + g*(1-s)))
		dup[i] = float32(d * g * s)
	}
}
