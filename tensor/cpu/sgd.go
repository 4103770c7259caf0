package cpu

import "github.com/ringside-go/ringside/tensor/cpu/internal/kernel"

// sgd computes p*(1-lr*wd) - lr*g of (p, g). dst may be p, not g.
func sgd[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		lr, keep := T(s[0]), T(1-s[0]*s[1])
		out, p, g := elems[T](dst, n), elems[T](in[0], n), elems[T](in[1], n)
		if keep == 1 {
			k.Axpy(out, g, p, -lr)
			return
		}
		k.MulS(out, p, keep)
		k.Axpy(out, g, out, -lr)
	}
}

// sgdMomentum computes b*mu + (g+wd*p)*(1-damp) of (b, g, p). dst may be b alone.
func sgdMomentum[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		mu, damp, wd := s[0], 1-s[1], s[2]
		out := elems[T](dst, n)
		k.MulS(out, elems[T](in[0], n), T(mu))
		k.Axpy(out, elems[T](in[1], n), out, T(damp))
		if wd != 0 {
			k.Axpy(out, elems[T](in[2], n), out, T(damp*wd))
		}
	}
}
