package wire

import "github.com/ringside-go/ringside/ipc/wire"

// Status asks the dispatcher for its counters.
//
//	session uint64
type Status struct{ Session uint64 }

func (m *Status) walk(w *wire.Walk) { w.U64("Session", &m.Session) }

// AppendStatus appends m to dst.
func AppendStatus(dst []byte, m *Status) []byte {
	w := wire.Appending(dst)
	m.walk(&w)
	return w.Appended()
}

// Size returns the number of bytes AppendStatus writes.
func (m *Status) Size() int {
	w := wire.Measuring()
	m.walk(&w)
	return w.Len()
}

// ParseStatus parses a message that AppendStatus wrote.
func ParseStatus(src []byte, m *Status) error {
	w := wire.Parsing("Status", src)
	m.walk(&w)
	return w.End()
}
