package kernel

import "math"

// Rows is a block of rows: row i begins at Data[i*Stride]. The number of rows and their
// length stand beside it.
type Rows struct {
	Data   []float32
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
func (r Rows) row(i, n int) []float32 { return r.Data[i*r.Stride:][:n] }

// check panics unless rows rows of n elements lie in r.
func (r Rows) check(rows, n int) {
	if r.Stride < 0 {
		panic("kernel: a negative stride")
	}
	_ = r.Data[(rows-1)*r.Stride+n-1]
}

// blocks sets the kernels of blocks of rows to loops over those of one row.
func (t *Table) blocks() {
	t.Chain = func(int, []ChainOp) int { return 0 }
	t.RMSNormRows = t.rmsNormRows
	t.RMSNormGradRows = t.rmsNormGradRows
	t.LayerNormRows = t.layerNormRows
	t.LayerNormGradRows = t.layerNormGradRows
	t.SoftmaxRows = t.softmaxRows
	t.SoftmaxGradRows = t.softmaxGradRows
	t.RoPERows = t.ropeRows
}

func (t *Table) rmsNormRows(dst, x Rows, w []float32, rows, n int, eps float32) {
	for i := range rows {
		t.rmsNorm(dst.row(i, n), x.row(i, n), w, eps)
	}
}

func (t *Table) rmsNormGradRows(dx, x, dy Rows, dw, w []float32, rows, n int, eps float32) {
	for i := range rows {
		v := x.row(i, n)
		t.rmsNormGrad(dx.row(i, n), dw, v, w, dy.row(i, n), rstd(t.Dot(v, v)/float32(n), eps))
	}
}

func (t *Table) layerNormRows(dst, x Rows, w, b []float32, rows, n int, eps float32) {
	for i := range rows {
		t.layerNorm(dst.row(i, n), x.row(i, n), w, b, eps)
	}
}

func (t *Table) layerNormGradRows(dx, x, dy Rows, dw, db, w []float32, rows, n int, eps float32) {
	for i := range rows {
		v := x.row(i, n)
		mean := t.Sum(v) / float32(n)
		t.layerNormGrad(dx.row(i, n), dw, db, v, w, dy.row(i, n), mean, rstd(t.SumSqDev(v, mean)/float32(n), eps))
	}
}

func (t *Table) softmaxRows(dst, x Rows, rows, n, first, grow int, scale float32) {
	if rows == 0 || n == 0 {
		return
	}
	checkGrow(rows, n, first, grow)
	for i := range rows {
		seen := min(first+i*grow, n)
		y := dst.row(i, n)
		t.softmax(y[:seen], x.row(i, seen), scale)
		clear(y[seen:])
	}
}

func (t *Table) softmaxGradRows(dst, p, dp Rows, rows, n, first, grow int, scale float32) {
	if rows == 0 || n == 0 {
		return
	}
	checkGrow(rows, n, first, grow)
	for i := range rows {
		seen := min(first+i*grow, n)
		y := dst.row(i, n)
		t.softmaxGrad(y[:seen], p.row(i, seen), dp.row(i, seen), scale)
		clear(y[seen:])
	}
}

func (t *Table) ropeRows(dst, x, cos, sin Rows, rows, h int, sign float32) {
	for i := range rows {
		t.ropeRow(dst.row(i, 2*h), x.row(i, 2*h), cos.row(i, h), sin.row(i, h), sign)
	}
}

// checkGrow panics unless the rows of a softmax have from one to n elements.
func checkGrow(rows, n, first, grow int) {
	if first < 1 || first > n || grow < 0 || grow > math.MaxInt/max(rows, 1)-n {
		panic("kernel: rows of a softmax must have from one to n elements")
	}
}
