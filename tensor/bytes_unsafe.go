package tensor

import "unsafe"

// bytesOf returns the memory of x, without a copy.
func bytesOf[E Element](x []E) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

// elements returns b as elements of E. b is an engine's memory: 8-byte aligned, and
// len(b) is a multiple of the size. Go reads a bool in it as it is, so an engine writes
// only 0 and 1.
func elements[E Element](b []byte) []E {
	if len(b) == 0 {
		return nil
	}
	var z E
	return unsafe.Slice((*E)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(z)))
}
