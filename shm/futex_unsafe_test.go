package shm

import "unsafe"

// word is the 4-byte word of a segment at off.
func word(s *Segment, off int) *uint32 {
	return (*uint32)(unsafe.Pointer(&s.Bytes()[off]))
}
