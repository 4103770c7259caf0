package tagged

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// Kind is the kind of a message, less the number that the group gives the first one.
type Kind uint32

// The kinds. Numbers are little endian:
//
//	byte            0        4       8       16                     56
//	eager          | tag u32 | zero  | id u64 | protocol.Call, 40 B  | bytes
//	offer          | tag u32 | zero  | id u64 | protocol.Call, 40 B  |
//	accept         | id u64          |
//	piece          | id u64          | offset u64                   16 | bytes
//	taken          | bytes of eager messages u64 | of pieces u64     |
const (
	Eager Kind = iota
	Offer
	Accept
	Piece
	Taken

	Kinds
)

// Limits that the ends of a lane agree on.
const (
	EagerMax = 32 << 10  // bytes of an eager message
	Kept     = 256 << 10 // of eager messages that the receiver keeps, with their headers
	PieceMax = 64 << 10  // bytes of a piece
	Window   = 512 << 10 // bytes of pieces that are on their way
	OfferMax = 16 << 10  // offers of one rank that the receiver keeps: some 4 MiB

	headerBytes = 56
	acceptBytes = 8
	pieceBytes  = 16
	takenBytes  = 16
	minPiece    = 512
)

var le = binary.LittleEndian

// header is the beginning of an eager message and of an offer.
type header struct {
	tag  uint32
	id   uint64
	call protocol.Call
}

func (h *header) append(b []byte) []byte {
	b = le.AppendUint32(b, h.tag)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, h.id)
	return h.call.Append(b)
}

// parseHeader reads a header of another process.
func parseHeader(b []byte) (h header, err error) {
	if len(b) < headerBytes {
		return h, fmt.Errorf("%w: a tagged message of %d bytes, expected at least %d", ipc.ErrCorrupt, len(b), headerBytes)
	}
	h.tag, h.id = le.Uint32(b), le.Uint64(b[8:])
	if h.call, err = protocol.DecodeCall(b[16:headerBytes]); err != nil {
		return h, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
	}
	c := &h.call
	if c.Kind != protocol.Send || c.DType == element.Invalid || c.Count > maxBytes/int64(c.DType.Size()) {
		return h, fmt.Errorf("%w: a tagged message of %v", ipc.ErrCorrupt, h.call)
	}
	return h, nil
}

// maxBytes bounds the length of a message, so that sums of lengths don't overflow.
const maxBytes = 1 << 56

// length returns the bytes of a call's buffer.
func length(c *protocol.Call) int { return int(c.Count) * c.DType.Size() }
