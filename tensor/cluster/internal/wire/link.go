package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Link carries data between a client and one of its workers before they have a connection
// of their own for tensors: addresses, and the results of trying them. The dispatcher
// passes it to the other end.
//
//	session uint64, rank uvarint, round uvarint, token bytes, data bytes
type Link struct {
	Session uint64
	Rank    uint32 // of the worker
	Round   uint32 // number of this end's messages before this one
	// as in OpenSession, in the worker's first round: both ends prove that they know it
	Token []byte
	Data  []byte // at most MaxLink
}

func (m *Link) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Number("Rank", &m.Rank, MaxWorkers-1)
	w.Number("Round", &m.Round, MaxLinkRounds-1)
	w.Bytes("Token", &m.Token, MaxKey)
	w.Bytes("Data", &m.Data, MaxLink)
}
