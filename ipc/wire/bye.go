package wire

// Bye ends the client's session.
//
//	session uint64
type Bye struct{ Session uint64 }

// AppendBye appends m to dst.
func AppendBye(dst []byte, m *Bye) []byte { return appendU64(dst, m.Session) }

// Size is the number of bytes AppendBye writes.
func (m *Bye) Size() int { return 8 }

// ParseBye reads a message that AppendBye wrote.
func ParseBye(src []byte, m *Bye) error {
	p := parser{msg: "Bye", src: src}
	m.Session = p.u64("Session")
	return p.end()
}
