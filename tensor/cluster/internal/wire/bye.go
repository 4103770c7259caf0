package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Bye ends the client's session.
//
//	session uint64
type Bye struct{ Session uint64 }

func (m *Bye) walk(w *encoding.Walk) { w.U64("Session", &m.Session) }
