package kernel

// tapsFunc is a tile whose rows of b lie anywhere. Strides of a and c are in bytes, taps
// in elements.
type tapsFunc = func(k int, a *float32, rsA, csA int, b *float32, at *int, c *float32, ldc int, alpha float32, cols, add int)

// lineFunc is a wide tile of one row and whole vectors.
type lineFunc = func(k int, a *float32, csA int, b *float32, at *int, c *float32, add int)

// windowFunc is a tile of Windows; strides are in bytes.
type windowFunc = func(rows, cols int, a *float32, csA, rsA, skip int, b *float32, rsB int, c *float32, ldc int)

// windowDotsFunc is WindowDots; strides are in bytes.
type windowDotsFunc = func(rows, cols int, a *float32, rsA, step int, b *float32, c *float32)

// tapsUnit computes products of taps out of tiles.
type tapsUnit struct {
	lanes  int
	tile   [2][]tapsFunc // by vectors-1 and rows
	line   lineFunc
	wide   int          // columns of line
	window []windowFunc // by vectors-1

	windowDots windowDotsFunc
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
		j := 0
		for ; m == 1 && j+u.wide <= n; j += u.wide {
			u.line(depth, &a.Data[d*a.CS], 4*a.CS, &b[j], &at[d], &c[j], add)
		}
		for ; j < n; j += width {
			cols := min(width, n-j)
			tiles := u.tile[ceil(cols, u.lanes)-1]
			for i := 0; i < m; i += mr {
				tiles[min(mr, m-i)](depth, &a.Data[i*a.RS+d*a.CS], 4*a.RS, 4*a.CS, &b[j], &at[d], &c[i*ldc+j], 4*ldc, 1, cols, add)
			}
		}
	}
}

func (u *tapsUnit) windows(p Plane, a, b []float32, n int, c []float32) {
	checkWindows(&p, a, b, n, c)
	if n%WindowUnit != 0 {
		panic("kernel: Windows: rows of b are not a multiple of WindowUnit")
	}
	for j := 0; j < n; {
		v := min((n-j)/u.lanes, len(u.window))
		u.window[v-1](p.Rows, p.Cols, &a[0], 4*p.ColStep, 4*p.LineStep, 4*(p.RowStep-p.Cols*p.ColStep), &b[j], 4*n, &c[j], 4*n)
		j += v * u.lanes
	}
}

func (u *tapsUnit) dots(p Plane, a, b, c []float32) {
	checkWindows(&p, a, b, 1, c)
	if p.ColStep != 1 {
		panic("kernel: WindowDots: windows are not beside each other")
	}
	u.windowDots(p.Rows, p.Cols, &a[0], 4*p.LineStep, 4*p.RowStep, &b[0], &c[0])
}
