package wire

import "github.com/ringside-go/ringside/ipc/encoding"

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

func (m *CloseSession) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U32("Reason", (*uint32)(&m.Reason))
}
