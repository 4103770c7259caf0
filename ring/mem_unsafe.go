package ring

import "unsafe"

// word64 is the 8-byte word of mem at off, which must be a multiple of 8.
func word64(mem []byte, off uint64) *uint64 {
	_ = mem[off+7]
	return (*uint64)(unsafe.Pointer(&mem[off]))
}

// word32 is the 4-byte word of mem at off, which must be a multiple of 4.
func word32(mem []byte, off uint64) *uint32 {
	_ = mem[off+3]
	return (*uint32)(unsafe.Pointer(&mem[off]))
}

// aligned reports whether mem starts at a multiple of n.
func aligned(mem []byte, n uintptr) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%n == 0
}
