package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Resume tells a dispatcher that a client goes on with a session that another dispatcher
// opened. The dispatcher sends it back when the session's worker has named the same one
// (Held). From then on it forwards Stop, ends the session with the client, and says why
// the session ended.
//
//	session uint64, token bytes
type Resume struct {
	Session uint64
	Token   []byte // as in SessionOpened
}

func (m *Resume) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Bytes("Token", &m.Token, MaxKey)
}
