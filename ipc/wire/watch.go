package wire

// Watch asks a worker what it has done and what it does. Who looks asks again and again: a worker measures for as long as it is asked,
// and some seconds longer.
//
//	session uint64, ask uint64, events uint8, since uint64, worker text
type Watch struct {
	Session uint64 // none: 0
	Ask     uint64 // whose question it is, says the dispatcher; the answer has it again
	Events  bool   // also what was done one by one
	Since   uint64 // of these, from this one on
	Worker  string // whom it is for; empty: all
}

// AppendWatch appends m to dst.
func AppendWatch(dst []byte, m *Watch) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.Ask)
	dst = appendBool(dst, m.Events)
	return appendText(appendU64(dst, m.Since), m.Worker)
}

// Size is the number of bytes AppendWatch writes.
func (m *Watch) Size() int { return 25 + sizeText(m.Worker) }

// ParseWatch reads a message that AppendWatch wrote.
func ParseWatch(src []byte, m *Watch) error {
	p := parser{msg: "Watch", src: src}
	m.Session = p.u64("Session")
	m.Ask = p.u64("Ask")
	m.Events = p.bool("Events")
	m.Since = p.u64("Since")
	m.Worker = p.text("Worker", MaxName)
	return p.end()
}
