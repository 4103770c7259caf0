package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// SessionOpened tells a client that its session is open at a worker. Each of the
// session's workers sends one.
//
//	session uint64, pid uint32, apart uint8, rank uvarint, bytes uint64, token bytes,
//	worker text
type SessionOpened struct {
	Session uint64
	PID     uint32 // of the worker
	Apart   bool   // as in OpenSession
	Rank    uint32 // as in OpenSession
	Bytes   uint64 // of tensors that the session may hold at this worker; 0: not known
	Token   []byte // as in OpenSession; empty if the session ends with its dispatcher
	Worker  string // its name
}

func (m *SessionOpened) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U32("PID", &m.PID)
	w.Bool("Apart", &m.Apart)
	w.Number("Rank", &m.Rank, MaxWorkers-1)
	w.U64("Bytes", &m.Bytes)
	w.Bytes("Token", &m.Token, MaxKey)
	w.Text("Worker", &m.Worker, MaxName)
}
