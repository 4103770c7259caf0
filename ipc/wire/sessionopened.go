package wire

// SessionOpened tells a client that its session is open and who serves it: one from each of its workers.
//
//	session uint64, pid uint32, apart uint8, rank uvarint, worker text
type SessionOpened struct {
	Session uint64
	PID     uint32 // of the worker
	Apart   bool   // as in OpenSession
	Rank    uint32 // as in OpenSession
	Worker  string // its name
}

// AppendSessionOpened appends m to dst.
func AppendSessionOpened(dst []byte, m *SessionOpened) []byte {
	dst = appendBool(appendU32(appendU64(dst, m.Session), m.PID), m.Apart)
	return appendText(appendUint(dst, uint64(m.Rank)), m.Worker)
}

// Size is the number of bytes AppendSessionOpened writes.
func (m *SessionOpened) Size() int { return 13 + sizeUint(uint64(m.Rank)) + sizeText(m.Worker) }

// ParseSessionOpened reads a message that AppendSessionOpened wrote.
func ParseSessionOpened(src []byte, m *SessionOpened) error {
	p := parser{msg: "SessionOpened", src: src}
	m.Session = p.u64("Session")
	m.PID = p.u32("PID")
	m.Apart = p.bool("Apart")
	m.Rank = p.number("Rank", MaxWorkers-1)
	m.Worker = p.text("Worker", MaxName)
	return p.end()
}
