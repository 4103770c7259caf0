package tensor

import "unsafe"

// bytesOf is the memory of x, without a copy.
func bytesOf[E Element](x []E) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

// elements is b as elements of E. b is memory of an engine: at least 8-byte aligned, len(b) a multiple of the size.
// A bool in it is read as Go reads one, so an engine writes only 0 and 1.
func elements[E Element](b []byte) []E {
	if len(b) == 0 {
		return nil
	}
	var z E
	return unsafe.Slice((*E)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(z)))
}
