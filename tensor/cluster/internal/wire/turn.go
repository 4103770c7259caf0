package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Turn is a message of the protocol of turns, by which a session of several workers runs
// on connections of its own: see package turn. It has its own kind (KindTurn) and is sent
// by the dispatcher to all of the session's workers, by the first of these to the
// dispatcher, and by the first to the others behind the messages that it passed on to
// them.
//
//	session uint64, what uint8
type Turn struct {
	Session uint64
	What    TurnWhat
}

// TurnWhat is the message of a Turn.
type TurnWhat uint8

// The messages of a Turn.
const (
	TurnAsk  TurnWhat = iota // first worker → dispatcher: a message waits
	TurnOne                  // dispatcher → workers: the turn, for one message
	TurnOpen                 // dispatcher → workers: the turn, until it is asked back
	TurnBack                 // dispatcher → first worker: other sessions want the turn
	// first worker → dispatcher and other workers: the turn is over
	TurnOver
)

func (m *Turn) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U8("What", (*uint8)(&m.What))
	if w.Parses() && m.What > TurnOver {
		w.Fail("What", "%d is over %d", m.What, TurnOver)
	}
}
