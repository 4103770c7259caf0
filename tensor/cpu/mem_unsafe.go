package cpu

import "unsafe"

// pointer is the address of an element in a buffer that outlives the step: shared memory
// or scratch, which is never moved.
type pointer = unsafe.Pointer

// at returns the address of byte off of b, nil for an empty b. The caller reads nothing
// beyond b's end.
func at(b []byte, off int) pointer {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off)
}

// shift returns the address n bytes behind p.
func shift(p pointer, n int) pointer { return unsafe.Add(p, n) }

// elems returns n elements of T from p on.
func elems[T any](p pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

// slice returns b as elements of T. b must be aligned for T: buffers are 64-byte aligned.
func slice[T any](b []byte) []T {
	var z T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(z)))
}

// sizeOf returns the size of a T in bytes.
func sizeOf[T any]() int {
	var z T
	return int(unsafe.Sizeof(z))
}

// bytesOf returns the memory of x.
func bytesOf[T any](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*sizeOf[T]())
}
