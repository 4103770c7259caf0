package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// frameHeader is the length of a frame without its body.
	frameHeader = 20

	// bare is the bit of a frame's kind that says that there is no message, only the
	// count of those released. Alone it tells the peer of some.
	bare = 1 << 31

	// hungry says that its sender waits for room: until its next message it wants to be
	// told of every release, not only when many have gathered.
	hungry = bare | 1<<30

	// beat says how many bytes its sender has sent as bulk transfers, in place of the
	// sum of a body.
	beat = bare | 1<<29
)

// frame is the header of a message on its way.
//
//	length uint32, kind uint32, released uint32, sum uint32, sum of the stream uint32
type frame struct {
	length   uint32 // of the body
	kind     uint32 // at most ipc.MaxKind, bare, hungry or beat
	released uint32 // messages that the sender has released, modulo 2^32
	sum      uint32 // of the body; of a beat bulk bytes, modulo 2^32
}

// put writes f as the next of the stream s.
func (f frame) put(dst *[frameHeader]byte, s *stream) {
	binary.LittleEndian.PutUint32(dst[0:], f.length)
	binary.LittleEndian.PutUint32(dst[4:], f.kind)
	binary.LittleEndian.PutUint32(dst[8:], f.released)
	binary.LittleEndian.PutUint32(dst[12:], f.sum)
	s.seal(dst[:])
}

// parseFrame reads the next header of the stream s, and checks that the body is at most
// limit bytes long.
func parseFrame(src *[frameHeader]byte, limit int, s *stream) (frame, error) {
	f := frame{
		length:   binary.LittleEndian.Uint32(src[0:]),
		kind:     binary.LittleEndian.Uint32(src[4:]),
		released: binary.LittleEndian.Uint32(src[8:]),
		sum:      binary.LittleEndian.Uint32(src[12:]),
	}
	if err := s.opens(src[:], "header of a message"); err != nil {
		return f, err
	}
	switch {
	case (f.kind == bare || f.kind == hungry || f.kind == beat) && f.length == 0:
	case f.kind > ipc.MaxKind:
		return f, fmt.Errorf("%w: message of kind %#x, at most %#x", ipc.ErrCorrupt, f.kind, ipc.MaxKind)
	case int64(f.length) > int64(limit):
		return f, fmt.Errorf("%w: message of %d bytes, at most %d", ipc.ErrCorrupt, f.length, limit)
	}
	return f, nil
}
