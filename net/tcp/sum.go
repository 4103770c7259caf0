package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp/internal/crc32c"
)

// Directions of a stream, which its sum begins with, and for bulk 2 more.
const (
	fromDialer   = 1
	fromListener = 2
)

// stream is the CRC32C of all bytes of one direction of one socket so far. It begins with
// the token of the conn and the direction, so bytes of another conn or direction do not
// fit, and no frame can be missing, come twice or in another order. The zero stream sums
// nothing, and 0 is its sum.
type stream struct {
	on  bool
	sum uint32
}

func newStream(t token, direction byte) stream {
	return stream{true, crc32c.Update(crc32c.Sum(t[:]), []byte{direction})}
}

// streams are those of a conn.
type streams struct{ messages, bulk struct{ out, in stream } }

// streams returns those of an end of the conn that w opens.
func (w *welcome) streams(dialer bool) (s streams) {
	if w.sums == noSums {
		return s
	}
	var out, in byte = fromDialer, fromListener
	if !dialer {
		out, in = in, out
	}
	s.messages.out, s.messages.in = newStream(w.token, out), newStream(w.token, in)
	s.bulk.out, s.bulk.in = newStream(w.token, out+2), newStream(w.token, in+2)
	return s
}

// add sums b and returns the sum so far.
func (s *stream) add(b []byte) uint32 {
	if s.on {
		s.sum = crc32c.Update(s.sum, b)
	}
	return s.sum
}

// of returns the sum of b alone.
func (s *stream) of(b []byte) uint32 {
	if !s.on {
		return 0
	}
	return crc32c.Sum(b)
}

// seal sums the header but for its last 4 bytes, and puts the sum there.
func (s *stream) seal(header []byte) {
	n := len(header) - 4
	binary.LittleEndian.PutUint32(header[n:], s.add(header[:n]))
}

// opens checks a header that was sealed.
func (s *stream) opens(header []byte, what string) error {
	n := len(header) - 4
	if ours, theirs := s.add(header[:n]), binary.LittleEndian.Uint32(header[n:]); ours != theirs {
		return damaged(what, ours, theirs)
	}
	return nil
}

// damaged returns the error for sums that differ.
func damaged(what string, ours, theirs uint32) error {
	return fmt.Errorf("%w: %s with checksum %#08x, expected %#08x", ipc.ErrDamaged, what, theirs, ours)
}
