package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// frameHeader is the length of a frame without its body.
	frameHeader = 12

	// bare is the bit of a frame's kind that says that there is no message, only the
	// count of those released. Alone it tells the peer of some.
	bare = 1 << 31

	// hungry says that its sender waits for room: until its next message it wants to be
	// told of every release, not only when many have gathered.
	hungry = bare | 1<<30
)

// frame is the header of a message on its way.
//
//	length uint32, kind uint32, released uint32
type frame struct {
	length   uint32 // of the body
	kind     uint32 // at most ipc.MaxKind, bare or hungry
	released uint32 // messages that the sender has released, modulo 2^32
}

func (f frame) put(dst *[frameHeader]byte) {
	binary.LittleEndian.PutUint32(dst[0:], f.length)
	binary.LittleEndian.PutUint32(dst[4:], f.kind)
	binary.LittleEndian.PutUint32(dst[8:], f.released)
}

// parseFrame reads a header and checks that the body is at most limit bytes long.
func parseFrame(src *[frameHeader]byte, limit int) (frame, error) {
	f := frame{
		length:   binary.LittleEndian.Uint32(src[0:]),
		kind:     binary.LittleEndian.Uint32(src[4:]),
		released: binary.LittleEndian.Uint32(src[8:]),
	}
	switch {
	case (f.kind == bare || f.kind == hungry) && f.length == 0:
	case f.kind > ipc.MaxKind:
		return f, fmt.Errorf("%w: message of kind %#x, at most %#x", ipc.ErrCorrupt, f.kind, ipc.MaxKind)
	case int64(f.length) > int64(limit):
		return f, fmt.Errorf("%w: message of %d bytes, at most %d", ipc.ErrCorrupt, f.length, limit)
	}
	return f, nil
}
