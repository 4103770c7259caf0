package cpu

import "github.com/ringside-go/ringside/tensor/cpu/internal/kernel"

// sgd computes p*(1-lr*wd) - lr*g of (p, g).
func sgd[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		lr, keep := T(s[0]), T(1-s[0]*s[1])
		k.AdamM(elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n), keep, -lr)
	}
}

// sgdMomentum computes b*mu + (g+wd*p)*(1-damp) of (b, g, p), in two passes over each
// tile. dst may be b or g, not p.
func sgdMomentum[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		mu, damp, wd := s[0], 1-s[1], s[2]
		out, b, g, p := elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n), elems[T](in[2], n)
		for i := 0; i < n; i += tile {
			end := min(i+tile, n)
			k.AdamM(out[i:end], b[i:end], g[i:end], T(mu), T(damp))
			if wd != 0 {
				k.Axpy(out[i:end], p[i:end], out[i:end], T(damp*wd))
			}
		}
	}
}
