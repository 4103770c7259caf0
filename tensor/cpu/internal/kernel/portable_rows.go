package kernel

import "math"

func sumGo[T Float](x []T) T {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return T(s)
}

func dotGo[T Float](a, b []T) T {
	b = b[:len(a)]
	var s float64
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return T(s)
}

func sumSqDevGo[T Float](x []T, m T) T {
	var s float64
	for _, v := range x {
		d := float64(v) - float64(m)
		s += d * d
	}
	return T(s)
}

func rowMaxGo[T Float](x []T) T {
	m := T(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

func rowMinGo[T Float](x []T) T {
	m := T(math.Inf(1))
	for _, v := range x {
		m = min(m, v)
	}
	return m
}

func absMaxGo[T Float](x []T) T {
	m := T(math.Inf(-1))
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > m {
			m = v
		}
	}
	return m
}

func expSumGo[T Float](dst, x []T, scale, shift T) T {
	x = x[:len(dst)]
	var s float64
	for i, v := range x {
		e := math.Exp(float64(v)*float64(scale) + float64(shift))
		s += e
		dst[i] = T(e)
	}
	return T(s)
}

func expTotalGo[T Float](x []T, scale, shift T) T {
	var s float64
	for _, v := range x {
		s += math.Exp(float64(v)*float64(scale) + float64(shift))
	}
	return T(s)
}

func dlogsmGo[T Float](dst, a, b []T, s T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = b[i] - T(math.Exp(float64(v)))*s
	}
}

func scaledGo[T Float](dst, x, w, b []T, shift, scale T) {
	n := len(dst)
	x, w, b = x[:n], w[:n], b[:n]
	for i, v := range x {
		dst[i] = (v+shift)*scale*w[i] + b[i]
	}
}

func shiftedGo[T Float](dst, x, w []T, shift, scale T) {
	x, w = x[:len(dst)], w[:len(dst)]
	for i, v := range x {
		dst[i] = (v + shift) * scale * w[i]
	}
}

func plainGo[T Float](dst, x []T, shift, scale T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = (v + shift) * scale
	}
}

func normSumsGo[T Float](x, w, dy []T, shift, scale T) (s1, s2 T) {
	w, dy = w[:len(x)], dy[:len(x)]
	var t1, t2 float64
	for i, v := range x {
		h := float64(dy[i]) * float64(w[i])
		t1 += h
		t2 += h * float64((v+shift)*scale)
	}
	return T(t1), T(t2)
}

func normSums1Go[T Float](x, dy []T, shift, scale T) (s1, s2 T) {
	dy = dy[:len(x)]
	var t1, t2 float64
	for i, v := range x {
		h := float64(dy[i])
		t1 += h
		t2 += h * float64((v+shift)*scale)
	}
	return T(t1), T(t2)
}

func normGradGo[T Float](dx, x, w, dy []T, shift, scale, c1, c2 T) {
	n := len(dx)
	x, w, dy = x[:n], w[:n], dy[:n]
	for i, v := range x {
		dx[i] = scale * (dy[i]*w[i] + c1 + (v+shift)*scale*c2)
	}
}

func normGrad1Go[T Float](dx, x, dy []T, shift, scale, c1, c2 T) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	for i, v := range x {
		dx[i] = scale * (dy[i] + c1 + (v+shift)*scale*c2)
	}
}

func addGradGo[T Float](dst, dw, x, dy []T, shift, scale T) {
	n := len(dst)
	dw, x, dy = dw[:n], x[:n], dy[:n]
	for i, v := range x {
		dst[i] = dw[i] + dy[i]*((v+shift)*scale)
	}
}

func adamMGo[T Float](dst, m, g []T, keep, rest T) {
	m, g = m[:len(dst)], g[:len(dst)]
	for i, v := range g {
		dst[i] = T(keep*m[i]) + T(rest*v)
	}
}

func adamVGo[T Float](dst, v, g []T, keep, rest T) {
	v, g = v[:len(dst)], g[:len(dst)]
	for i, x := range g {
		dst[i] = T(keep*v[i]) + T(rest*T(x*x))
	}
}

func momentumGo[T Float](dst, b, g, p []T, keep, rest, decay T) {
	b, g, p = b[:len(dst)], g[:len(dst)], p[:len(dst)]
	for i, x := range p {
		y := T(keep*b[i]) + T(rest*g[i])
		dst[i] = T(float64(decay)*float64(x) + float64(y))
	}
}

func adamPGo[T Float](dst, p, m, v []T, decay, rate, root, eps T) {
	p, m, v = p[:len(dst)], m[:len(dst)], v[:len(dst)]
	for i, x := range p {
		dst[i] = T(decay*x) - T(rate*(m[i]/(T(sqrt(v[i])*root)+eps)))
	}
}
