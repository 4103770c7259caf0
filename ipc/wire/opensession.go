package wire

// OpenSession asks for a session.
//
//	session uint64, quota uint64, apart uint8, name text
type OpenSession struct {
	Session uint64
	Quota   uint64 // bytes of tensors it may hold; 0: as the worker likes
	Apart   bool   // client and worker share no memory, says the dispatcher: blocks travel in Data
	Name    string // for people who look at the status
}

// AppendOpenSession appends m to dst.
func AppendOpenSession(dst []byte, m *OpenSession) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.Quota)
	return appendText(appendBool(dst, m.Apart), m.Name)
}

// Size is the number of bytes AppendOpenSession writes.
func (m *OpenSession) Size() int { return 17 + sizeText(m.Name) }

// ParseOpenSession reads a message that AppendOpenSession wrote.
func ParseOpenSession(src []byte, m *OpenSession) error {
	p := parser{msg: "OpenSession", src: src}
	m.Session = p.u64("Session")
	m.Quota = p.u64("Quota")
	m.Apart = p.bool("Apart")
	m.Name = p.text("Name", MaxName)
	return p.end()
}
