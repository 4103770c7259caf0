package data

// tensor/testdata/formula.py implements the same formulas. The committed training curves
// were made from these values, which no file holds, and a test compares the two
// implementations on committed examples. A change on either side invalidates every
// committed curve.

import "math/bits"

// golden is 2^64 divided by the golden ratio, made odd: the step of the Weyl
// sequence under SplitMix64.
const golden = 0x9e3779b97f4a7c15

// Hash returns element i of the SplitMix64 stream that starts at key. It is a
// pure function: a counter-based generator whose result depends on nothing but
// its arguments, on no Go version and no platform.
//
// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014 (the finalizer is variant 13 of D. Stafford).
func Hash(key, i uint64) uint64 {
	z := key + (i+1)*golden
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Key returns the 64-bit FNV-1a hash of name: the key of the stream that
// belongs to a named tensor.
func Key(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return h
}

// Unit returns element i of the stream key as a float32 in [-1, 1): the upper
// 24 bits of the hash as a signed fraction, so that the value is exact.
func Unit(key, i uint64) float32 {
	return float32(int64(Hash(key, i)>>40)-1<<23) / (1 << 23)
}

// Index returns element i of the stream key as an integer in [0, n). It takes
// the upper half of a 128-bit product, whose bias is below n/2^64.
// Index panics when n is 0.
func Index(key, i, n uint64) uint64 {
	if n == 0 {
		panic("data: Index into an empty range")
	}
	hi, _ := bits.Mul64(Hash(key, i), n)
	return hi
}

// Integer is a type of token and class numbers.
type Integer interface{ ~int32 | ~int64 }

// FillUniform is
//
//	for i := range dst {
//		dst[i] = offset + scale*Unit(Key(name), uint64(i))
//	}
//
// With a scale that is a power of two the product is exact, and the result is
// then the same on machines that fuse the multiplication into the addition and
// on machines that do not. The committed curves use only such scales.
func FillUniform(dst []float32, name string, offset, scale float32) {
	key := Key(name)
	for i := range dst {
		dst[i] = offset + float32(scale*Unit(key, uint64(i)))
	}
}

// FillIndices is
//
//	for i := range dst {
//		dst[i] = Index(Key(name), uint64(i), n)
//	}
func FillIndices[T Integer](dst []T, name string, n uint64) {
	key := Key(name)
	for i := range dst {
		dst[i] = T(Index(key, uint64(i), n))
	}
}
