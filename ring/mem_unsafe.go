package ring

import "unsafe"

// word64 is the 8-byte word of mem at off, which must be a multiple of 8. Slicing
// checks the bounds without a load: indexing would read a byte that the other end
// may be writing.
func word64(mem []byte, off uint64) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(mem[off : off+8])))
}

// word32 is the 4-byte word of mem at off, which must be a multiple of 4.
func word32(mem []byte, off uint64) *uint32 {
	return (*uint32)(unsafe.Pointer(unsafe.SliceData(mem[off : off+4])))
}

// aligned reports whether mem starts at a multiple of n.
func aligned(mem []byte, n uintptr) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%n == 0
}
