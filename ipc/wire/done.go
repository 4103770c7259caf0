package wire

// Done answers a Run.
//
//	session uint64, seq uint64, code uint32, rank, calls, moved, plans, took and hidden as uvarints, text, at uvarint,
//	if at is not 0: op text, inputs text;
//	results uvarint, returned uvarint,
//	then of each result: id uvarint (as the difference to the result before), layout uvarint, value;
//	then the returned handles
type Done struct {
	Session  uint64
	Seq      uint64 // of the Run
	Code     Code
	Rank     uint32 // which of the session's workers answers
	Calls    uint64 // collectives that it took part in since the session began
	Moved    uint64 // bytes that it sent in them
	Plans    uint64 // programs that it rewrote; the others were known
	Took     uint64 // nanoseconds that collectives ran
	Hidden   uint64 // of these, while it did something else
	Text     string // why not, at most MaxText bytes (see CutText); empty when Code is CodeOK
	At       uint32 // 1 + the index of the instruction that failed; 0: none did, or it is not known
	Op       string // of that instruction, at most MaxName bytes; empty when At is 0
	Inputs   string // dtypes and shapes of its arguments, at most MaxText bytes; empty when At is 0
	Results  []Result
	Returned []Handle // blocks of uploads that the worker no longer uses
}

// Result is a tensor that the Run asked for. A handle in it is leased: it comes back in
// Returns of a later Run.
//
// Of a session with several workers the dims are those of the whole. Layout says which part of it the value is: for each
// dim of the session's mesh four bits, the first in the lowest, 0 for whole and 1+d for a chunk of dim d. A worker that has
// nothing to add, since another has the same part, says Elsewhere.
type Result struct {
	ID     uint64
	Layout uint8
	Value
}

// maxAt is more instructions than MaxProgram bytes hold.
const maxAt = MaxProgram

// AppendDone appends m to dst.
func AppendDone(dst []byte, m *Done) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.Seq)
	dst = appendU32(dst, uint32(m.Code))
	for _, n := range m.counts() {
		dst = appendUint(dst, n)
	}
	dst = appendText(dst, m.Text)
	dst = appendUint(dst, uint64(m.At))
	if m.At != 0 {
		dst = appendText(appendText(dst, m.Op), m.Inputs)
	}
	dst = appendCount(dst, len(m.Results))
	dst = appendCount(dst, len(m.Returned))
	last := uint64(0)
	for i := range m.Results {
		r := &m.Results[i]
		dst = appendUint(dst, zigzag(int64(r.ID-last)))
		dst = appendUint(dst, uint64(r.Layout))
		dst = appendValue(dst, &r.Value)
		last = r.ID
	}
	for _, h := range m.Returned {
		dst = h.Append(dst)
	}
	return dst
}

// Size is the number of bytes AppendDone writes.
func (m *Done) Size() int {
	n := 20 + sizeText(m.Text) + sizeUint(uint64(m.At)) + sizeCount(len(m.Results)) + sizeCount(len(m.Returned))
	for _, c := range m.counts() {
		n += sizeUint(c)
	}
	if m.At != 0 {
		n += sizeText(m.Op) + sizeText(m.Inputs)
	}
	last := uint64(0)
	for i := range m.Results {
		r := &m.Results[i]
		n += sizeUint(zigzag(int64(r.ID-last))) + sizeUint(uint64(r.Layout)) + r.Value.size()
		last = r.ID
	}
	return n + HandleBytes*len(m.Returned)
}

// counts are the numbers between the code and the text.
func (m *Done) counts() [6]uint64 {
	return [6]uint64{uint64(m.Rank), m.Calls, m.Moved, m.Plans, m.Took, m.Hidden}
}

// ParseDone reads a message that AppendDone wrote. Results' inline values point into src.
func ParseDone(src []byte, m *Done) error {
	p := parser{msg: "Done", src: src}
	m.Session = p.u64("Session")
	m.Seq = p.u64("Seq")
	m.Code = Code(p.u32("Code"))
	m.Rank = p.number("Rank", MaxWorkers-1)
	m.Calls = p.uvarint("Calls")
	m.Moved = p.uvarint("Moved")
	m.Plans = p.uvarint("Plans")
	m.Took = p.uvarint("Took")
	m.Hidden = p.uvarint("Hidden")
	m.Text = p.text("Text", MaxText)
	at := p.uvarint("At")
	if at > maxAt {
		p.fail("At", "%d is over the limit of %d", at, maxAt)
	}
	m.At, m.Op, m.Inputs = uint32(at), "", ""
	if at != 0 {
		m.Op = p.text("Op", MaxName)
		m.Inputs = p.text("Inputs", MaxText)
	}
	results := p.count("Results", MaxResults, 2+minValue)
	returned := p.count("Returned", MaxReturns, HandleBytes)
	m.Results = resize(m.Results, results)
	last := uint64(0)
	for i := range m.Results {
		r := &m.Results[i]
		last += uint64(p.varint("Results.ID"))
		r.ID = last
		r.Layout = uint8(p.number("Results.Layout", 255))
		p.value("Results", &r.Value)
	}
	m.Returned = p.handles("Returned", returned, m.Returned)
	return p.end()
}
