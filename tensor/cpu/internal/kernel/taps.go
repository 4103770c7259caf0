package kernel

// TapsPad is the most elements that GemmTaps may read of b, on any level, after those
// that it uses.
const TapsPad = 16

// tapsGo is GemmTaps in portable Go.
func tapsGo[T Float](m, n, k int, a Matrix[T], b []T, at []int, accumulate bool, c []T, ldc int) {
	checkTaps(m, n, k, 1, a, b, at, c, ldc)
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if !accumulate {
			clear(row)
		}
		for q, off := range at[:k] {
			v := a.Data[i*a.RS+q*a.CS]
			x := b[off : off+n]
			for j := range row {
				row[j] += T(v * x[j])
			}
		}
	}
}

// checkTaps panics unless the product reads, in whole vectors of lanes, and writes inside
// its slices.
func checkTaps[T Float](m, n, k, lanes int, a Matrix[T], b []T, at []int, c []T, ldc int) {
	if m < 0 || n < 0 || k < 0 || a.RS < 0 || a.CS < 0 || m > 1 && ldc < n {
		panic("kernel: GemmTaps: negative size or stride, or rows of c overlap")
	}
	at = at[:k]
	if m == 0 || n == 0 {
		return
	}
	_ = c[(m-1)*ldc+n-1]
	if k == 0 {
		return
	}
	_ = a.Data[(m-1)*a.RS+(k-1)*a.CS]
	far := 0
	for _, off := range at {
		if off < 0 {
			panic("kernel: GemmTaps: a negative tap")
		}
		far = max(far, off)
	}
	_ = b[far+ceil(n, lanes)*lanes-1]
}
