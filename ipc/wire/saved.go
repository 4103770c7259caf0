package wire

// Saved answers a Save: what one worker wrote, in this order and without gaps.
//
//	session uint64, seq uint64, end uint64, rank uvarint, code uint32, text, pieces uvarint,
//	then of each: index uvarint (as the difference to the piece before), rank uint8, start and dims uvarint each, sum
type Saved struct {
	Session uint64
	Seq     uint64 // of the Save
	End     uint64 // behind what was written in the file
	Rank    uint32 // which of the session's workers answers
	Code    Code
	Text    string // why not, at most MaxText bytes; empty when Code is CodeOK
	Pieces  []Piece
}

// Piece is the part of a value that a worker wrote. What several workers have alike one of them writes.
type Piece struct {
	Index uint32    // of the value in Save.IDs
	Start []int64   // where the part begins in the value, by dim
	Dims  []int64   // the part's own
	Sum   [Sum]byte // SHA-256 of its bytes
}

// Sum is the bytes of a checksum.
const Sum = 32

// AppendSaved appends m to dst.
func AppendSaved(dst []byte, m *Saved) []byte {
	dst = appendUint(appendU64(appendU64(appendU64(dst, m.Session), m.Seq), m.End), uint64(m.Rank))
	dst = appendCount(appendText(appendU32(dst, uint32(m.Code)), m.Text), len(m.Pieces))
	last := uint32(0)
	for i := range m.Pieces {
		x := &m.Pieces[i]
		dst = append(appendUint(dst, uint64(x.Index-last)), byte(len(x.Dims)))
		for _, n := range x.Start {
			dst = appendUint(dst, uint64(n))
		}
		for _, n := range x.Dims {
			dst = appendUint(dst, uint64(n))
		}
		dst = append(dst, x.Sum[:]...)
		last = x.Index
	}
	return dst
}

// Size is the number of bytes AppendSaved writes.
func (m *Saved) Size() int {
	n := 28 + sizeUint(uint64(m.Rank)) + sizeText(m.Text) + sizeCount(len(m.Pieces))
	last := uint32(0)
	for i := range m.Pieces {
		x := &m.Pieces[i]
		n += sizeUint(uint64(x.Index-last)) + 1 + Sum
		for _, d := range x.Start {
			n += sizeUint(uint64(d))
		}
		for _, d := range x.Dims {
			n += sizeUint(uint64(d))
		}
		last = x.Index
	}
	return n
}

// ParseSaved reads a message that AppendSaved wrote.
func ParseSaved(src []byte, m *Saved) error {
	p := parser{msg: "Saved", src: src}
	m.Session = p.u64("Session")
	m.Seq = p.u64("Seq")
	m.End = p.u64("End")
	m.Rank = p.number("Rank", MaxWorkers-1)
	m.Code = Code(p.u32("Code"))
	m.Text = p.text("Text", MaxText)
	m.Pieces = resize(m.Pieces, p.count("Pieces", MaxSaves, 2+Sum))
	last := uint32(0)
	for i := range m.Pieces {
		x := &m.Pieces[i]
		step := p.number("Pieces.Index", MaxSaves-1)
		if i > 0 && step == 0 || last+step >= MaxSaves {
			p.fail("Pieces.Index", "%d after %d, expected a larger one below %d", last+step, last, MaxSaves)
		}
		last += step
		x.Index = last
		rank := int(p.u8("Pieces.Dims"))
		if rank > MaxRank {
			p.fail("Pieces.Dims", "rank %d is over the limit of %d", rank, MaxRank)
			rank = 0
		}
		x.Start, x.Dims = resize(x.Start, rank), resize(x.Dims, rank)
		p.part(x.Start)
		p.part(x.Dims)
		copy(x.Sum[:], p.take("Pieces.Sum", Sum))
	}
	return p.end()
}

// part reads numbers that are within a dim.
func (p *parser) part(dst []int64) {
	for i := range dst {
		n := p.uvarint("Pieces.Dims")
		if n > maxDimProduct {
			p.fail("Pieces.Dims", "%d is more than %d", n, uint64(maxDimProduct))
			n = 0
		}
		dst[i] = int64(n)
	}
}
