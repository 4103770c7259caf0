package kernel

import "sync/atomic"

// IntGemm is [Products].Gemm of integers, with alpha 1. Sums wrap around.
type IntGemm[T Integer] = func(m, n, k int, a, b Matrix[T], accumulate bool, c []T, ldc int, scratch []T, stop *atomic.Bool)

// IntProducts are the products of integers of a level.
type IntProducts struct {
	I32 IntGemm[int32]
	I64 IntGemm[int64]
	u8  bool                // products of bytes go by I32
	few *fewProducts[uint8] // nil on some levels
	p   *Plain
}

// IntProductsOf returns those of a level that this machine can run, with the kernels p of
// the same level.
func IntProductsOf(l Level, p *Plain) *IntProducts {
	x := &IntProducts{I32: intsGo[int32], I64: intsGo[int64], u8: l != Go, p: p}
	if l != Go {
		accelerateProducts(x, l)
	}
	return x
}

func intsGo[T Integer](m, n, k int, a, b Matrix[T], accumulate bool, c []T, ldc int, _ []T, stop *atomic.Bool) {
	GemmInts(m, n, k, a, b, accumulate, c, ldc, stop)
}

// BytesScratch is what products of bytes keep for the next call of its owner.
type BytesScratch struct {
	a, b, c, ints []int32
	row           []uint8
}

// Blocks of products of bytes, whose numbers are widened to 32 bits: a block of b takes
// 1 MiB, in the second-level cache.
const (
	bytesDepth = 512
	bytesCols  = 512
	bytesRows  = 256
)

// U8 is an [IntGemm] of bytes.
func (p *IntProducts) U8(m, n, k int, a, b Matrix[uint8], accumulate bool, c []uint8, ldc int, s *BytesScratch, stop *atomic.Bool) {
	if !p.u8 || k == 0 {
		GemmInts(m, n, k, a, b, accumulate, c, ldc, stop)
		return
	}
	checkGemm(m, n, k, a, b, c, ldc)
	if j := p.few.columns(m, n, k, a, b); j > 0 {
		p.few.product(m, j, k, a, b, accumulate, c, ldc, stop)
		if j < n {
			p.U8(m, n-j, k, a, b.Sub(0, j), accumulate, c[j:], ldc, s, stop)
		}
		return
	}
	for j := 0; j < n; j += bytesCols {
		cols := min(bytesCols, n-j)
		for i := 0; i < m; i += bytesRows {
			rows := min(bytesRows, m-i)
			s.c = atLeast(s.c, rows*cols)
			for d := 0; d < k; d += bytesDepth {
				if stopped(stop) {
					return
				}
				depth := min(bytesDepth, k-d)
				s.ints = atLeast(s.ints, GemmScratch(rows, cols, depth))
				p.I32(rows, cols, depth, p.widened(&s.a, a.Sub(i, d), rows, depth), p.widened(&s.b, b.Sub(d, j), depth, cols),
					d > 0, s.c, cols, s.ints, stop)
			}
			s.row = atLeast(s.row, cols)
			for r := range rows {
				to := c[(i+r)*ldc+j:][:cols]
				if sums := s.c[r*cols:][:cols]; accumulate {
					p.p.I32ToU8(s.row[:cols], sums)
					p.p.U8.Add(to, to, s.row[:cols])
				} else {
					p.p.I32ToU8(to, sums)
				}
			}
		}
	}
}

// widened returns rows×cols bytes as numbers of 32 bits in *wide, in the order in which
// they lie.
func (p *IntProducts) widened(wide *[]int32, x Matrix[uint8], rows, cols int) Matrix[int32] {
	*wide = atLeast(*wide, rows*cols)
	dst := *wide
	switch {
	case x.CS == 1:
		for i := range rows {
			p.p.U8ToI32(dst[i*cols:][:cols], x.Data[i*x.RS:][:cols])
		}
	case x.RS == 1:
		for j := range cols {
			p.p.U8ToI32(dst[j*rows:][:rows], x.Data[j*x.CS:][:rows])
		}
		return Matrix[int32]{dst, 1, rows}
	default:
		for i := range rows {
			at := i * x.RS
			for j := range cols {
				dst[i*cols+j] = int32(x.Data[at])
				at += x.CS
			}
		}
	}
	return Matrix[int32]{dst, cols, 1}
}

// fewProducts are the kernels of products of up to most rows of integers, which read b
// once, as it lies. Each adds the product of one row of a to c: axpys that with
// fewAxpyRows rows of b, dots that with dotCols columns. n is a multiple of lanes,
// strides are in bytes.
type fewProducts[T Integer] struct {
	most, lanes, size int
	axpys             func(n int, a *T, csA int, b *T, rsB int, c *T)
	dots              func(n int, a, b *T, csB int, c *T)
}

const (
	// fewAxpyRows is how many rows of b are added at a time, dotCols how many columns a
	// row is multiplied by.
	fewAxpyRows = 8
	dotCols     = 4
	// dotLength is how many numbers of a row are multiplied between two looks at the stop
	// flag.
	dotLength = 1 << 16
	// fewWords is fewProducts.most for integers wider than a byte. With more rows the
	// tiles of Gemm are as fast.
	fewWords = 4
)

// or returns a product that computes the columns that f takes by f, and the others by
// gemm.
func (f *fewProducts[T]) or(gemm IntGemm[T]) IntGemm[T] {
	return func(m, n, k int, a, b Matrix[T], accumulate bool, c []T, ldc int, scratch []T, stop *atomic.Bool) {
		j := f.columns(m, n, k, a, b)
		if j > 0 {
			checkGemm(m, n, k, a, b, c, ldc)
			f.product(m, j, k, a, b, accumulate, c, ldc, stop)
			if j == n {
				return
			}
			b, c = b.Sub(0, j), c[j:]
		}
		gemm(m, n-j, k, a, b, accumulate, c, ldc, scratch, stop)
	}
}

// columns returns how many of n columns there are kernels for.
func (f *fewProducts[T]) columns(m, n, k int, a, b Matrix[T]) int {
	switch {
	case f == nil || m == 0 || m > f.most:
	case b.CS == 1 && k >= fewAxpyRows:
		return n / f.lanes * f.lanes
	case b.RS == 1 && a.CS == 1 && k >= f.lanes:
		return n / dotCols * dotCols
	}
	return 0
}

// product computes a product of as many columns as columns returned.
func (f *fewProducts[T]) product(m, n, k int, a, b Matrix[T], accumulate bool, c []T, ldc int, stop *atomic.Bool) {
	zeroUnless(accumulate, m, n, c, ldc)
	if b.CS == 1 {
		f.byRows(m, n, k, a, b, c, ldc, stop)
	} else {
		f.byColumns(m, n, k, a, b, c, ldc, stop)
	}
}

func (f *fewProducts[T]) byRows(m, n, k int, a, b Matrix[T], c []T, ldc int, stop *atomic.Bool) {
	for j := 0; j < n; j += intCols {
		cols := min(intCols, n-j)
		for d := 0; d < k && !stopped(stop); d += fewAxpyRows {
			for i := range m {
				row, rows, to := a.Sub(i, d), b.Sub(d, j), c[i*ldc+j:][:cols]
				if k-d < fewAxpyRows {
					addRowsOf(to, row, rows, k-d)
				} else {
					f.axpys(cols, &row.Data[0], f.size*a.CS, &rows.Data[0], f.size*b.RS, &to[0])
				}
			}
		}
	}
}

func (f *fewProducts[T]) byColumns(m, n, k int, a, b Matrix[T], c []T, ldc int, stop *atomic.Bool) {
	whole := k / f.lanes * f.lanes
	for j := 0; j < n; j += dotCols {
		for i := range m {
			row, to := a.Data[i*a.RS:][:k], c[i*ldc+j:][:dotCols]
			for d := 0; d < whole && !stopped(stop); d += dotLength {
				f.dots(min(dotLength, whole-d), &row[d], &b.Data[j*b.CS+d], f.size*b.CS, &to[0])
			}
			for q := range to {
				to[q] += dotInts(row[whole:], b.Data[(j+q)*b.CS+whole:])
			}
		}
	}
}

// atLeast returns x, or a longer slice where it has less than n elements.
func atLeast[T any](x []T, n int) []T {
	if len(x) < n {
		return make([]T, n)
	}
	return x
}

// Integer is the set of integer types of [GemmInts] and [Plain].
type Integer interface{ ~int32 | ~int64 | ~uint8 }

const (
	// fewInts is the most rows of a product whose b is read as it lies: the tiles of Gemm
	// pack it, which costs as much as some rows.
	fewInts = 8
	// intCols is how many columns are added up at a time, which stay in the first-level
	// cache.
	intCols = 1024
)

// GemmInts is [Gemm] of integers, whose sums wrap around and so may be added up in any
// order.
func GemmInts[T Integer](m, n, k int, a, b Matrix[T], accumulate bool, c []T, ldc int, stop *atomic.Bool) {
	byRow, byColumn := b.CS == 1, b.RS == 1 && a.CS == 1
	if m > fewInts || k == 0 || !byRow && !byColumn {
		Gemm(m, n, k, 1, a, b, accumulate, c, ldc, stop)
		return
	}
	checkGemm(m, n, k, a, b, c, ldc)
	zeroUnless(accumulate, m, n, c, ldc)
	for j := 0; j < n; j += intCols {
		cols := min(intCols, n-j)
		for i := range m {
			if stopped(stop) {
				return
			}
			to := c[i*ldc+j:][:cols]
			if byRow {
				addRowsOf(to, a.Sub(i, 0), b.Sub(0, j), k)
				continue
			}
			row := a.Data[i*a.RS:][:k]
			for q := range to {
				to[q] += dotInts(row, b.Data[(j+q)*b.CS:])
			}
		}
	}
}

// addRowsOf adds the k rows of b, each times an element of the first row of a, to c.
func addRowsOf[T Integer](c []T, a, b Matrix[T], k int) {
	at, q := 0, 0
	for ; q+4 <= k; q += 4 {
		row := func(i int) []T { return b.Data[(q+i)*b.RS:][:len(c)] }
		b0, b1, b2, b3 := row(0), row(1), row(2), row(3)
		v0, v1, v2, v3 := a.Data[at], a.Data[at+a.CS], a.Data[at+2*a.CS], a.Data[at+3*a.CS]
		at += 4 * a.CS
		for j, x := range b0 {
			c[j] += v0*x + v1*b1[j] + v2*b2[j] + v3*b3[j]
		}
	}
	for ; q < k; q++ {
		v := a.Data[at]
		at += a.CS
		for j, x := range b.Data[q*b.RS:][:len(c)] {
			c[j] += v * x
		}
	}
}

// dotInts returns the sum of the products of a's elements and those of b, by four sums.
func dotInts[T Integer](a, b []T) T {
	var s0, s1, s2, s3 T
	b = b[:len(a)]
	for ; len(a) >= 4; a, b = a[4:], b[4:] {
		x, y := (*[4]T)(a), (*[4]T)(b)
		s0, s1, s2, s3 = s0+x[0]*y[0], s1+x[1]*y[1], s2+x[2]*y[2], s3+x[3]*y[3]
	}
	for i, x := range a {
		s0 += x * b[i]
	}
	return s0 + s1 + (s2 + s3)
}
