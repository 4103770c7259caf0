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

// pairBy is convertBy of two operands.
func pairBy[T, U any](lanes int, f func(n int, dst *T, a, b *U), rest func(dst []T, a, b []U)) func(dst []T, a, b []U) {
	return func(dst []T, a, b []U) {
		a, b = a[:len(dst)], b[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &a[0], &b[0])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
		rest(dst, a, b)
	}
}

// scalarBy is convertBy with one number beside the slice.
func scalarBy[T any](lanes int, f func(n int, dst, a, s *T), rest func(dst, x []T, s T)) func(dst, x []T, s T) {
	return func(dst, x []T, s T) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0], &s)
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x, s)
	}
}

// clampBy is convertBy between two bounds.
func clampBy[T any](lanes int, f func(n int, dst, a, lo, hi *T), rest func(dst, x []T, lo, hi T)) func(dst, x []T, lo, hi T) {
	return func(dst, x []T, lo, hi T) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0], &lo, &hi)
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x, lo, hi)
	}
}
