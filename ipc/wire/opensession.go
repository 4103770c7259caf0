package wire

// OpenSession asks for a session.
//
//	session uint64, quota uint64, apart uint8, direct uint8, workers uvarint, rank uvarint, key bytes, token bytes, config bytes, name text
type OpenSession struct {
	Session uint64
	Quota   uint64 // bytes of tensors it may hold; 0: as the worker likes
	Apart   bool   // client and worker share no memory, says the dispatcher: blocks go over a conn of their own
	Direct  bool   // the client takes a conn of its own with its worker, the first of several; the dispatcher knows of nothing against it
	Workers uint32 // how many run the session together; 0 and 1: one
	Rank    uint32 // which of them this worker is, says the dispatcher
	Key     []byte // what the session's workers know of each other, says the dispatcher: their conns' secret
	Token   []byte // what client and worker know of each other, says the dispatcher: their conn's secret; with Apart
	Config  []byte // where tensors are to lie, as package tensor/shard/config writes it; empty: whole everywhere
	Name    string // for people who look at the status
}

// AppendOpenSession appends m to dst.
func AppendOpenSession(dst []byte, m *OpenSession) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.Quota)
	dst = appendBool(dst, m.Apart)
	dst = appendBool(dst, m.Direct)
	dst = appendUint(dst, uint64(m.Workers))
	dst = appendUint(dst, uint64(m.Rank))
	dst = appendBytes(dst, m.Key)
	dst = appendBytes(dst, m.Token)
	dst = appendBytes(dst, m.Config)
	return appendText(dst, m.Name)
}

// Size is the number of bytes AppendOpenSession writes.
func (m *OpenSession) Size() int {
	return 18 + sizeUint(uint64(m.Workers)) + sizeUint(uint64(m.Rank)) + sizeBytes(m.Key) + sizeBytes(m.Token) +
		sizeBytes(m.Config) + sizeText(m.Name)
}

// ParseOpenSession reads a message that AppendOpenSession wrote. Key, Token and Config point into src.
func ParseOpenSession(src []byte, m *OpenSession) error {
	p := parser{msg: "OpenSession", src: src}
	m.Session = p.u64("Session")
	m.Quota = p.u64("Quota")
	m.Apart = p.bool("Apart")
	m.Direct = p.bool("Direct")
	m.Workers = p.number("Workers", MaxWorkers)
	m.Rank = p.number("Rank", MaxWorkers-1)
	m.Key = p.bytes("Key", MaxKey)
	m.Token = p.bytes("Token", MaxKey)
	m.Config = p.bytes("Config", MaxConfig)
	m.Name = p.text("Name", MaxName)
	if m.Rank > 0 && m.Rank >= m.Workers {
		p.fail("Rank", "%d of %d workers", m.Rank, m.Workers)
	}
	return p.end()
}
