package kernel

// cutBy returns f over slices: rest does vectors that it ends before, and the last
// numbers.
func cutBy[T Float, U int32 | int64](lanes int, f func(n int, dst *U, x *T) (left int), rest func(dst []U, x []T)) func(dst []U, x []T) {
	return func(dst []U, x []T) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) / lanes
			left := f(n, &dst[0], &x[0])
			done := (n - left) * lanes
			if left > 0 {
				rest(dst[done:done+lanes], x[done:])
				done += lanes
			}
			dst, x = dst[done:], x[done:]
		}
		rest(dst, x)
	}
}
