package cpu

// sgd computes p*(1-lr*wd) - lr*g of (p, g). dst may be p, not g.
func (lw *lowerer) sgd(dst pointer, in *[4]pointer, s []float64, n int) {
	lr, keep := float32(s[0]), float32(1-s[0]*s[1])
	out, p, g := elems[float32](dst, n), elems[float32](in[0], n), elems[float32](in[1], n)
	if keep == 1 {
		lw.table.Axpy(out, g, p, -lr)
		return
	}
	lw.table.MulS(out, p, keep)
	lw.table.Axpy(out, g, out, -lr)
}

// sgdMomentum computes b*mu + (g+wd*p)*(1-damp) of (b, g, p). dst may be b alone.
func (lw *lowerer) sgdMomentum(dst pointer, in *[4]pointer, s []float64, n int) {
	mu, damp, wd := s[0], 1-s[1], s[2]
	out := elems[float32](dst, n)
	lw.table.MulS(out, elems[float32](in[0], n), float32(mu))
	lw.table.Axpy(out, elems[float32](in[1], n), out, float32(damp))
	if wd != 0 {
		lw.table.Axpy(out, elems[float32](in[2], n), out, float32(damp*wd))
	}
}
