package kernel

import "math"

// Compare is one of the loops
//
//	for i := range dst {
//		dst[i] = a[i] op b[i]    // a byte 0 or 1
//	}
type Compare[T any] = func(dst []uint8, a, b []T)

// Plain holds kernels of integers and bytes (a bool is a byte 0 or 1), of comparisons,
// and of conversions. They have the same bits on all levels, and every level but [Go] and
// [NEON] has assembly for all of them. [PlainOf] sets the fields, which are not to be
// changed afterwards.
type Plain struct {
	I32 Integers[int32]
	I64 Integers[int64]
	U8  Integers[uint8]
	F32 Comparisons[float32]
	F64 Comparisons[float64]

	Bits
	Casts
}

// Comparisons holds those of one type. A comparison with NaN is false, but for Ne.
type Comparisons[T Number] struct {
	Eq Compare[T]
	Ne Compare[T]
	Lt Compare[T]
	Le Compare[T]
}

// Integers holds the kernels of one type of integers, which wrap.
type Integers[T Integer] struct {
	Add Binary[T] // a + b
	Sub Binary[T] // a - b
	Mul Binary[T] // a * b
	Max Binary[T] // max(a, b)
	Min Binary[T] // min(a, b)

	Neg  Unary[T] // -x
	Abs  Unary[T] // |x|
	ReLU Unary[T] // max(x, 0)
	Sign Unary[T] // -1, 0 or 1

	AddS  Scalar[T] // x + s
	RSubS Scalar[T] // s - x
	MulS  Scalar[T] // x * s
	MaxS  Scalar[T] // max(x, s)
	MinS  Scalar[T] // min(x, s)

	Clamp func(dst, x []T, lo, hi T) // min(max(x, lo), hi)
	Comparisons[T]
}

// Bits holds operations on the bits of bytes.
type Bits struct {
	And Binary[uint8] // a & b
	Or  Binary[uint8] // a | b
	Xor Binary[uint8] // a ^ b
	Not Unary[uint8]  // x ^ 1
}

// Casts holds conversions. Half stands for both types of 16 bits.
type Casts struct {
	// A bool is whether the number is not 0. NaN is not.
	U8ToBool   func(dst []uint8, x []uint8)
	HalfToBool func(dst []uint8, x []uint16)
	I32ToBool  func(dst []uint8, x []int32)
	I64ToBool  func(dst []uint8, x []int64)
	F32ToBool  func(dst []uint8, x []float32)
	F64ToBool  func(dst []uint8, x []float64)

	// Integers wrap. Floats are cut toward zero and clamped, NaN is 0.
	I32ToU8  func(dst []uint8, x []int32)
	I64ToU8  func(dst []uint8, x []int64)
	F32ToU8  func(dst []uint8, x []float32)
	F64ToU8  func(dst []uint8, x []float64)
	I64ToI32 func(dst []int32, x []int64)

	U8ToI32  func(dst []int32, x []uint8)
	U8ToI64  func(dst []int64, x []uint8)
	U8ToF32  func(dst []float32, x []uint8)
	U8ToF64  func(dst []float64, x []uint8)
	I32ToI64 func(dst []int64, x []int32)
	I32ToF32 func(dst []float32, x []int32) // to nearest even
	I32ToF64 func(dst []float64, x []int32)
}

// PlainOf returns a new table for a level that this machine can run.
func PlainOf(l Level) *Plain {
	p := portablePlain()
	if l != Go {
		acceleratePlain(p, l)
	}
	return p
}

func portablePlain() *Plain {
	return &Plain{
		I32:  portableIntegers[int32](),
		I64:  portableIntegers[int64](),
		U8:   portableIntegers[uint8](),
		F32:  portableComparisons[float32](),
		F64:  portableComparisons[float64](),
		Bits: Bits{And: bitsAndGo, Or: bitsOrGo, Xor: bitsXorGo, Not: bitsNotGo},
		Casts: Casts{
			U8ToBool: truthsGo[uint8], HalfToBool: halfTruthsGo, I32ToBool: truthsGo[int32], I64ToBool: truthsGo[int64],
			F32ToBool: truthsGo[float32], F64ToBool: truthsGo[float64],
			I32ToU8: convertGo[uint8, int32], I64ToU8: convertGo[uint8, int64], F32ToU8: cutBytesGo[float32], F64ToU8: cutBytesGo[float64],
			I64ToI32: convertGo[int32, int64],
			U8ToI32:  convertGo[int32, uint8], U8ToI64: convertGo[int64, uint8], U8ToF32: convertGo[float32, uint8], U8ToF64: convertGo[float64, uint8],
			I32ToI64: convertGo[int64, int32], I32ToF32: convertGo[float32, int32], I32ToF64: convertGo[float64, int32],
		},
	}
}

func portableIntegers[T Integer]() Integers[T] {
	return Integers[T]{
		Add: addGo[T], Sub: subGo[T], Mul: mulGo[T], Max: maxGo[T], Min: minGo[T],
		Neg: negIntsGo[T], Abs: absIntsGo[T], ReLU: reluIntsGo[T], Sign: signIntsGo[T], Clamp: clampGo[T],
		AddS: addSGo[T], RSubS: rsubSGo[T], MulS: mulSGo[T], MaxS: maxSGo[T], MinS: minSGo[T],
		Comparisons: portableComparisons[T](),
	}
}

func portableComparisons[T Number]() Comparisons[T] {
	return Comparisons[T]{Eq: eqGo[T], Ne: neGo[T], Lt: ltGo[T], Le: leGo[T]}
}

// truth returns a byte 1 or 0.
func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// These loops are written out: one that got its operation as a function value would call
// it for every element.

func maxGo[T Number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = max(v, b[i])
	}
}

func minGo[T Number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = min(v, b[i])
	}
}

func negIntsGo[T Integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = -v
	}
}

func absIntsGo[T Integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		if v < 0 {
			v = -v
		}
		dst[i] = v
	}
}

func reluIntsGo[T Integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = max(v, 0)
	}
}

func signIntsGo[T Integer](dst, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = T(truth(v > 0)) - T(truth(v < 0))
	}
}

func addSGo[T Integer](dst, x []T, s T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = v + s
	}
}

func rsubSGo[T Integer](dst, x []T, s T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = s - v
	}
}

func mulSGo[T Integer](dst, x []T, s T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = v * s
	}
}

func maxSGo[T Integer](dst, x []T, s T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = max(v, s)
	}
}

func minSGo[T Integer](dst, x []T, s T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = min(v, s)
	}
}

func clampGo[T Integer](dst, x []T, lo, hi T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = min(max(v, lo), hi)
	}
}

func eqGo[T Number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v == b[i])
	}
}

func neGo[T Number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v != b[i])
	}
}

func ltGo[T Number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v < b[i])
	}
}

func leGo[T Number](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = truth(v <= b[i])
	}
}

func bitsAndGo(dst, a, b []uint8) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v & b[i]
	}
}

func bitsOrGo(dst, a, b []uint8) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v | b[i]
	}
}

func bitsXorGo(dst, a, b []uint8) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = v ^ b[i]
	}
}

func bitsNotGo(dst, x []uint8) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = v ^ 1
	}
}

func truthsGo[T Number](dst []uint8, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = truth(v != 0)
	}
}

func halfTruthsGo(dst []uint8, x []uint16) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = truth(v&0x7fff != 0)
	}
}

func convertGo[U, T Number](dst []U, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = U(v)
	}
}

func cutBytesGo[T Float](dst []uint8, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = uint8(min(max(CutI64(float64(v)), 0), math.MaxUint8))
	}
}
