package shm

import (
	"encoding/binary"
	"fmt"
)

// HandleSize is the number of bytes of an encoded Handle.
const HandleSize = 24

// Handle names a piece of a segment; it is what travels instead of bytes. Encoded
// it is its three fields in this order, 8 bytes each, little endian.
type Handle struct {
	Segment uint64 // its id
	Off     uint64 // bytes from its start
	Len     uint64 // bytes
}

// Put writes the encoded handle to the first HandleSize bytes of b.
func (h Handle) Put(b []byte) {
	_ = b[HandleSize-1]
	binary.LittleEndian.PutUint64(b[0:], h.Segment)
	binary.LittleEndian.PutUint64(b[8:], h.Off)
	binary.LittleEndian.PutUint64(b[16:], h.Len)
}

// Append appends the encoded handle to b.
func (h Handle) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Segment)
	b = binary.LittleEndian.AppendUint64(b, h.Off)
	return binary.LittleEndian.AppendUint64(b, h.Len)
}

// GetHandle decodes the first HandleSize bytes of b. The result is a peer's claim: Table
// and Arena check it.
func GetHandle(b []byte) Handle {
	_ = b[HandleSize-1]
	return Handle{
		Segment: binary.LittleEndian.Uint64(b[0:]),
		Off:     binary.LittleEndian.Uint64(b[8:]),
		Len:     binary.LittleEndian.Uint64(b[16:]),
	}
}

// String is for logs and errors.
func (h Handle) String() string {
	return fmt.Sprintf("%016x+%d:%d", h.Segment, h.Off, h.Len)
}

// in reports whether the handle lies within a segment of that size. Neither sum
// nor difference can overflow.
func (h Handle) in(size uint64) bool {
	return h.Off <= size && h.Len <= size-h.Off
}
