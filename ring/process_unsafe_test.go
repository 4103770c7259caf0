package ring_test

import (
	"unsafe"

	"github.com/ringside-go/ringside/shm"
)

// word is the 4-byte word of a segment at off.
func word(seg *shm.Segment, off int) *uint32 {
	return (*uint32)(unsafe.Pointer(&seg.Bytes()[off]))
}
