package wire

import (
	"fmt"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Message is a pointer to any message but Run, whose encoding needs a History.
type Message interface{ walk(w *encoding.Walk) }

// Append appends m to dst.
func Append(dst []byte, m Message) []byte {
	w := encoding.Appending(dst)
	visit(&w, m)
	return w.Appended()
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
