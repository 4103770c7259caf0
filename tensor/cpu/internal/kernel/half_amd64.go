package kernel

// widenBy and narrowBy return f over slices that are cut into pieces, with the rest of
// the last vector done in Go.
func widenBy(lanes int, f func(n int, dst *float32, x *uint16), rest func(dst []float32, x []uint16)) func(dst []float32, x []uint16) {
	return func(dst []float32, x []uint16) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0])
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x)
	}
}

func narrowBy(lanes int, f func(n int, dst *uint16, x *float32), rest func(dst []uint16, x []float32)) func(dst []uint16, x []float32) {
	return func(dst []uint16, x []float32) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0])
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x)
	}
}
