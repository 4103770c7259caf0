//go:build amd64 || arm64

package kernel

// The tiles of products of a few rows. Strides are in bytes.
type (
	axpyFunc[T Float]   = func(n int, a *T, csA int, b *T, rsB int, c *T, add int)
	turnedFunc[T Float] = func(blocks int, a *T, rsA int, b *T, csB int, c *T, ldc int, add int)
)

// fewUnit computes products of a few rows, which read b once, as it lies, and give the
// bits of the other tiles.
type fewUnit[T Float] struct {
	axpys, axpy axpyFunc[T]     // of axpysRows rows of b, and of one; nil in some units
	turned      []turnedFunc[T] // by rows-1; none on some levels
}

const (
	axpysRows = 8
	// axpyCols is how many columns are added up at a time, whose sums stay in the
	// first-level cache.
	axpyCols = 2048
	// fewAxpys is the most rows of a for which rows of b are added up as they lie in
	// memory, and farRow the least distance of those: tiles read a piece of every row,
	// most of which are then in a page of their own.
	fewAxpys = 2
	farRow   = 1024
)

// few computes the product and returns true if it is one of a few rows that there are
// kernels for. See "Products of a few rows" in docs/decisions.md.
func (p *product[T]) few(m, n, k int, accumulate bool, scratch []T) bool {
	switch {
	case p.gemmUnit.few == nil || p.alpha != 1 || accumulate:
	case p.b.RS == 1 && p.b.CS != 1 && p.a.CS == 1 && m <= len(p.gemmUnit.few.turned) && n >= p.lanes && k%p.lanes == 0 && depth(k)%p.lanes == 0:
		p.byTurns(m, n, k, scratch)
		return true
	case p.gemmUnit.few.axpy != nil && p.b.CS == 1 && m <= fewAxpys && p.b.RS >= farRow && k*n > nearElems:
		p.byAxpys(m, n, k, scratch)
		return true
	}
	return false
}

// byTurns computes a product whose b has contiguous columns, one vector of them at a
// time.
func (p *product[T]) byTurns(m, n, k int, scratch []T) {
	kc, f := depth(k), p.gemmUnit.few.turned[m-1]
	j := 0
	for ; j+p.lanes <= n; j += p.lanes {
		if stopped(p.stop) { // all columns that are left would come here again
			return
		}
		for d := 0; d < k; d += kc {
			f(min(kc, k-d)/p.lanes, &p.a.Data[d], p.size*p.a.RS, &p.b.Data[j*p.b.CS+d], p.size*p.b.CS, &p.c[j], p.size*p.ldc, min(d, 1))
		}
	}
	if j < n {
		p.gemm(m, n-j, k, 1, p.a, p.b.Sub(0, j), false, p.c[j:], p.ldc, scratch, p.stop)
	}
}

// byAxpys computes a product whose b has contiguous rows, some rows at a time.
func (p *product[T]) byAxpys(m, n, k int, scratch []T) {
	kc, sums := depth(k), scratch[:min(axpyCols, n)]
	for j := 0; j < n; j += axpyCols {
		cols := min(axpyCols, n-j)
		for d := 0; d < k; d += kc {
			for i := range m {
				if stopped(p.stop) {
					return
				}
				c := p.c[i*p.ldc+j:][:cols]
				to := c
				if d > 0 {
					to = sums[:cols]
				}
				p.addRows(to, i, d, min(d+kc, k), j)
				if d > 0 {
					for q, v := range to {
						c[q] += v
					}
				}
			}
		}
	}
}

// addRows adds up rows d to end of b, times row i of a, in to.
func (p *product[T]) addRows(to []T, i, d, end, j int) {
	add := 0
	for d < end {
		f, rows := p.gemmUnit.few.axpy, 1
		if end-d >= axpysRows {
			f, rows = p.gemmUnit.few.axpys, axpysRows
		}
		f(len(to), &p.a.Data[i*p.a.RS+d*p.a.CS], p.size*p.a.CS, &p.b.Data[d*p.b.RS+j], p.size*p.b.RS, &to[0], add)
		add, d = 1, d+rows
	}
}
