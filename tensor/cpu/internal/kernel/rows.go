package kernel

import "math"

// The kernels of one row each that are made of others.

// Softmax is dst[i] = e^(scale*x[i]) / Σⱼ e^(scale*x[j]), shifted by the largest so
// that it cannot overflow. scale is positive.
func (t *Table[T]) Softmax(dst, x []T, scale T) {
	x = x[:len(dst)]
	sum := t.ExpSum(dst, x, scale, -scale*t.RowMax(x))
	t.MulS(dst, dst, 1/sum)
}

// SoftmaxGrad is dst[i] = scale * p[i] * (dp[i] - Σⱼ p[j]*dp[j]), where Softmax
// returned p.
func (t *Table[T]) SoftmaxGrad(dst, p, dp []T, scale T) {
	n := len(dst)
	p, dp = p[:n], dp[:n]
	t.shifted(dst, dp, p, -t.Dot(p, dp), scale)
}

// LogSoftmax is dst[i] = x[i] - log Σⱼ e^x[j].
func (t *Table[T]) LogSoftmax(dst, x []T) {
	x = x[:len(dst)]
	top := t.RowMax(x)
	if math.IsInf(float64(top), 0) { // of Inf, or of -Inf alone, it is undefined
		t.Fill(dst, T(math.NaN()))
		return
	}
	// The two parts of the logarithm are subtracted one after the other: their sum would
	// be rounded to the largest x.
	l := T(math.Log(float64(t.expTotal(x, 1, -top))))
	t.AddS(dst, x, -top)
	t.AddS(dst, dst, -l)
}

// LogSoftmaxGrad is dst[i] = b[i] - e^a[i] * Σⱼ b[j], where LogSoftmax returned a,
// and b is its gradient.
func (t *Table[T]) LogSoftmaxGrad(dst, y, dy []T) {
	dy = dy[:len(dst)]
	t.dlogsm(dst, y, dy, t.Sum(dy))
}

// CrossEntropy returns log Σ e^x[i] - x[target], and unless dx is nil stores its gradient
// times scale, dx[i] = scale * (softmax(x)[i] - [i == target]). dx may be x. With an x of
// Inf, or all of them -Inf, both are NaN.
// It panics unless 0 ≤ target < len(x).
func (t *Table[T]) CrossEntropy(dx, x []T, target int, scale T) T {
	xt := x[target]
	if dx == nil {
		top := t.RowMax(x)
		if math.IsInf(float64(top), 0) {
			return T(math.NaN())
		}
		return T(math.Log(float64(t.expTotal(x, 1, -top)))) + (top - xt)
	}
	dx = dx[:len(x)]
	top := t.RowMax(x)
	sum := t.ExpSum(dx, x, 1, -top)
	t.MulS(dx, dx, scale/sum)
	dx[target] -= scale
	return T(math.Log(float64(sum))) + (top - xt)
}

func rstd[T Float](meanSquare, eps T) T {
	return T(1 / math.Sqrt(float64(meanSquare)+float64(eps)))
}

// LayerNorm is dst[i] = (x[i]-mean)*rstd*w[i] + b[i] over len(x), where mean is that
// of x and rstd is 1/√(variance+eps), with the biased variance. w and b may each be
// nil: ones and zeros.
func (t *Table[T]) LayerNorm(dst, x, w, b []T, eps T) (mean, r T) {
	n := T(len(dst))
	x = x[:len(dst)]
	mean = t.Sum(x) / n
	r = rstd(t.SumSqDev(x, mean)/n, eps)
	t.affine(dst, x, w, b, -mean, r)
	return mean, r
}

// affine is dst = (x+shift)*scale*w+b, without w and b where they are nil.
func (t *Table[T]) affine(dst, x, w, b []T, shift, scale T) {
	switch {
	case w == nil && b == nil:
		t.plain(dst, x, shift, scale)
	case b == nil:
		t.shifted(dst, x, w, shift, scale)
	case w == nil:
		b = b[:len(dst)]
		t.plain(dst, x, shift, scale)
		t.Add(dst, dst, b)
	default:
		t.scaled(dst, x, w, b, shift, scale)
	}
}

// LayerNormGrad is the gradient of LayerNorm for one row: with x̂ = (x-mean)*rstd and
// h = dy*w,
//
//	dw[i] += dy[i]*x̂[i]; db[i] += dy[i]
//	dx[i] = rstd * (h[i] - Σh/n - x̂[i]*Σ(h*x̂)/n)
//
// w, dw and db may each be nil. dx may be x or dy.
func (t *Table[T]) LayerNormGrad(dx, dw, db, x, w, dy []T, mean, r T) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	if dw != nil {
		t.addGrad(dw[:n], dw, x, dy, -mean, r)
	}
	if db != nil {
		db = db[:n]
		t.Add(db, db, dy)
	}
	t.normDx(dx, x, w, dy, -mean, r, true)
}

// normDx stores the gradient by the input of a norm; centred says that the norm
// subtracted the mean.
func (t *Table[T]) normDx(dx, x, w, dy []T, shift, r T, centred bool) {
	var s1, s2 T
	if w == nil {
		s1, s2 = t.normSums1(x, dy, shift, r)
	} else {
		s1, s2 = t.normSums(x, w, dy, shift, r)
	}
	n := T(len(dx))
	if !centred {
		s1 = 0
	}
	if w == nil {
		t.normGrad1(dx, x, dy, shift, r, -s1/n, -s2/n)
	} else {
		t.normGrad(dx, x, w, dy, shift, r, -s1/n, -s2/n)
	}
}

// RMSNorm is dst[i] = x[i]*rstd*w[i] with rstd = 1/√(Σx²/n+eps). w may be nil: ones.
func (t *Table[T]) RMSNorm(dst, x, w []T, eps T) (r T) {
	x = x[:len(dst)]
	r = rstd(t.Dot(x, x)/T(len(dst)), eps)
	t.affine(dst, x, w, nil, 0, r)
	return r
}

// RMSNormGrad is the gradient of RMSNorm for one row: with x̂ = x*rstd and h = dy*w,
//
//	dw[i] += dy[i]*x̂[i]
//	dx[i] = rstd * (h[i] - x̂[i]*Σ(h*x̂)/n)
//
// w and dw may each be nil. dx may be x or dy.
func (t *Table[T]) RMSNormGrad(dx, dw, x, w, dy []T, r T) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	if dw != nil {
		t.addGrad(dw[:n], dw, x, dy, 0, r)
	}
	t.normDx(dx, x, w, dy, 0, r, false)
}

// RoPE rotates the pairs (x[i], x[h+i]), h = len(dst)/2, by the angles whose cosines
// and sines are given:
//
//	dst[i]   = x[i]*cos[i] - x[h+i]*sin[i]*sign
//	dst[h+i] = x[h+i]*cos[i] + x[i]*sin[i]*sign
//
// ("rotate half", Su et al. 2021, arXiv:2104.09864). sign is 1; -1 is the inverse and
// so the gradient.
func (t *Table[T]) RoPE(dst, x, cos, sin []T, sign T) {
	h := len(dst) / 2
	lo, hi, a, b := dst[:h], dst[h:2*h], x[:h], x[h:2*h]
	cos, sin = cos[:h], sin[:h]
	for i, u := range a {
		c, s, v := cos[i], sin[i]*sign, b[i]
		lo[i] = u*c - v*s
		hi[i] = v*c + u*s
	}
}

// AdamW makes one step of the optimizer over len(pOut) elements, from p, m, v and the
// gradient g into pOut, mOut and vOut, which may be p, m and v.
func (t *Table[T]) AdamW(pOut, mOut, vOut, p, m, v, g []T, s AdamWStep[T]) {
	t.adamw(pOut, mOut, vOut, p, m, v, g, s.Beta1, s.Rest1, s.Beta2, s.Rest2, s.Root, s.Eps, s.Decay, s.Rate)
}
