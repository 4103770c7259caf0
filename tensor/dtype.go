package tensor

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/tensor/half"
)

// DType is the type of a tensor's elements. The numbers travel in programs and messages and never change.
//
// F16 and BF16 are for storage: tensors of them are uploaded, moved, viewed and cast as they are, and an operation that
// computes widens its operands to F32 and rounds its result back. The recorder writes these casts into the program, so that
// an engine needs nothing but casts and movement of 16 bits; between fused operations, and before products, they cost no
// memory.
type DType uint8

// The element types.
const (
	Invalid DType = 0
	F32     DType = 1
	F64     DType = 2
	I32     DType = 3
	I64     DType = 4
	U8      DType = 5
	Bool    DType = 6 // one byte, 0 or 1
	F16     DType = 7 // IEEE 754 binary16
	BF16    DType = 8 // the upper half of an F32
)

var dtypeInfo = [...]struct {
	name string
	size int
	rank int // place in the order of promotion
}{
	F32:  {"f32", 4, 6},
	F64:  {"f64", 8, 7},
	I32:  {"i32", 4, 3},
	I64:  {"i64", 8, 4},
	U8:   {"u8", 1, 2},
	Bool: {"bool", 1, 1},
	F16:  {"f16", 2, 5},
	BF16: {"bf16", 2, 5},
}

// Valid reports whether d is one of the types above.
func (d DType) Valid() bool { return d >= F32 && d <= BF16 }

// Size is the number of bytes of one element.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypeInfo[d].size
}

// String gives the short name: f32, f64, i32, i64, u8, bool, f16, bf16.
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypeInfo[d].name
}

// IsFloat reports whether d is F32, F64, F16 or BF16.
func (d DType) IsFloat() bool { return d == F32 || d == F64 || d.IsHalf() }

// IsHalf reports whether d is F16 or BF16.
func (d DType) IsHalf() bool { return d == F16 || d == BF16 }

// DTypes lists the element types in the order of their numbers.
func DTypes() []DType { return []DType{F32, F64, I32, I64, U8, Bool, F16, BF16} }

// ParseDType is the inverse of String.
func ParseDType(s string) (DType, error) {
	for _, d := range DTypes() {
		if d.String() == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("%w: %q; expected f32, f64, i32, i64, u8, bool, f16 or bf16", ErrDType, s)
}

// Promote is the type in which a and b meet: bool < u8 < i32 < i64 < f16, bf16 < f32 < f64; f16 and bf16 meet in f32. An
// integer and a float meet in the float. This is PyTorch's table. Scalars (plain Go numbers) never widen a tensor of floats; they lift
// one of integers or bools to F32 when its dtype can't hold them, for they have a fraction or lie outside (a comparison lifts it to F64).
func Promote(a, b DType) DType {
	if a != b && a.IsHalf() && b.IsHalf() {
		return F32
	}
	if dtypeInfo[a].rank >= dtypeInfo[b].rank {
		return a
	}
	return b
}

// holds reports whether f, a whole number, is a value of the integer type or of Bool.
func (d DType) holds(f float64) bool {
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
	float32 | float64 | int32 | int64 | uint8 | bool | half.F16 | half.BF16
}

// DTypeOf is the DType of T.
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
	case half.F16:
		return F16
	case half.BF16:
		return BF16
	default:
		return Bool
	}
}
