package kernel

import "math"

func sumGo(x []float32) float32 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return float32(s)
}

func dotGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s float64
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return float32(s)
}

func sumSqDevGo(x []float32, m float32) float32 {
	var s float64
	for _, v := range x {
		d := float64(v) - float64(m)
		s += d * d
	}
	return float32(s)
}

func rowMaxGo(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

func rowMinGo(x []float32) float32 {
	m := float32(math.Inf(1))
	for _, v := range x {
		m = min(m, v)
	}
	return m
}

func expSumGo(dst, x []float32, scale, shift float32) float32 {
	x = x[:len(dst)]
	var s float64
	for i, v := range x {
		e := math.Exp(float64(v)*float64(scale) + float64(shift))
		s += e
		dst[i] = float32(e)
	}
	return float32(s)
}

func expTotalGo(x []float32, scale, shift float32) float32 {
	var s float64
	for _, v := range x {
		s += math.Exp(float64(v)*float64(scale) + float64(shift))
	}
	return float32(s)
}

func dlogsmGo(dst, a, b []float32, s float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = b[i] - exp(v)*s
	}
}

func scaledGo(dst, x, w, b []float32, shift, scale float32) {
	n := len(dst)
	x, w, b = x[:n], w[:n], b[:n]
	for i, v := range x {
		dst[i] = (v+shift)*scale*w[i] + b[i]
	}
}

func shiftedGo(dst, x, w []float32, shift, scale float32) {
	x, w = x[:len(dst)], w[:len(dst)]
	for i, v := range x {
		dst[i] = (v + shift) * scale * w[i]
	}
}

func plainGo(dst, x []float32, shift, scale float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = (v + shift) * scale
	}
}

func normSumsGo(x, w, dy []float32, shift, scale float32) (s1, s2 float32) {
	w, dy = w[:len(x)], dy[:len(x)]
	var t1, t2 float64
	for i, v := range x {
		h := float64(dy[i]) * float64(w[i])
		t1 += h
		t2 += h * float64((v+shift)*scale)
	}
	return float32(t1), float32(t2)
}

func normSums1Go(x, dy []float32, shift, scale float32) (s1, s2 float32) {
	dy = dy[:len(x)]
	var t1, t2 float64
	for i, v := range x {
		h := float64(dy[i])
		t1 += h
		t2 += h * float64((v+shift)*scale)
	}
	return float32(t1), float32(t2)
}

func normGradGo(dx, x, w, dy []float32, shift, scale, c1, c2 float32) {
	n := len(dx)
	x, w, dy = x[:n], w[:n], dy[:n]
	for i, v := range x {
		dx[i] = scale * (dy[i]*w[i] + c1 + (v+shift)*scale*c2)
	}
}

func normGrad1Go(dx, x, dy []float32, shift, scale, c1, c2 float32) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	for i, v := range x {
		dx[i] = scale * (dy[i] + c1 + (v+shift)*scale*c2)
	}
}

func addGradGo(dw, x, dy []float32, shift, scale float32) {
	n := len(dw)
	x, dy = x[:n], dy[:n]
	for i, v := range x {
		dw[i] += dy[i] * ((v + shift) * scale)
	}
}

func ropeGo(lo, hi, a, b, cos, sin []float32, sign float32) {
	n := len(lo)
	hi, a, b, cos, sin = hi[:n], a[:n], b[:n], cos[:n], sin[:n]
	for i := range lo {
		c, s := cos[i], sin[i]*sign
		u, v := a[i], b[i]
		lo[i] = u*c - v*s
		hi[i] = v*c + u*s
	}
}
