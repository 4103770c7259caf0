package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Status asks the dispatcher for its counters.
//
//	session uint64
type Status struct{ Session uint64 }

func (m *Status) walk(w *encoding.Walk) { w.U64("Session", &m.Session) }
