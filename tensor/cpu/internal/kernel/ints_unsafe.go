//go:build amd64

package kernel

import "unsafe"

// floatsOf returns the memory of x as floats of the same size. Products of integers move
// their numbers by the functions that move floats.
func floatsOf[F Float, T Integer](x []T) []F {
	return unsafe.Slice((*F)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
