package host

import "unsafe"

// word64 is the 8-byte word of mem at off, a multiple of 8 in memory that is aligned to pages.
func word64(mem []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(mem[off : off+8])))
}

// halfAt is the 16 bytes of mem at off, a multiple of 16, as a half of the line of two.
func halfAt(mem []byte, off int) *half {
	return (*half)(unsafe.Pointer(unsafe.SliceData(mem[off : off+16])))
}

// offsetIn is where b begins in mem, or false if b does not lie in it as a whole.
func offsetIn(mem, b []byte) (int, bool) {
	start, end := uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem))
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - start // wraps to something large when b lies before mem
	if off > end || uintptr(len(b)) > end-off {
		return 0, false
	}
	return int(off), true
}
