package kernel

// convertBy returns f over slices that are cut into pieces, with the rest of the last
// vector done in Go.
func convertBy[T, U any](lanes int, f func(n int, dst *T, x *U), rest func(dst []T, x []U)) func(dst []T, x []U) {
	return func(dst []T, x []U) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0])
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x)
	}
}
