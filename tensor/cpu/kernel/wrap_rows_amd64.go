package kernel

func dlogsm(f func(n int, dst, a, b ptr, s float32)) func(dst, a, b []float32, s float32) {
	return func(dst, a, b []float32, s float32) {
		a, b = a[:len(dst)], b[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &a[0], &b[0], s)
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

func plain(f func(n int, dst, x ptr, shift, scale float32)) func(dst, x []float32, shift, scale float32) {
	return func(dst, x []float32, shift, scale float32) {
		x = x[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0], shift, scale)
			dst, x = dst[n:], x[n:]
		}
	}
}

func shifted(f func(n int, dst, x, w ptr, shift, scale float32)) func(dst, x, w []float32, shift, scale float32) {
	return func(dst, x, w []float32, shift, scale float32) {
		x, w = x[:len(dst)], w[:len(dst)]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0], &w[0], shift, scale)
			dst, x, w = dst[n:], x[n:], w[n:]
		}
	}
}

func scaled(f func(n int, dst, x, w, b ptr, shift, scale float32)) func(dst, x, w, b []float32, shift, scale float32) {
	return func(dst, x, w, b []float32, shift, scale float32) {
		l := len(dst)
		x, w, b = x[:l], w[:l], b[:l]
		for len(dst) > 0 {
			n := min(len(dst), chunk)
			f(n, &dst[0], &x[0], &w[0], &b[0], shift, scale)
			dst, x, w, b = dst[n:], x[n:], w[n:], b[n:]
		}
	}
}

func normSums(f func(n int, x, w, dy ptr, shift, scale float32) (s1, s2 float32)) func(x, w, dy []float32, shift, scale float32) (s1, s2 float32) {
	return func(x, w, dy []float32, shift, scale float32) (s1, s2 float32) {
		w, dy = w[:len(x)], dy[:len(x)]
		var t1, t2 float64
		for len(x) > 0 {
			n := min(len(x), sumChunk)
			u1, u2 := f(n, &x[0], &w[0], &dy[0], shift, scale)
			t1, t2 = t1+float64(u1), t2+float64(u2)
			x, w, dy = x[n:], w[n:], dy[n:]
		}
		return float32(t1), float32(t2)
	}
}

func normSums1(f func(n int, x, dy ptr, shift, scale float32) (s1, s2 float32)) func(x, dy []float32, shift, scale float32) (s1, s2 float32) {
	return func(x, dy []float32, shift, scale float32) (s1, s2 float32) {
		dy = dy[:len(x)]
		var t1, t2 float64
		for len(x) > 0 {
			n := min(len(x), sumChunk)
			u1, u2 := f(n, &x[0], &dy[0], shift, scale)
			t1, t2 = t1+float64(u1), t2+float64(u2)
			x, dy = x[n:], dy[n:]
		}
		return float32(t1), float32(t2)
	}
}

func normGrad(f func(n int, dx, x, w, dy ptr, shift, scale, c1, c2 float32)) func(dx, x, w, dy []float32, shift, scale, c1, c2 float32) {
	return func(dx, x, w, dy []float32, shift, scale, c1, c2 float32) {
		l := len(dx)
		x, w, dy = x[:l], w[:l], dy[:l]
		for len(dx) > 0 {
			n := min(len(dx), chunk)
			f(n, &dx[0], &x[0], &w[0], &dy[0], shift, scale, c1, c2)
			dx, x, w, dy = dx[n:], x[n:], w[n:], dy[n:]
		}
	}
}

func normGrad1(f func(n int, dx, x, dy ptr, shift, scale, c1, c2 float32)) func(dx, x, dy []float32, shift, scale, c1, c2 float32) {
	return func(dx, x, dy []float32, shift, scale, c1, c2 float32) {
		x, dy = x[:len(dx)], dy[:len(dx)]
		for len(dx) > 0 {
			n := min(len(dx), chunk)
			f(n, &dx[0], &x[0], &dy[0], shift, scale, c1, c2)
			dx, x, dy = dx[n:], x[n:], dy[n:]
		}
	}
}

func addGrad(f func(n int, dst, dw, x, dy ptr, shift, scale float32)) func(dw, x, dy []float32, shift, scale float32) {
	return func(dw, x, dy []float32, shift, scale float32) {
		x, dy = x[:len(dw)], dy[:len(dw)]
		for len(dw) > 0 {
			n := min(len(dw), chunk)
			f(n, &dw[0], &dw[0], &x[0], &dy[0], shift, scale)
			dw, x, dy = dw[n:], x[n:], dy[n:]
		}
	}
}

func rope(f func(n int, lo, hi, a, b, cos, sin ptr, sign float32)) func(lo, hi, a, b, cos, sin []float32, sign float32) {
	return func(lo, hi, a, b, cos, sin []float32, sign float32) {
		n := len(lo)
		hi, a, b, cos, sin = hi[:n], a[:n], b[:n], cos[:n], sin[:n]
		for len(lo) > 0 {
			n := min(len(lo), chunk)
			f(n, &lo[0], &hi[0], &a[0], &b[0], &cos[0], &sin[0], sign)
			lo, hi, a, b, cos, sin = lo[n:], hi[n:], a[n:], b[n:], cos[n:], sin[n:]
		}
	}
}
