package element

import "fmt"

// DType is the type of an array's elements.
type DType uint8

// The element types. Invalid, the zero value, stands for "no elements" in calls that have
// none, such as a barrier.
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

	dtypes = 9
)

var dtypeInfo = [dtypes]struct {
	name string
	size int
}{
	F32: {"f32", 4}, F64: {"f64", 8}, I32: {"i32", 4}, I64: {"i64", 8}, U8: {"u8", 1},
	Bool: {"bool", 1}, F16: {"f16", 2}, BF16: {"bf16", 2},
}

// Valid reports whether d is one of the element types; Invalid is not.
func (d DType) Valid() bool { return d > Invalid && d < dtypes }

// Size returns the number of bytes of one element; 0 if d is not valid.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypeInfo[d].size
}

// String returns the short name: f32, f64, i32, i64, u8, bool, f16, bf16.
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypeInfo[d].name
}

// IsFloat reports whether d is F32, F64, F16 or BF16.
func (d DType) IsFloat() bool { return d == F32 || d == F64 || d.IsStorage() }

// IsHalf reports whether d is F16 or BF16: a float of two bytes. It is for code that
// reads or writes such elements. Code that only asks in which type to compute uses Wide
// or IsStorage.
func (d DType) IsHalf() bool { return d == F16 || d == BF16 }

// IsStorage reports whether d is for storage only: operations compute in Wide and round
// the result to d. Such types are F16 and BF16.
func (d DType) IsStorage() bool { return d.Wide() != d }

// Wide returns the type in which operations on elements of d compute: F32 for F16 and
// BF16, else d itself.
func (d DType) Wide() DType {
	if d == F16 || d == BF16 {
		return F32
	}
	return d
}

// DTypes returns the element types in the order of their numbers.
func DTypes() []DType { return []DType{F32, F64, I32, I64, U8, Bool, F16, BF16} }

// Numeric returns the element types that reductions between ranks take: all but Bool.
func Numeric() []DType { return []DType{F32, F64, I32, I64, U8, F16, BF16} }
