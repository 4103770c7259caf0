package kernel

const (
	// trigMax is the largest number whose sine and cosine the kernels compute: the parts
	// of π/2 that they have don't reach further.
	trigMax = 8192
	// withinPiece is how many numbers are looked at before a kernel gets them.
	withinPiece = 1024
)

// within returns f, but far for numbers beyond ±limit: each by its own value, so that the
// others keep their bits. most is absMax.
func within[T Float](limit T, most Reduction[T], f, far Unary[T]) Unary[T] {
	return func(dst, x []T) {
		x = x[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), withinPiece)
			if most(x[:n]) <= limit {
				f(dst[:n], x[:n])
			} else {
				for i, v := range x[:n] {
					one := far
					if v >= -limit && v <= limit {
						one = f
					}
					one(dst[i:i+1], x[i:i+1])
				}
			}
			dst, x = dst[n:], x[n:]
		}
	}
}
