package wire

// Meet is what one worker of a session has to say to the others before they have conns of their own: addresses, or that
// the descriptor of a conn for the first of them comes along. The dispatcher hands it to all of them but the one it came from, the
// descriptor to the first alone.
//
//	session uint64, rank uvarint, group uvarint, round uvarint, data bytes
type Meet struct {
	Session uint64
	Rank    uint32 // who says it
	Group   uint32 // about which of the groups that the session's workers form
	Round   uint32 // how often it has said something about it, from 0
	Data    []byte // at most MaxMeet
}

// AppendMeet appends m to dst.
func AppendMeet(dst []byte, m *Meet) []byte {
	dst = appendUint(appendU64(dst, m.Session), uint64(m.Rank))
	return appendBytes(appendUint(appendUint(dst, uint64(m.Group)), uint64(m.Round)), m.Data)
}

// Size is the number of bytes AppendMeet writes.
func (m *Meet) Size() int {
	return 8 + sizeUint(uint64(m.Rank)) + sizeUint(uint64(m.Group)) + sizeUint(uint64(m.Round)) + sizeBytes(m.Data)
}

// ParseMeet reads a message that AppendMeet wrote. Data points into src.
func ParseMeet(src []byte, m *Meet) error {
	p := parser{msg: "Meet", src: src}
	m.Session = p.u64("Session")
	m.Rank = p.number("Rank", MaxWorkers-1)
	m.Group = p.number("Group", MaxMeetGroups-1)
	m.Round = p.number("Round", MaxMeetRounds-1)
	m.Data = p.bytes("Data", MaxMeet)
	return p.end()
}
