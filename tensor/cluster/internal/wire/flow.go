package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Flow tells the dispatcher that enough of a session's messages wait at its worker, or
// that there is room again. The worker takes messages that are on their way meanwhile.
// Without Stop it also answers RunTurn: the batch has begun.
//
//	session uint64, stop uint8
type Flow struct {
	Session uint64
	Stop    bool
}

func (m *Flow) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Bool("Stop", &m.Stop)
}
