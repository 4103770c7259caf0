package wire

import "github.com/ringside-go/ringside/ipc/wire"

// Fail says that a session is over, and why.
//
//	session uint64, code uint32, text
type Fail struct {
	Session uint64
	Code    Code
	Text    string // at most MaxText bytes, see CutText
}

func (m *Fail) walk(w *wire.Walk) {
	w.U64("Session", &m.Session)
	w.U32("Code", (*uint32)(&m.Code))
	w.Text("Text", &m.Text, MaxText)
}

// AppendFail appends m to dst.
func AppendFail(dst []byte, m *Fail) []byte {
	w := wire.Appending(dst)
	m.walk(&w)
	return w.Appended()
}

// Size returns the number of bytes AppendFail writes.
func (m *Fail) Size() int {
	w := wire.Measuring()
	m.walk(&w)
	return w.Len()
}

// ParseFail parses a message that AppendFail wrote.
func ParseFail(src []byte, m *Fail) error {
	w := wire.Parsing("Fail", src)
	m.walk(&w)
	return w.End()
}
