package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Watch asks a worker for its counters, sessions and events. A worker measures from the
// first Watch until some seconds after the last.
//
//	session uint64, ask uint64, events uint8, since uint64, worker text
type Watch struct {
	Session uint64 // 0
	Ask     uint64 // number of the asker, set by the dispatcher; the answer repeats it
	Events  bool   // also wants events
	Since   uint64 // number of the first event wanted
	Worker  string // the worker asked; empty: all
}

func (m *Watch) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Ask", &m.Ask)
	w.Bool("Events", &m.Events)
	w.U64("Since", &m.Since)
	w.Text("Worker", &m.Worker, MaxName)
}
