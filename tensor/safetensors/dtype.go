package safetensors

import (
	"fmt"
	"strings"
)

// DType is the name of an element type, spelled as in the header.
type DType string

// The types of the format whose elements take whole bytes.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	U16    DType = "U16"
	I16    DType = "I16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	U32    DType = "U32"
	I32    DType = "I32"
	F32    DType = "F32"
	U64    DType = "U64"
	I64    DType = "I64"
	F64    DType = "F64"
)

// TypeOf returns the type in files of an element type such as tensor.F32.
func TypeOf(d fmt.Stringer) DType { return DType(strings.ToUpper(d.String())) }

// Dims returns a shape as files have it.
func Dims[S ~[]int](shape S) []int64 {
	dims := make([]int64, len(shape))
	for d, n := range shape {
		dims[d] = int64(n)
	}
	return dims
}

// Size returns the bytes of one element, or 0 for a type this package does not
// know.
func (d DType) Size() int64 {
	switch d {
	case Bool, U8, I8, F8E4M3, F8E5M2:
		return 1
	case U16, I16, F16, BF16:
		return 2
	case U32, I32, F32:
		return 4
	case U64, I64, F64:
		return 8
	}
	return 0
}
