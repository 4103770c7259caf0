package wire

// Status asks the dispatcher for its counters.
//
//	session uint64
type Status struct{ Session uint64 }

// AppendStatus appends m to dst.
func AppendStatus(dst []byte, m *Status) []byte { return appendU64(dst, m.Session) }

// Size is the number of bytes AppendStatus writes.
func (m *Status) Size() int { return 8 }

// ParseStatus reads a message that AppendStatus wrote.
func ParseStatus(src []byte, m *Status) error {
	p := parser{msg: "Status", src: src}
	m.Session = p.u64("Session")
	return p.end()
}
