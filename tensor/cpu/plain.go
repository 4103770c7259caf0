package cpu

import (
	"encoding/binary"
	"math"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
)

// Loops that are written out: one that got its operation as a function value would call
// it for every element.

func negInts[T integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = -v
	}
}

func absInts[T integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		if v < 0 {
			v = -v
		}
		dst[i] = v
	}
}

func squareInts[T integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = v * v
	}
}

func reluInts[T integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = max(v, 0)
	}
}

func addInts[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func subInts[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v - b[i]
	}
}

func mulInts[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v * b[i]
	}
}

func maxInts[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = max(v, b[i])
	}
}

func minInts[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = min(v, b[i])
	}
}

// signs is -1 or 1, or x itself where that is 0 or NaN.
func signs[T number](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = T(truth(v > 0)) - T(truth(v < 0))
		if v == 0 || v != v {
			dst[i] = v
		}
	}
}

func equal[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v == b[i])
	}
}

func unequal[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v != b[i])
	}
}

func less[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v < b[i])
	}
}

func lessEqual[T number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v <= b[i])
	}
}

// bools returns the loop of an operation on the bits of bools, bytes 0 and 1: eight at a
// time as far as they go.
func bools(f func(a, b uint64) uint64) loop {
	return func(dst pointer, in *[4]pointer, _ []float64, n int) {
		words, done := n/8, n&^7
		d, x, y := elems[uint64](dst, words), elems[uint64](in[0], words), elems[uint64](in[1], words)
		for i, v := range x {
			d[i] = f(v, y[i])
		}
		last, p, q := elems[uint8](shift(dst, done), n-done), elems[uint8](shift(in[0], done), n-done), elems[uint8](shift(in[1], done), n-done)
		for i, v := range p {
			last[i] = uint8(f(uint64(v), uint64(q[i])))
		}
	}
}

// notBools is 1-x of bools, eight at a time as far as they go.
func notBools(dst, x []uint8) {
	x = x[:len(dst)]
	for ; len(x) >= 8; x, dst = x[8:], dst[8:] {
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(x)^0x0101010101010101)
	}
	for i, v := range x {
		dst[i] = v ^ 1
	}
}

// andBools and orBools combine a with bools x, eight at a time as far as they go.
func andBools(a, x []uint8) {
	a = a[:len(x)]
	for ; len(x) >= 8; a, x = a[8:], x[8:] {
		binary.NativeEndian.PutUint64(a, binary.NativeEndian.Uint64(a)&binary.NativeEndian.Uint64(x))
	}
	for i, v := range x {
		a[i] &= v
	}
}

func orBools(a, x []uint8) {
	a = a[:len(x)]
	for ; len(x) >= 8; a, x = a[8:], x[8:] {
		binary.NativeEndian.PutUint64(a, binary.NativeEndian.Uint64(a)|binary.NativeEndian.Uint64(x))
	}
	for i, v := range x {
		a[i] |= v
	}
}

// clampBy is clamp by a table of kernels. A bound that is NaN does not bound.
func clampBy[T float](k *kernel.Table[T]) loop {
	return func(dst pointer, in *[4]pointer, s []float64, n int) {
		lo, hi := s[0], s[1]
		if lo != lo {
			lo = math.Inf(-1)
		}
		if hi != hi {
			hi = math.Inf(1)
		}
		d := elems[T](dst, n)
		k.MaxS(d, elems[T](in[0], n), T(lo))
		k.MinS(d, d, T(hi))
	}
}

// casts converts numbers as Go does.
func casts[T, U number](dst []U, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = U(v)
	}
}

// truths converts numbers to bools.
func truths[T number](dst []uint8, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = truth(v != 0)
	}
}

// wideTile is how many numbers of 16 bits go through float32 at a time.
const wideTile = 512

// toHalf converts numbers to one of the types of 16 bits by way of f32: first and narrow
// are the two steps.
func toHalf[T number](first func(dst []float32, x []T), narrow func(dst []uint16, x []float32)) loop {
	return loop1(func(dst []uint16, x []T) {
		var wide [wideTile]float32
		for len(dst) > 0 {
			n := min(len(dst), wideTile)
			first(wide[:n], x)
			narrow(dst[:n], wide[:n])
			dst, x = dst[n:], x[n:]
		}
	})
}

// fromHalf is then, which takes f32, behind the kernel that widens a type of 16 bits.
func fromHalf[U any](widen func(dst []float32, x []uint16), then func(dst []U, x []float32)) loop {
	return loop1(func(dst []U, x []uint16) {
		var wide [wideTile]float32
		for len(dst) > 0 {
			n := min(len(dst), wideTile)
			widen(wide[:n], x)
			then(dst[:n], wide[:n])
			dst, x = dst[n:], x[n:]
		}
	})
}
