package onehost

import "unsafe"

// word64 returns the 8-byte word of mem at off, a multiple of 8 in memory that is aligned
// to pages.
func word64(mem []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(mem[off : off+8])))
}

// halfAt returns the 16 bytes of mem at off, a multiple of 16, as a half of the pair's
// line.
func halfAt(mem []byte, off int) *half {
	return (*half)(unsafe.Pointer(unsafe.SliceData(mem[off : off+16])))
}

// offsetIn returns where b begins in mem, or false if b does not lie in it as a whole.
func offsetIn(mem, b []byte) (int, bool) {
	start, end := uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem))
	// The difference wraps to a large number when b lies before mem.
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - start
	if off > end || uintptr(len(b)) > end-off {
		return 0, false
	}
	return int(off), true
}
