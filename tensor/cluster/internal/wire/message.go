package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Message is a pointer to any message but Run, whose encoding needs a History.
type Message interface {
	walk(w *encoding.Walk)
	append(dst []byte) []byte
}

//go:generate go run ./gen

// Append appends m to dst.
func Append(dst []byte, m Message) []byte { return m.append(dst) }

// appendBool appends a byte that is 0 or 1.
func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendDelta appends the zigzag varint of a difference modulo 2^64.
func appendDelta(dst []byte, d uint64) []byte {
	return binary.AppendUvarint(dst, d<<1^uint64(int64(d)>>63))
}

// Parse parses a message that Append wrote.
func Parse(src []byte, m Message) error {
	w := encoding.Parsing(m, src)
	visit(&w, m)
	return w.End()
}

// visit has w visit the fields of m. It names every message because a Walk that is passed
// to a method of an interface is allocated; one that is passed to a known method is not.
func visit(w *encoding.Walk, m Message) {
	switch m := m.(type) {
	case *Body:
		m.walk(w)
	case *Bye:
		m.walk(w)
	case *CloseSession:
		m.walk(w)
	case *Device:
		m.walk(w)
	case *Done:
		m.walk(w)
	case *Fail:
		m.walk(w)
	case *Flow:
		m.walk(w)
	case *Held:
		m.walk(w)
	case *Link:
		m.walk(w)
	case *Meet:
		m.walk(w)
	case *OpenSession:
		m.walk(w)
	case *Resume:
		m.walk(w)
	case *Save:
		m.walk(w)
	case *Saved:
		m.walk(w)
	case *Segment:
		m.walk(w)
	case *SessionOpened:
		m.walk(w)
	case *Show:
		m.walk(w)
	case *Shown:
		m.walk(w)
	case *Status:
		m.walk(w)
	case *StatusReply:
		m.walk(w)
	case *Stop:
		m.walk(w)
	case *Training:
		m.walk(w)
	case *Transfer:
		m.walk(w)
	case *Turn:
		m.walk(w)
	case *Watch:
		m.walk(w)
	case *Watched:
		m.walk(w)
	default:
		panic(fmt.Sprintf("wire: visit lacks %T", m))
	}
}
