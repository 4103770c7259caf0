package wire

// CloseSession tells a worker that a session is over: its tensors and leases are freed.
//
//	session uint64, reason uint32
type CloseSession struct {
	Session uint64
	Reason  Code // CodeOK: the client said Bye
}

// AppendCloseSession appends m to dst.
func AppendCloseSession(dst []byte, m *CloseSession) []byte {
	return appendU32(appendU64(dst, m.Session), uint32(m.Reason))
}

// Size is the number of bytes AppendCloseSession writes.
func (m *CloseSession) Size() int { return 12 }

// ParseCloseSession reads a message that AppendCloseSession wrote.
func ParseCloseSession(src []byte, m *CloseSession) error {
	p := parser{msg: "CloseSession", src: src}
	m.Session = p.u64("Session")
	m.Reason = Code(p.u32("Reason"))
	return p.end()
}
