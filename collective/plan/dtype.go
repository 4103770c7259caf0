package plan

import "fmt"

// DType is the type of a buffer's elements.
type DType uint8

// The numbers travel between ranks: append, never reorder.
const (
	NoDType DType = iota // bytes that nobody computes with
	F64
	F32
	F16  // IEEE 754 binary16
	BF16 // the upper half of an F32
	I64
	I32
	U8

	dtypes
)

var dtypeRows = [dtypes]struct {
	name string
	size int
}{
	NoDType: {"bytes", 1}, F64: {"f64", 8}, F32: {"f32", 4}, F16: {"f16", 2}, BF16: {"bf16", 2},
	I64: {"i64", 8}, I32: {"i32", 4}, U8: {"u8", 1},
}

// DTypes lists those that can be computed with.
func DTypes() []DType { return []DType{F64, F32, F16, BF16, I64, I32, U8} }

// Valid says whether d is one of the constants.
func (d DType) Valid() bool { return d < dtypes }

// Size is the bytes of one element, 1 for NoDType. It panics for what is not Valid.
func (d DType) Size() int { return dtypeRows[d].size }

// Float says whether the elements are floating-point numbers.
func (d DType) Float() bool { return d >= F64 && d <= BF16 }

// Wide is the type in which elements of d are accumulated: F32 for F16 and BF16, else d.
func (d DType) Wide() DType {
	if d == F16 || d == BF16 {
		return F32
	}
	return d
}

func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypeRows[d].name
}

// Op is how two elements become one. A mean is a Sum with Call.Scale.
type Op uint8

// The numbers travel between ranks: append, never reorder.
const (
	NoOp Op = iota // a call that reduces nothing
	Sum
	Prod
	Min
	Max
	And // bitwise, integers only, as are the next
	Or
	Xor

	ops
)

var opNames = [ops]string{"", "sum", "prod", "min", "max", "and", "or", "xor"}

// Ops lists those that reduce.
func Ops() []Op { return []Op{Sum, Prod, Min, Max, And, Or, Xor} }

// Valid says whether o is one of the constants.
func (o Op) Valid() bool { return o < ops }

// Bitwise says whether o takes integers only.
func (o Op) Bitwise() bool { return o >= And && o <= Xor }

func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return opNames[o]
}
