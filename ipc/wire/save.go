package wire

// Save has the workers of a session write values to files, each to its own: file r of the message is for rank r. What a worker
// has of the values it writes one after the other, dense and row-major. It answers Saved.
//
//	session uint64, seq uint64, bases uvarint, ids uvarint, then the bases, uvarints,
//	and the ids, as differences to the one before
type Save struct {
	Session uint64
	Seq     uint64   // names it in the answer
	Bases   []uint64 // of each file, by rank: where its worker is to go on
	IDs     []uint64
}

// Limits of a Save. There are as many files as a message may have.
const (
	MaxSavers = 16
	MaxSaves  = 1024
)

// AppendSave appends m to dst.
func AppendSave(dst []byte, m *Save) []byte {
	dst = appendU64(appendU64(dst, m.Session), m.Seq)
	dst = appendCount(appendCount(dst, len(m.Bases)), len(m.IDs))
	for _, b := range m.Bases {
		dst = appendUint(dst, b)
	}
	last := uint64(0)
	for _, id := range m.IDs {
		dst = appendUint(dst, zigzag(int64(id-last)))
		last = id
	}
	return dst
}

// Size is the number of bytes AppendSave writes.
func (m *Save) Size() int {
	n := 16 + sizeCount(len(m.Bases)) + sizeCount(len(m.IDs))
	for _, b := range m.Bases {
		n += sizeUint(b)
	}
	last := uint64(0)
	for _, id := range m.IDs {
		n += sizeUint(zigzag(int64(id - last)))
		last = id
	}
	return n
}

// ParseSave reads a message that AppendSave wrote.
func ParseSave(src []byte, m *Save) error {
	p := parser{msg: "Save", src: src}
	m.Session = p.u64("Session")
	m.Seq = p.u64("Seq")
	bases := p.count("Bases", MaxSavers, 1)
	ids := p.count("IDs", MaxSaves, 1)
	m.Bases, m.IDs = resize(m.Bases, bases), resize(m.IDs, ids)
	for i := range m.Bases {
		if m.Bases[i] = p.uvarint("Bases"); m.Bases[i] > maxDimProduct {
			p.fail("Bases", "%d is not within a file", m.Bases[i])
		}
	}
	last := uint64(0)
	for i := range m.IDs {
		last += uint64(p.varint("IDs"))
		m.IDs[i] = last
	}
	return p.end()
}
