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

const (
	// WindowSide is the height and width of the windows of Table.Windows.
	WindowSide = 3
	// WindowUnit is a whole number of vectors on any level.
	WindowUnit = 16
)

// Plane describes the windows of a plane, in elements: there are Rows×Cols of them,
// RowStep and ColStep apart, and their lines are LineStep apart.
type Plane struct{ Rows, Cols, RowStep, ColStep, LineStep int }

// checkWindows panics unless the windows of p and n columns of b and c lie inside their
// slices.
func checkWindows[T Float](p *Plane, a, b []T, n int, c []T) {
	if min(p.Rows, p.Cols, n) < 1 || min(p.RowStep, p.ColStep, p.LineStep) < 0 {
		panic("kernel: Windows: no windows, no columns or a negative step")
	}
	_ = a[(p.Rows-1)*p.RowStep+(p.Cols-1)*p.ColStep+(WindowSide-1)*p.LineStep+WindowSide-1]
	_ = b[p.Rows*p.Cols*n-1]
	_ = c[WindowSide*WindowSide*n-1]
}

// windowsGo is Windows in portable Go.
func windowsGo[T Float](p Plane, a, b []T, n int, c []T) {
	checkWindows(&p, a, b, n, c)
	for i := range WindowSide * WindowSide {
		sums := c[i*n : (i+1)*n]
		for y := range p.Rows {
			for x := range p.Cols {
				v := a[y*p.RowStep+x*p.ColStep+i/WindowSide*p.LineStep+i%WindowSide]
				for j, w := range b[(y*p.Cols+x)*n:][:n] {
					sums[j] += T(v * w)
				}
			}
		}
	}
}
