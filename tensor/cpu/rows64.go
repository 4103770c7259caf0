package cpu

import "math"

// generic are the row operations in plain Go for f64, by the formulas of the kernel
// table.
var generic = &rowKernels[float64]{
	softmax: func(dst, x []float64, scale float64) {
		m := math.Inf(-1)
		for _, v := range x {
			m = math.Max(m, v*scale)
		}
		sum := 0.0
		for i, v := range x {
			dst[i] = math.Exp(v*scale - m)
			sum += dst[i]
		}
		for i := range x {
			dst[i] /= sum
		}
	},
	softmaxGrad: func(dst, y, dy []float64, scale float64) {
		s := dot(y, dy)
		for i := range dst {
			dst[i] = scale * y[i] * (dy[i] - s)
		}
	},
	logSoftmax: func(dst, x []float64) {
		l := logSumExp(x)
		for i, v := range x {
			dst[i] = v - l
		}
	},
	logSoftmaxGrad: func(dst, y, dy []float64) {
		s := sum(dy)
		for i := range dst {
			dst[i] = dy[i] - math.Exp(y[i])*s
		}
	},
	layerNorm: func(dst, x, w, b []float64, eps float64) (mean, rstd float64) {
		mean = sum(x) / float64(len(x))
		rstd = 1 / math.Sqrt(sumSqDev(x, mean)/float64(len(x))+eps)
		for i, v := range x {
			dst[i] = (v - mean) * rstd
			if w != nil {
				dst[i] *= w[i]
			}
			if b != nil {
				dst[i] += b[i]
			}
		}
		return mean, rstd
	},
	layerNormGrad: normGrad,
	rmsNorm: func(dst, x, w []float64, eps float64) float64 {
		rstd := 1 / math.Sqrt(dot(x, x)/float64(len(x))+eps)
		for i, v := range x {
			dst[i] = v * rstd
			if w != nil {
				dst[i] *= w[i]
			}
		}
		return rstd
	},
	rmsNormGrad: func(dx, dw, x, w, dy []float64, rstd float64) {
		s2 := 0.0
		for i, v := range x {
			s2 += weighted(dy, w, i) * v * rstd
		}
		for i, v := range x {
			h, xhat := weighted(dy, w, i), v*rstd
			if dw != nil {
				dw[i] += dy[i] * xhat
			}
			dx[i] = rstd * (h - xhat*s2/float64(len(x)))
		}
	},
	rope: func(dst, x, cos, sin []float64, sign float64) {
		h := len(dst) / 2
		for i := range h {
			a, b := x[i], x[h+i]
			dst[i] = a*cos[i] - b*sin[i]*sign
			dst[h+i] = b*cos[i] + a*sin[i]*sign
		}
	},
	crossEntropy: func(dx, x []float64, target int, scale float64) float64 {
		l := logSumExp(x)
		if dx != nil {
			for i, v := range x {
				dx[i] = scale * math.Exp(v-l)
			}
			dx[target] -= scale
		}
		return l - x[target]
	},
	sum: sum, dot: dot, sumSqDev: sumSqDev, mul: gemm[float64],
}

func weighted(dy, w []float64, i int) float64 {
	if w == nil {
		return dy[i]
	}
	return dy[i] * w[i]
}

func normGrad(dx, dw, db, x, w, dy []float64, mean, rstd float64) {
	n := float64(len(x))
	s1, s2 := 0.0, 0.0
	for i, v := range x {
		h := weighted(dy, w, i)
		s1 += h
		s2 += h * (v - mean) * rstd
	}
	for i, v := range x {
		h, xhat := weighted(dy, w, i), (v-mean)*rstd
		if dw != nil {
			dw[i] += dy[i] * xhat
		}
		if db != nil {
			db[i] += dy[i]
		}
		dx[i] = rstd * (h - s1/n - xhat*s2/n)
	}
}

func sum(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func sumSqDev(x []float64, mean float64) float64 {
	s := 0.0
	for _, v := range x {
		s += (v - mean) * (v - mean)
	}
	return s
}

func logSumExp(x []float64) float64 {
	m := math.Inf(-1)
	for _, v := range x {
		m = math.Max(m, v)
	}
	if math.IsInf(m, 0) {
		return m
	}
	s := 0.0
	for _, v := range x {
		s += math.Exp(v - m)
	}
	return m + math.Log(s)
}
