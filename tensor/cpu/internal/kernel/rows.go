package kernel

import "math"

// rows sets the kernels that are made of others, which must be set already.
func (t *Table) rows() {
	t.Softmax = t.softmax
	t.SoftmaxGrad = t.softmaxGrad
	t.LogSumExp = t.logSumExp
	t.LogSoftmax = t.logSoftmax
	t.LogSoftmaxGrad = t.logSoftmaxGrad
	t.CrossEntropy = t.crossEntropy
	t.LayerNorm = t.layerNorm
	t.LayerNormGrad = t.layerNormGrad
	t.RMSNorm = t.rmsNorm
	t.RMSNormGrad = t.rmsNormGrad
	t.RoPE = t.ropeRow
	t.blocks()
}

func (t *Table) softmax(dst, x []float32, scale float32) {
	x = x[:len(dst)]
	sum := t.ExpSum(dst, x, scale, -scale*t.RowMax(x))
	t.MulS(dst, dst, 1/sum)
}

func (t *Table) softmaxGrad(dst, p, dp []float32, scale float32) {
	n := len(dst)
	p, dp = p[:n], dp[:n]
	t.shifted(dst, dp, p, -t.Dot(p, dp), scale)
}

func (t *Table) logSumExp(x []float32) float32 {
	top := t.RowMax(x)
	if math.IsInf(float64(top), 0) {
		return top // all -Inf, or one +Inf: the shift below would make NaN of it
	}
	return top + float32(math.Log(float64(t.expTotal(x, 1, -top))))
}

func (t *Table) logSoftmax(dst, x []float32) {
	x = x[:len(dst)]
	top := t.RowMax(x)
	if math.IsInf(float64(top), 0) {
		t.AddS(dst, x, -top)
		return
	}
	// The two parts of the logarithm are subtracted one after the other: their sum would
	// be rounded to the largest x.
	l := float32(math.Log(float64(t.expTotal(x, 1, -top))))
	t.AddS(dst, x, -top)
	t.AddS(dst, dst, -l)
}

func (t *Table) logSoftmaxGrad(dst, y, dy []float32) {
	dy = dy[:len(dst)]
	t.dlogsm(dst, y, dy, t.Sum(dy))
}

func (t *Table) crossEntropy(dx, x []float32, target int, scale float32) float32 {
	xt := x[target]
	if dx == nil {
		top := t.RowMax(x)
		if math.IsInf(float64(top), 0) {
			return top - xt
		}
		return float32(math.Log(float64(t.expTotal(x, 1, -top)))) + (top - xt)
	}
	dx = dx[:len(x)]
	top := t.RowMax(x)
	sum := t.ExpSum(dx, x, 1, -top)
	t.MulS(dx, dx, scale/sum)
	dx[target] -= scale
	return float32(math.Log(float64(sum))) + (top - xt)
}

func rstd(meanSquare, eps float32) float32 {
	return float32(1 / math.Sqrt(float64(meanSquare)+float64(eps)))
}

func (t *Table) layerNorm(dst, x, w, b []float32, eps float32) (mean, r float32) {
	n := float32(len(dst))
	x = x[:len(dst)]
	mean = t.Sum(x) / n
	r = rstd(t.SumSqDev(x, mean)/n, eps)
	t.affine(dst, x, w, b, -mean, r)
	return mean, r
}

// affine is dst = (x+shift)*scale*w+b, without w and b where they are nil.
func (t *Table) affine(dst, x, w, b []float32, shift, scale float32) {
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

func (t *Table) layerNormGrad(dx, dw, db, x, w, dy []float32, mean, r float32) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	if dw != nil {
		t.addGrad(dw[:n], x, dy, -mean, r)
	}
	if db != nil {
		db = db[:n]
		t.Add(db, db, dy)
	}
	t.normDx(dx, x, w, dy, -mean, r, true)
}

// normDx stores the gradient by the input of a norm; centred says that the norm
// subtracted the mean.
func (t *Table) normDx(dx, x, w, dy []float32, shift, r float32, centred bool) {
	var s1, s2 float32
	if w == nil {
		s1, s2 = t.normSums1(x, dy, shift, r)
	} else {
		s1, s2 = t.normSums(x, w, dy, shift, r)
	}
	n := float32(len(dx))
	if !centred {
		s1 = 0
	}
	if w == nil {
		t.normGrad1(dx, x, dy, shift, r, -s1/n, -s2/n)
	} else {
		t.normGrad(dx, x, w, dy, shift, r, -s1/n, -s2/n)
	}
}

func (t *Table) rmsNorm(dst, x, w []float32, eps float32) (r float32) {
	x = x[:len(dst)]
	r = rstd(t.Dot(x, x)/float32(len(dst)), eps)
	t.affine(dst, x, w, nil, 0, r)
	return r
}

func (t *Table) rmsNormGrad(dx, dw, x, w, dy []float32, r float32) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	if dw != nil {
		t.addGrad(dw[:n], x, dy, 0, r)
	}
	t.normDx(dx, x, w, dy, 0, r, false)
}

func (t *Table) ropeRow(dst, x, cos, sin []float32, sign float32) {
	h := len(dst) / 2
	t.rope(dst[:h], dst[h:2*h], x[:h], x[h:2*h], cos, sin, sign)
}
