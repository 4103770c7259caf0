package wire

import "github.com/ringside-go/ringside/ipc/wire"

// Bye ends the client's session.
//
//	session uint64
type Bye struct{ Session uint64 }

func (m *Bye) walk(w *wire.Walk) { w.U64("Session", &m.Session) }

// AppendBye appends m to dst.
func AppendBye(dst []byte, m *Bye) []byte {
	w := wire.Appending(dst)
	m.walk(&w)
	return w.Appended()
}

// Size returns the number of bytes AppendBye writes.
func (m *Bye) Size() int {
	w := wire.Measuring()
	m.walk(&w)
	return w.Len()
}

// ParseBye parses a message that AppendBye wrote.
func ParseBye(src []byte, m *Bye) error {
	w := wire.Parsing("Bye", src)
	m.walk(&w)
	return w.End()
}
