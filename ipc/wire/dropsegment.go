package wire

// DropSegment tells who was given a segment that no handle into it will come any more, so
// that its mapping can go.
//
//	session uint64, id uint64
type DropSegment struct {
	Session uint64
	ID      uint64
}

// AppendDropSegment appends m to dst.
func AppendDropSegment(dst []byte, m *DropSegment) []byte {
	return appendU64(appendU64(dst, m.Session), m.ID)
}

// Size is the number of bytes AppendDropSegment writes.
func (m *DropSegment) Size() int { return 16 }

// ParseDropSegment reads a message that AppendDropSegment wrote.
func ParseDropSegment(src []byte, m *DropSegment) error {
	p := parser{msg: "DropSegment", src: src}
	m.Session = p.u64("Session")
	m.ID = p.u64("ID")
	return p.end()
}
