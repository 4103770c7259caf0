package kernel

// tapsFunc is a tile whose rows of b lie anywhere. Strides of a and c are in bytes, taps
// in elements.
type tapsFunc = func(k int, a *float32, rsA, csA int, b *float32, at *int, c *float32, ldc int, alpha float32, cols, add int)

// tapsUnit computes products of taps out of tiles.
type tapsUnit struct {
	lanes int
	tile  [2][]tapsFunc // by vectors-1 and rows
}

// tapsDepth is the most taps of one call into assembly.
const tapsDepth = 1 << 12

func (u *tapsUnit) gemm(m, n, k int, a Matrix[float32], b []float32, at []int, accumulate bool, c []float32, ldc int) {
	checkTaps(m, n, k, u.lanes, a, b, at, c, ldc)
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		zeroUnless(accumulate, m, n, c, ldc)
		return
	}
	unit := len(u.tile[0]) - 1
	mr := ceil(m, ceil(m, unit))
	width := 2 * u.lanes
	for d := 0; d < k; d += tapsDepth {
		depth := min(tapsDepth, k-d)
		add := 0
		if accumulate || d > 0 {
			add = 1
		}
		for j := 0; j < n; j += width {
			cols := min(width, n-j)
			tiles := u.tile[ceil(cols, u.lanes)-1]
			for i := 0; i < m; i += mr {
				tiles[min(mr, m-i)](depth, &a.Data[i*a.RS+d*a.CS], 4*a.RS, 4*a.CS, &b[j], &at[d], &c[i*ldc+j], 4*ldc, 1, cols, add)
			}
		}
	}
}
