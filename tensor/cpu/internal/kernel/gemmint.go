package kernel

import "sync/atomic"

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
