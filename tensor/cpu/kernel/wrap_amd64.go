package kernel

import "math"

// The functions here check lengths and cut long slices, because assembly does neither: a goroutine cannot be stopped
// inside of it, and a garbage collection would wait.
const (
	// chunk is the most elements that one call of an elementwise kernel gets: some ten microseconds.
	chunk = 1 << 15
	// sumChunk is the most elements that are summed in float32. The sums of chunks are added in float64.
	sumChunk = 1 << 12
)

// ptr is the first element of what assembly gets.
type ptr = *float32

func unary(f func(n int, dst, x ptr)) Unary {
	return func(dst, x []float32) {
		x = x[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0])
			dst, x = dst[n:], x[n:]
		}
	}
}

func binary(f func(n int, dst, a, b ptr)) Binary {
	return func(dst, a, b []float32) {
		a, b = a[:len(dst)], b[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &a[0], &b[0])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

func scalar(f func(n int, dst, x ptr, s float32)) Scalar {
	return func(dst, x []float32, s float32) {
		x = x[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0], s)
			dst, x = dst[n:], x[n:]
		}
	}
}

func filler(f func(n int, dst ptr, s float32)) func(dst []float32, s float32) {
	return func(dst []float32, s float32) {
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], s)
			dst = dst[n:]
		}
	}
}

func axpy(f func(n int, dst, x, y ptr, a float32)) func(dst []float32, a float32, x, y []float32) {
	return func(dst []float32, a float32, x, y []float32) {
		x, y = x[:len(dst)], y[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0], &y[0], a)
			dst, x, y = dst[n:], x[n:], y[n:]
		}
	}
}

func ternary(f func(n int, dst, x, y, z ptr)) func(dst, x, y, z []float32) {
	return func(dst, x, y, z []float32) {
		l := len(dst)
		x, y, z = x[:l], y[:l], z[:l]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0], &y[0], &z[0])
			dst, x, y, z = dst[n:], x[n:], y[n:], z[n:]
		}
	}
}

func swigluGrad(f func(n int, dgate, dup, gate, up, dy ptr)) func(dgate, dup, gate, up, dy []float32) {
	return func(dgate, dup, gate, up, dy []float32) {
		l := len(dgate)
		dup, gate, up, dy = dup[:l], gate[:l], up[:l], dy[:l]
		for len(dgate) > 0 {
			n := min(len(dgate), chunk)
			f(n, &dgate[0], &dup[0], &gate[0], &up[0], &dy[0])
			dgate, dup, gate, up, dy = dgate[n:], dup[n:], gate[n:], up[n:], dy[n:]
		}
	}
}

func adamw(f func(n int, pOut, mOut, vOut, p, m, v, g ptr, s0, s1, s2, s3, s4, s5, s6, s7 float32)) func(pOut, mOut, vOut, p, m, v, g []float32, s AdamWStep) {
	return func(pOut, mOut, vOut, p, m, v, g []float32, s AdamWStep) {
		l := len(pOut)
		mOut, vOut, p, m, v, g = mOut[:l], vOut[:l], p[:l], m[:l], v[:l], g[:l]
		for len(p) > 0 {
			n := min(len(p), chunk)
			f(n, &pOut[0], &mOut[0], &vOut[0], &p[0], &m[0], &v[0], &g[0], s.Beta1, s.Rest1, s.Beta2, s.Rest2, s.Root, s.Eps, s.Decay, s.Rate)
			pOut, mOut, vOut, p, m, v, g = pOut[n:], mOut[n:], vOut[n:], p[n:], m[n:], v[n:], g[n:]
		}
	}
}

func sum(f func(n int, x ptr) float32) Reduction {
	return func(x []float32) float32 {
		var s float64
		for len(x) > 0 {
			n := min(len(x), sumChunk)
			s += float64(f(n, &x[0]))
			x = x[n:]
		}
		return float32(s)
	}
}

func dot(f func(n int, a, b ptr) float32) func(a, b []float32) float32 {
	return func(a, b []float32) float32 {
		b = b[:len(a)]
		var s float64
		for len(a) > 0 {
			n := min(len(a), sumChunk)
			s += float64(f(n, &a[0], &b[0]))
			a, b = a[n:], b[n:]
		}
		return float32(s)
	}
}

func sumSqDev(f func(n int, x ptr, m float32) float32) func(x []float32, m float32) float32 {
	return func(x []float32, m float32) float32 {
		var s float64
		for len(x) > 0 {
			n := min(len(x), sumChunk)
			s += float64(f(n, &x[0], m))
			x = x[n:]
		}
		return float32(s)
	}
}

// extreme folds with pick, which is the builtin max or min and so keeps NaN.
func extreme(f func(n int, x ptr) float32, start int, pick func(a, b float32) float32) Reduction {
	return func(x []float32) float32 {
		m := float32(math.Inf(start))
		for len(x) > 0 {
			n := min(len(x), chunk)
			m = pick(m, f(n, &x[0]))
			x = x[n:]
		}
		return m
	}
}

func expSum(f func(n int, dst, x ptr, scale, shift float32) float32) func(dst, x []float32, scale, shift float32) float32 {
	return func(dst, x []float32, scale, shift float32) float32 {
		x = x[:len(dst)]
		var s float64
		for len(x) > 0 {
			n := min(len(x), sumChunk)
			s += float64(f(n, &dst[0], &x[0], scale, shift))
			dst, x = dst[n:], x[n:]
		}
		return float32(s)
	}
}

func expTotal(f func(n int, x ptr, scale, shift float32) float32) func(x []float32, scale, shift float32) float32 {
	return func(x []float32, scale, shift float32) float32 {
		var s float64
		for len(x) > 0 {
			n := min(len(x), sumChunk)
			s += float64(f(n, &x[0], scale, shift))
			x = x[n:]
		}
		return float32(s)
	}
}
