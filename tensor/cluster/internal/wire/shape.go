package wire

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// A packed shape has, from the lowest bit on:
//
//	5 bits  the dtype's number and 1; 0: there is no shape
//	1 bit   whether the first dims are left out, as all have no room
//	then of each dim, the last one first: 6 bits with the length n of the dim and 1 in
//	bits, and the n-1 lower ones of these bits. Bits of 0, or fewer than 6, are the end.
const (
	shapeDType  = 5
	shapeHead   = shapeDType + 1
	shapeLength = 6
)

// PackShape returns the field Shape of an EventStep.
func PackShape(d tensor.DType, shape tensor.Shape) uint64 {
	if uint64(d)+1 >= 1<<shapeDType {
		return 0
	}
	packed, at := uint64(d)+1, shapeHead
	for i := len(shape) - 1; i >= 0; i-- {
		dim := uint64(shape[i]) + 1
		n := bits.Len64(dim)
		if at+shapeLength+n-1 > 64 {
			return packed | 1<<shapeDType
		}
		packed |= (uint64(n) | (dim&^(1<<(n-1)))<<shapeLength) << at
		at += shapeLength + n - 1
	}
	return packed
}

// ShapeText returns the dtype and the dims of an EventStep's result, as in "f32[8 64]";
// the dims that had no room are three dots. It is empty where there is none.
func (e *Event) ShapeText() string {
	d := tensor.DType(e.Shape&(1<<shapeDType-1) - 1)
	if e.Shape&(1<<shapeDType-1) == 0 || !d.Valid() {
		return ""
	}
	var dims []string
	for at := shapeHead; at+shapeLength <= 64; {
		n := int(e.Shape >> at & (1<<shapeLength - 1))
		if n == 0 || at+shapeLength+n-1 > 64 { // an event is data from another process
			break
		}
		dim := e.Shape>>(at+shapeLength)&(1<<(n-1)-1) | 1<<(n-1)
		dims = append([]string{fmt.Sprint(dim - 1)}, dims...)
		at += shapeLength + n - 1
	}
	if e.Shape&(1<<shapeDType) != 0 {
		dims = append([]string{"..."}, dims...)
	}
	return fmt.Sprintf("%v[%s]", d, strings.Join(dims, " "))
}
