package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Meet carries data between the workers of a session before they have connections of
// their own: addresses, or the notice that the descriptor of a connection for the first
// worker comes along. The dispatcher passes it to all of them but the sender, and the
// descriptor to the first alone.
//
//	session uint64, rank uvarint, group uvarint, round uvarint, data bytes
type Meet struct {
	Session uint64
	Rank    uint32 // of the sender
	Group   uint32 // which of the groups that the session's workers form
	Round   uint32 // number of the sender's messages about it before this one
	Data    []byte // at most MaxMeet
}

func (m *Meet) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Number("Rank", &m.Rank, MaxWorkers-1)
	w.Number("Group", &m.Group, MaxMeetGroups-1)
	w.Number("Round", &m.Round, MaxMeetRounds-1)
	w.Bytes("Data", &m.Data, MaxMeet)
}
