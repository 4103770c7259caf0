package wire

// Read asks for bytes of a result that is leased to the session: a Data is the answer. Only in sessions whose ends share
// no memory.
//
//	session uint64, handle, offset uint64, bytes uint32
type Read struct {
	Session uint64
	Handle  Handle // of the result
	Off     uint64 // in it
	Bytes   uint32 // at most MaxPart, and within the result
}

// AppendRead appends m to dst.
func AppendRead(dst []byte, m *Read) []byte {
	return appendU32(appendU64(m.Handle.Append(appendU64(dst, m.Session)), m.Off), m.Bytes)
}

// Size is the number of bytes AppendRead writes.
func (m *Read) Size() int { return dataFixed + 4 }

// ParseRead reads a message that AppendRead wrote.
func ParseRead(src []byte, m *Read) error {
	p := parser{msg: "Read", src: src}
	m.Session = p.u64("Session")
	m.Handle = p.handle("Handle")
	m.Off = p.u64("Off")
	m.Bytes = p.u32("Bytes")
	p.within(m.Handle, m.Off, uint64(m.Bytes))
	return p.end()
}
