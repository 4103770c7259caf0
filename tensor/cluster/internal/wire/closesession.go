package wire

import "github.com/ringside-go/ringside/ipc/wire"

// CloseSession tells a worker that a session is over: the worker frees its tensors. With
// CodeOK the client has closed the session or is gone, and the worker also ends the
// session's leases. With another reason the client may still read results, and CodeOK
// follows when it has gone.
//
//	session uint64, reason uint32
type CloseSession struct {
	Session uint64
	Reason  Code // CodeOK: the client said Bye, or is gone
}

func (m *CloseSession) walk(w *wire.Walk) {
	w.U64("Session", &m.Session)
	w.U32("Reason", (*uint32)(&m.Reason))
}

// AppendCloseSession appends m to dst.
func AppendCloseSession(dst []byte, m *CloseSession) []byte {
	w := wire.Appending(dst)
	m.walk(&w)
	return w.Appended()
}

// Size returns the number of bytes AppendCloseSession writes.
func (m *CloseSession) Size() int {
	w := wire.Measuring()
	m.walk(&w)
	return w.Len()
}

// ParseCloseSession parses a message that AppendCloseSession wrote.
func ParseCloseSession(src []byte, m *CloseSession) error {
	w := wire.Parsing("CloseSession", src)
	m.walk(&w)
	return w.End()
}
