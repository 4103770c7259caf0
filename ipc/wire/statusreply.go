package wire

// StatusReply is the dispatcher's counters.
//
//	session uint64, count uvarint, then of each: name text, value uvarint
type StatusReply struct {
	Session  uint64
	Counters []Counter
}

// Counter is a named number: "clients", "workers", "messages", "worker.w0.runs".
type Counter struct {
	Name  string
	Value uint64
}

// AppendStatusReply appends m to dst.
func AppendStatusReply(dst []byte, m *StatusReply) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendCount(dst, len(m.Counters))
	for i := range m.Counters {
		dst = appendText(dst, m.Counters[i].Name)
		dst = appendUint(dst, m.Counters[i].Value)
	}
	return dst
}

// Size is the number of bytes AppendStatusReply writes.
func (m *StatusReply) Size() int {
	n := 8 + sizeCount(len(m.Counters))
	for i := range m.Counters {
		n += sizeText(m.Counters[i].Name) + sizeUint(m.Counters[i].Value)
	}
	return n
}

// ParseStatusReply reads a message that AppendStatusReply wrote.
func ParseStatusReply(src []byte, m *StatusReply) error {
	p := parser{msg: "StatusReply", src: src}
	m.Session = p.u64("Session")
	m.Counters = resize(m.Counters, p.count("Counters", MaxCounters, 2))
	for i := range m.Counters {
		m.Counters[i].Name = p.text("Counters.Name", MaxName)
		m.Counters[i].Value = p.uvarint("Counters.Value")
	}
	return p.end()
}

// Get returns the counter of that name, 0 when there is none.
func (m *StatusReply) Get(name string) uint64 { return value(m.Counters, name) }

// value is that of the counter of a name, 0 if there is none.
func value(counters []Counter, name string) uint64 {
	for i := range counters {
		if counters[i].Name == name {
			return counters[i].Value
		}
	}
	return 0
}
