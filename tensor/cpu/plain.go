package cpu

import (
	"encoding/binary"
	"math"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
)

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

// wideTile is how many numbers of 16 bits go through float32 at a time.
const wideTile = 512

// casts converts numbers as Go does.
func casts[T, U number](dst []U, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = U(v)
	}
}

// toHalf converts numbers to one of the types of 16 bits by way of f32: first and narrow
// are the two steps. Float32 have no first one.
func toHalf[T any](first func(dst []float32, x []T), narrow func(dst []uint16, x []float32)) loop {
	if first == nil {
		return loop1(narrow)
	}
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
