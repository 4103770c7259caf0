package wire

// Flow tells the dispatcher that enough of a session waits at its worker, or that there is
// room again. What is on its way meanwhile is taken. Without Stop it also answers RunTurn:
// the batch has begun.
//
//	session uint64, stop uint8
type Flow struct {
	Session uint64
	Stop    bool
}

// AppendFlow appends m to dst.
func AppendFlow(dst []byte, m *Flow) []byte {
	return appendBool(appendU64(dst, m.Session), m.Stop)
}

// Size is the number of bytes AppendFlow writes.
func (m *Flow) Size() int { return 9 }

// ParseFlow reads a message that AppendFlow wrote.
func ParseFlow(src []byte, m *Flow) error {
	p := parser{msg: "Flow", src: src}
	m.Session = p.u64("Session")
	m.Stop = p.bool("Stop")
	return p.end()
}
