package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Fail says that a session is over, and why. From a worker it is a claim, in whose place
// the dispatcher may tell the client a better reason. Without a session it says why the
// dispatcher ends the connection.
//
//	session uint64, code uint32, text
type Fail struct {
	Session uint64
	Code    Code
	Text    string // at most MaxText bytes, see CutText
}

func (m *Fail) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U32("Code", (*uint32)(&m.Code))
	w.Text("Text", &m.Text, MaxText)
}
