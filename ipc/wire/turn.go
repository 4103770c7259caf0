package wire

// Turn is about whose turn it is at workers that have conns of their own with each other and with a client. A session of several
// workers is done there only when it has the turn at all of them, which the dispatcher gives.
//
//	session uint64, what uint8
//
// Its first worker asks for one when it has a message, and gives it back. The dispatcher's word goes to all of the session's workers. That
// it is over the first says to the others as well, behind the messages that it has passed on to them.
type Turn struct {
	Session uint64
	What    TurnWhat
}

// TurnWhat is what a Turn says.
type TurnWhat uint8

// What a Turn says.
const (
	TurnAsk  TurnWhat = iota // first worker → dispatcher: there is a message
	TurnOne                  // dispatcher → workers: for one message
	TurnOpen                 // dispatcher → workers: until it is asked back
	TurnBack                 // dispatcher → first worker: others want it
	TurnOver                 // first worker → dispatcher, and → the others
)

// AppendTurn appends m to dst.
func AppendTurn(dst []byte, m *Turn) []byte { return append(appendU64(dst, m.Session), byte(m.What)) }

// Size is the number of bytes AppendTurn writes.
func (m *Turn) Size() int { return 9 }

// ParseTurn reads a message that AppendTurn wrote.
func ParseTurn(src []byte, m *Turn) error {
	p := parser{msg: "Turn", src: src}
	m.Session = p.u64("Session")
	if m.What = TurnWhat(p.u8("What")); m.What > TurnOver {
		p.fail("What", "%d is over %d", m.What, TurnOver)
	}
	return p.end()
}
