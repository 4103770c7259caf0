package wire

// SessionOpened tells a client that its session is open and who serves it.
//
//	session uint64, pid uint32, apart uint8, worker text
type SessionOpened struct {
	Session uint64
	PID     uint32 // of the worker
	Apart   bool   // as in OpenSession
	Worker  string // its name
}

// AppendSessionOpened appends m to dst.
func AppendSessionOpened(dst []byte, m *SessionOpened) []byte {
	return appendText(appendBool(appendU32(appendU64(dst, m.Session), m.PID), m.Apart), m.Worker)
}

// Size is the number of bytes AppendSessionOpened writes.
func (m *SessionOpened) Size() int { return 13 + sizeText(m.Worker) }

// ParseSessionOpened reads a message that AppendSessionOpened wrote.
func ParseSessionOpened(src []byte, m *SessionOpened) error {
	p := parser{msg: "SessionOpened", src: src}
	m.Session = p.u64("Session")
	m.PID = p.u32("PID")
	m.Apart = p.bool("Apart")
	m.Worker = p.text("Worker", MaxName)
	return p.end()
}
