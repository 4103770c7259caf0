package tensor

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/collective/element"
)

// DType is the type of a tensor's elements. The numbers travel in programs and messages
// and never change.
//
// F16 and BF16 are for storage. Tensors of them are uploaded, moved, viewed and cast as
// they are. An operation that computes widens its operands to F32 and rounds its result.
// The recorder writes these casts into the program, so an engine needs only casts and
// movement of 16 bits. Between fused operations, and before products, the casts take no
// memory.
type DType = element.DType

// The element types.
const (
	Invalid = element.Invalid
	F32     = element.F32
	F64     = element.F64
	I32     = element.I32
	I64     = element.I64
	U8      = element.U8
	Bool    = element.Bool // one byte, 0 or 1
	F16     = element.F16  // IEEE 754 binary16
	BF16    = element.BF16 // the upper half of an F32
)

// Float16 and BFloat16 are the elements of F16 and BF16 as they are stored.
type (
	Float16  = element.Float16
	BFloat16 = element.BFloat16
)

// promotion orders the element types: of two types, the one with the larger number holds
// the values of both.
var promotion = [...]int{F32: 6, F64: 7, I32: 3, I64: 4, U8: 2, Bool: 1, F16: 5, BF16: 5}

// DTypes lists the element types in the order of their numbers.
func DTypes() []DType { return element.DTypes() }

// ParseDType returns the inverse of String.
func ParseDType(s string) (DType, error) {
	for _, d := range DTypes() {
		if d.String() == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("%w: %q; expected f32, f64, i32, i64, u8, bool, f16 or bf16", ErrDType, s)
}

// Promote returns the common type of a and b: bool < u8 < i32 < i64 < f16, bf16 < f32 <
// f64, and f16 with bf16 gives f32. This is PyTorch's table. A tensor without dims does
// not widen one with dims of the same kind (bool, integer, float).
//
// Scalars (plain Go numbers) never widen a tensor of floats. They turn a tensor of
// integers into F32 if its dtype can't hold them, because they have a fraction or are out
// of range; in a comparison without a fraction they turn it into F64. They turn a tensor
// of bools into I64, or F32 with a fraction.
func Promote(a, b DType) DType {
	if a != b && a.IsStorage() && b.IsStorage() {
		return F32
	}
	if promotion[a] >= promotion[b] {
		return a
	}
	return b
}

// holds reports whether f, a whole number, is a value of d, an integer type or Bool.
func holds(d DType, f float64) bool {
	switch d {
	case Bool:
		return f == 0 || f == 1
	case U8:
		return f >= 0 && f <= math.MaxUint8
	case I32:
		return f >= math.MinInt32 && f <= math.MaxInt32
	}
	return f >= math.MinInt64 && f < -math.MinInt64
}

// Element is a Go type that a tensor's elements can have.
type Element interface {
	float32 | float64 | int32 | int64 | uint8 | bool | element.Float16 | element.BFloat16
}

// DTypeOf returns the DType of T.
func DTypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case element.Float16:
		return F16
	case element.BFloat16:
		return BF16
	default:
		return Bool
	}
}
