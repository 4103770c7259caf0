package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Held tells a dispatcher that a worker goes on with a session that another dispatcher
// opened, or that such a session is over. The client of the session names it by its token
// (Resume).
//
//	session uint64, over bool, quota uint64, token bytes, name text
type Held struct {
	Session uint64
	Over    bool   // the worker has ended it; the fields below are empty
	Quota   uint64 // as in OpenSession
	Token   []byte // as in OpenSession
	Name    string // for status reports
}

func (m *Held) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Bool("Over", &m.Over)
	w.U64("Quota", &m.Quota)
	w.Bytes("Token", &m.Token, MaxKey)
	w.Text("Name", &m.Name, MaxName)
}
