package kernel

// The assembly behind the kernels of blocks of rows. Strides are in bytes there.
type (
	normRowsFunc      = func(rows, n int, dst ptr, ds int, x ptr, xs int, w ptr, eps float32)
	shiftNormRowsFunc = func(rows, n int, dst ptr, ds int, x ptr, xs int, w, b ptr, eps float32)
	normGradRowsFunc  = func(rows, n int, dst ptr, ds int, x ptr, xs int, dy ptr, dys int, w ptr, eps float32)
	normBothRowsFunc  = func(rows, n int, dst ptr, ds int, x ptr, xs int, dy ptr, dys int, w, dw ptr, eps float32)
	shiftBothRowsFunc = func(rows, n int, dst ptr, ds int, x ptr, xs int, dy ptr, dys int, w, dw, db ptr, eps float32)
	softRowsFunc      = func(rows, n, grow, most int, dst ptr, ds int, x ptr, xs int, scale float32)
	softGradRowsFunc  = func(rows, n, grow, most int, dst ptr, ds int, p ptr, ps int, dp ptr, dps int, scale float32)
	ropeRowsFunc      = func(rows, n int, lo ptr, los int, hi ptr, his int, a ptr, as int, b ptr, bs int, cos ptr, coss int, sin ptr, sins int, sign float32)
)

// rowKernels are the kernels of one level.
type rowKernels struct {
	rmsNorm           normRowsFunc
	layerNorm         shiftNormRowsFunc
	rmsNormGrad       normGradRowsFunc
	layerNormGrad     normGradRowsFunc
	rmsNormGradBoth   normBothRowsFunc
	layerNormGradBoth shiftBothRowsFunc
	softmax           softRowsFunc
	softmaxGrad       softGradRowsFunc
	rope              ropeRowsFunc
}

// inBlocks calls f for pieces of rows rows of n elements: count rows from row i on.
func inBlocks(rows, n int, f func(i, count int)) {
	step := max(blockElems/n, 1)
	for i := 0; i < rows; i += step {
		f(i, min(step, rows-i))
	}
}

// at returns the first element of row i and the stride in bytes.
func (r Rows) at(i int) (ptr, int) { return &r.Data[i*r.Stride], 4 * r.Stride }

// accelerateRows sets the kernels of blocks to assembly, for rows that are neither empty
// nor long and that have weights.
func (t *Table) accelerateRows(k rowKernels) {
	t.accelerateNorms(k)
	t.accelerateNormGrads(k)
	t.accelerateSoftmax(k)
	t.RoPERows = func(dst, x, cos, sin Rows, rows, h int, sign float32) {
		if h == 0 || rows == 0 {
			return
		}
		dst.check(rows, 2*h)
		x.check(rows, 2*h)
		cos.check(rows, h)
		sin.check(rows, h)
		inBlocks(rows, h, func(i, count int) {
			d, ds := dst.at(i)
			a, as := x.at(i)
			c, cs := cos.at(i)
			s, ss := sin.at(i)
			k.rope(count, h, d, ds, &dst.Data[i*dst.Stride+h], ds, a, as, &x.Data[i*x.Stride+h], as, c, cs, s, ss, sign)
		})
	}
}

func (t *Table) accelerateNorms(k rowKernels) {
	t.RMSNormRows = func(dst, x Rows, w []float32, rows, n int, eps float32) {
		if w == nil || n > longRow || n == 0 || rows == 0 {
			t.rmsNormRows(dst, x, w, rows, n, eps)
			return
		}
		dst.check(rows, n)
		x.check(rows, n)
		_ = w[n-1]
		inBlocks(rows, n, func(i, count int) {
			d, ds := dst.at(i)
			a, as := x.at(i)
			k.rmsNorm(count, n, d, ds, a, as, &w[0], eps)
		})
	}
	t.LayerNormRows = func(dst, x Rows, w, b []float32, rows, n int, eps float32) {
		if w == nil || b == nil || n > longRow || n == 0 || rows == 0 {
			t.layerNormRows(dst, x, w, b, rows, n, eps)
			return
		}
		dst.check(rows, n)
		x.check(rows, n)
		_, _ = w[n-1], b[n-1]
		inBlocks(rows, n, func(i, count int) {
			d, ds := dst.at(i)
			a, as := x.at(i)
			k.layerNorm(count, n, d, ds, a, as, &w[0], &b[0], eps)
		})
	}
}

func (t *Table) accelerateNormGrads(k rowKernels) {
	t.RMSNormGradRows = func(dx, x, dy Rows, dw, w []float32, rows, n int, eps float32) {
		if w == nil || n > longRow || n == 0 || rows == 0 {
			t.rmsNormGradRows(dx, x, dy, dw, w, rows, n, eps)
			return
		}
		checkGrad(dx, x, dy, w, rows, n)
		inBlocks(rows, n, func(i, count int) {
			d, ds := dx.at(i)
			a, as := x.at(i)
			g, gs := dy.at(i)
			if dw == nil {
				k.rmsNormGrad(count, n, d, ds, a, as, g, gs, &w[0], eps)
			} else {
				_ = dw[n-1]
				k.rmsNormGradBoth(count, n, d, ds, a, as, g, gs, &w[0], &dw[0], eps)
			}
		})
	}
	t.LayerNormGradRows = func(dx, x, dy Rows, dw, db, w []float32, rows, n int, eps float32) {
		if w == nil || (dw == nil) != (db == nil) || n > longRow || n == 0 || rows == 0 {
			t.layerNormGradRows(dx, x, dy, dw, db, w, rows, n, eps)
			return
		}
		checkGrad(dx, x, dy, w, rows, n)
		inBlocks(rows, n, func(i, count int) {
			d, ds := dx.at(i)
			a, as := x.at(i)
			g, gs := dy.at(i)
			if dw == nil {
				k.layerNormGrad(count, n, d, ds, a, as, g, gs, &w[0], eps)
			} else {
				_, _ = dw[n-1], db[n-1]
				k.layerNormGradBoth(count, n, d, ds, a, as, g, gs, &w[0], &dw[0], &db[0], eps)
			}
		})
	}
}

// checkGrad panics unless the operands of a norm's gradient are long enough.
func checkGrad(dx, x, dy Rows, w []float32, rows, n int) {
	dx.check(rows, n)
	x.check(rows, n)
	dy.check(rows, n)
	_ = w[n-1]
}

func (t *Table) accelerateSoftmax(k rowKernels) {
	zeros := func(dst Rows, i, count, n, first, grow int) {
		for j := i; j < i+count; j++ {
			if seen := first + j*grow; seen < n {
				clear(dst.row(j, n)[seen:])
			}
		}
	}
	t.SoftmaxRows = func(dst, x Rows, rows, n, first, grow int, scale float32) {
		if n > longRow || n == 0 || rows == 0 {
			t.softmaxRows(dst, x, rows, n, first, grow, scale)
			return
		}
		checkGrow(rows, n, first, grow)
		dst.check(rows, n)
		x.check(rows, min(first+(rows-1)*grow, n))
		inBlocks(rows, n, func(i, count int) {
			d, ds := dst.at(i)
			a, as := x.at(i)
			k.softmax(count, min(first+i*grow, n), grow, n, d, ds, a, as, scale)
			zeros(dst, i, count, n, first, grow)
		})
	}
	t.SoftmaxGradRows = func(dst, p, dp Rows, rows, n, first, grow int, scale float32) {
		if n > longRow || n == 0 || rows == 0 {
			t.softmaxGradRows(dst, p, dp, rows, n, first, grow, scale)
			return
		}
		checkGrow(rows, n, first, grow)
		dst.check(rows, n)
		p.check(rows, min(first+(rows-1)*grow, n))
		dp.check(rows, min(first+(rows-1)*grow, n))
		inBlocks(rows, n, func(i, count int) {
			d, ds := dst.at(i)
			a, as := p.at(i)
			g, gs := dp.at(i)
			k.softmaxGrad(count, min(first+i*grow, n), grow, n, d, ds, a, as, g, gs, scale)
			zeros(dst, i, count, n, first, grow)
		})
	}
}
