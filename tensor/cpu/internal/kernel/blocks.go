package kernel

import "math"

// Rows is a block of rows: row i begins at Data[i*Stride]. The number of rows and their
// length stand beside it.
type Rows[T Float] struct {
	Data   []T
	Stride int
}

const (
	// longRow is the longest row that assembly sums in float32, one number a lane.
	longRow = 1 << 12
	// blockElems is the approximate number of elements of one call, as chunk is
	// elsewhere.
	blockElems = 1 << 14
)

// row returns n elements of row i.
func (r Rows[T]) row(i, n int) []T { return r.Data[i*r.Stride:][:n] }

// at returns the first element of row i.
func (r Rows[T]) at(i int) *T { return &r.Data[i*r.Stride] }

// bytes returns the stride in bytes of float32, for assembly.
func (r Rows[T]) bytes() int { return 4 * r.Stride }

// check panics unless rows rows of n elements lie in each of the blocks.
func check[T Float](rows, n int, blocks ...Rows[T]) {
	for _, r := range blocks {
		if r.Stride < 0 {
			panic("kernel: a negative stride")
		}
		_ = r.Data[(rows-1)*r.Stride+n-1]
	}
}

// blocks is the assembly behind the kernels of blocks of rows. Without it, and for rows
// that are empty, long or without weights, these are loops over the kernels of one row,
// with which it agrees within rounding. Results of one row are the same in whatever block
// the row is. Strides are in bytes.
type blocks[T Float] struct {
	rmsNorm           func(rows, n int, dst *T, ds int, x *T, xs int, w *T, eps T)
	layerNorm         func(rows, n int, dst *T, ds int, x *T, xs int, w, b *T, eps T)
	rmsNormGrad       func(rows, n int, dst *T, ds int, x *T, xs int, dy *T, dys int, w *T, eps T)
	layerNormGrad     func(rows, n int, dst *T, ds int, x *T, xs int, dy *T, dys int, w *T, eps T)
	rmsNormGradBoth   func(rows, n int, dst *T, ds int, x *T, xs int, dy *T, dys int, w, dw *T, eps T)
	layerNormGradBoth func(rows, n int, dst *T, ds int, x *T, xs int, dy *T, dys int, w, dw, db *T, eps T)
	softmax           func(rows, n, grow, most int, dst *T, ds int, x *T, xs int, scale T)
	softmaxGrad       func(rows, n, grow, most int, dst *T, ds int, p *T, ps int, dp *T, dps int, scale T)
	logSum            func(rows, n int, dst *T, ds int, x *T, xs int, sum *T, sums int)
	less              func(rows, n int, dst *T, ds int, by *T, bys int)
	rope              func(rows, n int, lo *T, los int, hi *T, his int, a *T, as int, b *T, bs int, cos *T, coss int, sin *T, sins int, sign T)
}

// takes reports whether there is assembly for such rows with weights w.
func (b *blocks[T]) takes(rows, n int, w []T) bool {
	return b.rmsNorm != nil && w != nil && n <= longRow && n > 0 && rows > 0
}

// inBlocks calls f for pieces of rows rows of n elements: count rows from row i on.
func inBlocks(rows, n int, f func(i, count int)) {
	step := max(blockElems/n, 1)
	for i := 0; i < rows; i += step {
		f(i, min(step, rows-i))
	}
}

// RMSNormRows is RMSNorm of rows of n elements.
func (t *Table[T]) RMSNormRows(dst, x Rows[T], w []T, rows, n int, eps T) {
	if !t.blocks.takes(rows, n, w) {
		for i := range rows {
			t.RMSNorm(dst.row(i, n), x.row(i, n), w, eps)
		}
		return
	}
	check(rows, n, dst, x)
	_ = w[n-1]
	inBlocks(rows, n, func(i, count int) {
		t.blocks.rmsNorm(count, n, dst.at(i), dst.bytes(), x.at(i), x.bytes(), &w[0], eps)
	})
}

// LayerNormRows is LayerNorm of rows of n elements.
func (t *Table[T]) LayerNormRows(dst, x Rows[T], w, b []T, rows, n int, eps T) {
	if b == nil || !t.blocks.takes(rows, n, w) {
		for i := range rows {
			t.LayerNorm(dst.row(i, n), x.row(i, n), w, b, eps)
		}
		return
	}
	check(rows, n, dst, x)
	_, _ = w[n-1], b[n-1]
	inBlocks(rows, n, func(i, count int) {
		t.blocks.layerNorm(count, n, dst.at(i), dst.bytes(), x.at(i), x.bytes(), &w[0], &b[0], eps)
	})
}

// RMSNormGradRows is RMSNormGrad of rows of n elements; it recomputes 1/√(Σx²/n+eps). dw
// may be nil, dx may be x or dy.
func (t *Table[T]) RMSNormGradRows(dx, x, dy Rows[T], dw, w []T, rows, n int, eps T) {
	if !t.blocks.takes(rows, n, w) {
		for i := range rows {
			v := x.row(i, n)
			t.RMSNormGrad(dx.row(i, n), dw, v, w, dy.row(i, n), rstd(t.Dot(v, v)/T(n), eps))
		}
		return
	}
	check(rows, n, dx, x, dy)
	_ = w[n-1]
	inBlocks(rows, n, func(i, count int) {
		if dw == nil {
			t.blocks.rmsNormGrad(count, n, dx.at(i), dx.bytes(), x.at(i), x.bytes(), dy.at(i), dy.bytes(), &w[0], eps)
		} else {
			_ = dw[n-1]
			t.blocks.rmsNormGradBoth(count, n, dx.at(i), dx.bytes(), x.at(i), x.bytes(), dy.at(i), dy.bytes(), &w[0], &dw[0], eps)
		}
	})
}

// LayerNormGradRows is LayerNormGrad of rows of n elements; it recomputes mean and
// deviation. dw and db may be nil, dx may be x or dy.
func (t *Table[T]) LayerNormGradRows(dx, x, dy Rows[T], dw, db, w []T, rows, n int, eps T) {
	if (dw == nil) != (db == nil) || !t.blocks.takes(rows, n, w) {
		for i := range rows {
			v := x.row(i, n)
			mean := t.Sum(v) / T(n)
			t.LayerNormGrad(dx.row(i, n), dw, db, v, w, dy.row(i, n), mean, rstd(t.SumSqDev(v, mean)/T(n), eps))
		}
		return
	}
	check(rows, n, dx, x, dy)
	_ = w[n-1]
	inBlocks(rows, n, func(i, count int) {
		if dw == nil {
			t.blocks.layerNormGrad(count, n, dx.at(i), dx.bytes(), x.at(i), x.bytes(), dy.at(i), dy.bytes(), &w[0], eps)
		} else {
			_, _ = dw[n-1], db[n-1]
			t.blocks.layerNormGradBoth(count, n, dx.at(i), dx.bytes(), x.at(i), x.bytes(), dy.at(i), dy.bytes(), &w[0], &dw[0], &db[0], eps)
		}
	})
}

// SoftmaxRows is Softmax of the first min(first+i*grow, n) elements of row i, at least 1,
// and 0 after them up to n: with grow 1 it is causal.
func (t *Table[T]) SoftmaxRows(dst, x Rows[T], rows, n, first, grow int, scale T) {
	if rows == 0 || n == 0 {
		return
	}
	checkGrow(rows, n, first, grow)
	if t.blocks.softmax == nil || n > longRow {
		for i := range rows {
			seen := min(first+i*grow, n)
			t.Softmax(dst.row(i, n)[:seen], x.row(i, seen), scale)
			clear(dst.row(i, n)[seen:])
		}
		return
	}
	check(rows, n, dst)
	check(rows, min(first+(rows-1)*grow, n), x)
	inBlocks(rows, n, func(i, count int) {
		t.blocks.softmax(count, min(first+i*grow, n), grow, n, dst.at(i), dst.bytes(), x.at(i), x.bytes(), scale)
		dst.zeros(i, count, n, first, grow)
	})
}

// shortLogSoftmax is the longest row that LogSoftmaxRows takes together with others,
// LogSoftmaxRoom of them at a time.
const shortLogSoftmax, LogSoftmaxRoom = 512, 64

// LogSoftmaxRows is LogSoftmax of rows of n elements. room has [LogSoftmaxRoom] elements,
// which the call overwrites.
func (t *Table[T]) LogSoftmaxRows(dst, x Rows[T], room []T, rows, n int) {
	if rows == 0 || n == 0 {
		return
	}
	if t.blocks.logSum == nil || n > shortLogSoftmax {
		for i := range rows {
			t.LogSoftmax(dst.row(i, n), x.row(i, n))
		}
		return
	}
	check(rows, n, dst, x)
	for i := 0; i < rows; i += LogSoftmaxRoom {
		sums := room[:min(LogSoftmaxRoom, rows-i)]
		t.blocks.logSum(len(sums), n, dst.at(i), dst.bytes(), x.at(i), x.bytes(), &sums[0], 4)
		t.Log(sums, sums)
		t.blocks.less(len(sums), n, dst.at(i), dst.bytes(), &sums[0], 4)
	}
}

// SoftmaxGradRows is SoftmaxGrad of the same elements.
func (t *Table[T]) SoftmaxGradRows(dst, p, dp Rows[T], rows, n, first, grow int, scale T) {
	if rows == 0 || n == 0 {
		return
	}
	checkGrow(rows, n, first, grow)
	if t.blocks.softmaxGrad == nil || n > longRow {
		for i := range rows {
			seen := min(first+i*grow, n)
			t.SoftmaxGrad(dst.row(i, n)[:seen], p.row(i, seen), dp.row(i, seen), scale)
			clear(dst.row(i, n)[seen:])
		}
		return
	}
	check(rows, n, dst)
	check(rows, min(first+(rows-1)*grow, n), p, dp)
	inBlocks(rows, n, func(i, count int) {
		t.blocks.softmaxGrad(count, min(first+i*grow, n), grow, n, dst.at(i), dst.bytes(), p.at(i), p.bytes(), dp.at(i), dp.bytes(), scale)
		dst.zeros(i, count, n, first, grow)
	})
}

// zeros clears the elements after the first min(first+i*grow, n) of count rows from row i
// on.
func (r Rows[T]) zeros(i, count, n, first, grow int) {
	for j := i; j < i+count; j++ {
		if seen := first + j*grow; seen < n {
			clear(r.row(j, n)[seen:])
		}
	}
}

// RoPERows is RoPE of rows of 2h elements by tables of h.
func (t *Table[T]) RoPERows(dst, x, cos, sin Rows[T], rows, h int, sign T) {
	if t.blocks.rope == nil || h == 0 || rows == 0 {
		for i := range rows {
			t.RoPE(dst.row(i, 2*h), x.row(i, 2*h), cos.row(i, h), sin.row(i, h), sign)
		}
		return
	}
	check(rows, 2*h, dst, x)
	check(rows, h, cos, sin)
	inBlocks(rows, h, func(i, count int) {
		d, a := &dst.Data[i*dst.Stride+h], &x.Data[i*x.Stride+h]
		t.blocks.rope(count, h, dst.at(i), dst.bytes(), d, dst.bytes(), x.at(i), x.bytes(), a, x.bytes(), cos.at(i), cos.bytes(), sin.at(i), sin.bytes(), sign)
	})
}

// checkGrow panics unless the rows of a softmax have from one to n elements.
func checkGrow(rows, n, first, grow int) {
	if first < 1 || first > n || grow < 0 || grow > math.MaxInt/max(rows, 1)-n {
		panic("kernel: rows of a softmax must have from one to n elements")
	}
}
