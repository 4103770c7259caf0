package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Stop ends the programs of a session's Runs up to a number, and of no later Run: those
// that have not ended fail with CodeStopped. A client sends it for Runs that nothing
// waits for any more, always through the dispatcher, and past the messages that wait.
//
//	session uint64, seq uint64
type Stop struct {
	Session uint64
	Seq     uint64 // the last Run that is to end
}

func (m *Stop) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Seq", &m.Seq)
}
