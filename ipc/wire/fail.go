package wire

// Fail says that a session is over.
//
//	session uint64, code uint32, text
type Fail struct {
	Session uint64
	Code    Code
	Text    string // at most MaxText bytes, see CutText
}

// AppendFail appends m to dst.
func AppendFail(dst []byte, m *Fail) []byte {
	return appendText(appendU32(appendU64(dst, m.Session), uint32(m.Code)), m.Text)
}

// Size is the number of bytes AppendFail writes.
func (m *Fail) Size() int { return 12 + sizeText(m.Text) }

// ParseFail reads a message that AppendFail wrote.
func ParseFail(src []byte, m *Fail) error {
	p := parser{msg: "Fail", src: src}
	m.Session = p.u64("Session")
	m.Code = Code(p.u32("Code"))
	m.Text = p.text("Text", MaxText)
	return p.end()
}
