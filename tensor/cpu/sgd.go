package cpu

import "github.com/ringside-go/ringside/tensor/cpu/internal/kernel"

// sgd computes p*(1-lr*wd) - lr*g of (p, g).
func sgd[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		lr, keep := T(s[0]), T(1-s[0]*s[1])
		k.AdamM(elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n), keep, -lr)
	}
}

// sgdMomentum computes b*mu + (g+wd*p)*(1-damp) of (b, g, p). Without decay p is not
// read: an infinite one changes nothing.
func sgdMomentum[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		mu, damp, wd := s[0], 1-s[1], s[2]
		out, b, g := elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n)
		if wd == 0 {
			k.AdamM(out, b, g, T(mu), T(damp))
			return
		}
		k.Momentum(out, b, g, elems[T](in[2], n), T(mu), T(damp), T(damp*wd))
	}
}
