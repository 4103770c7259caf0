package kernel

// Assembly neither checks lengths nor cuts long slices. The generated callers in
// table_amd64.go do both: a goroutine cannot be stopped inside assembly, and a garbage
// collection would wait for it.
const (
	// chunk is the most elements that one call of an elementwise kernel gets: some ten
	// microseconds.
	chunk = 1 << 15
	// sumChunk is the most elements that are summed in float32. The sums of chunks are
	// added in float64.
	sumChunk = 1 << 12
)

// ptr points to the first element that assembly gets.
type ptr = *float32

// adamwBy returns f over whole slices, with the coefficients of a step as its numbers.
func adamwBy(f func(n int, pOut, mOut, vOut, p, m, v, g ptr, s0, s1, s2, s3, s4, s5, s6, s7 float32)) func(pOut, mOut, vOut, p, m, v, g []float32, s AdamWStep) {
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

// addGradBy returns f over whole slices, adding to its first input in place.
func addGradBy(f func(n int, dst, dw, x, dy ptr, shift, scale float32)) func(dw, x, dy []float32, shift, scale float32) {
	return func(dw, x, dy []float32, shift, scale float32) {
		x, dy = x[:len(dw)], dy[:len(dw)]
		for len(dw) > 0 {
			n := min(len(dw), chunk)
			f(n, &dw[0], &dw[0], &x[0], &dy[0], shift, scale)
			dw, x, dy = dw[n:], x[n:], dy[n:]
		}
	}
}
