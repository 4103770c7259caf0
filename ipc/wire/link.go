package wire

// Link is what a client and one of its workers have to say to each other before they have a conn of their own, over which
// tensors go: addresses, and what came of trying them. The dispatcher hands it to the other end.
//
//	session uint64, rank uvarint, round uvarint, token bytes, data bytes
type Link struct {
	Session uint64
	Rank    uint32 // of the worker
	Round   uint32 // how often this end has said something, from 0
	Token   []byte // as in OpenSession, said by the worker in its first round: what both prove to each other to know
	Data    []byte // at most MaxLink
}

// AppendLink appends m to dst.
func AppendLink(dst []byte, m *Link) []byte {
	dst = appendUint(appendUint(appendU64(dst, m.Session), uint64(m.Rank)), uint64(m.Round))
	return appendBytes(appendBytes(dst, m.Token), m.Data)
}

// Size is the number of bytes AppendLink writes.
func (m *Link) Size() int {
	return 8 + sizeUint(uint64(m.Rank)) + sizeUint(uint64(m.Round)) + sizeBytes(m.Token) + sizeBytes(m.Data)
}

// ParseLink reads a message that AppendLink wrote. Token and Data point into src.
func ParseLink(src []byte, m *Link) error {
	p := parser{msg: "Link", src: src}
	m.Session = p.u64("Session")
	m.Rank = p.number("Rank", MaxWorkers-1)
	m.Round = p.number("Round", MaxLinkRounds-1)
	m.Token = p.bytes("Token", MaxKey)
	m.Data = p.bytes("Data", MaxLink)
	return p.end()
}
