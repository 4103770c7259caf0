package wire

import (
	"encoding/binary"
	"fmt"
)

// Flags of a Run.
const (
	// RunSync asks for a Done even if nothing is fetched.
	RunSync uint32 = 1 << 0

	// RunTurn asks the session's first worker for a Flow when it begins: the dispatcher holds the session's next Run back until then. It is the
	// dispatcher's to set ([SetTurn]).
	RunTurn uint32 = 1 << 1

	// runPredicted says that the id lists are predicted from the program's last run.
	runPredicted uint32 = 1 << 31
)

// Run has a program run: the message of every step.
//
//	session uint64, seq uint64, hash [16]byte, base uint64, last base uint64, flags uint32,
//	the counts of the lists below, uvarint each,
//	scalars (see scalars.go); inputs, frees and fetch as ids (see AppendIDs);
//	of each upload: id as zigzag(id - base), stage uvarint, layout uint8, own uint8 (0 or 1), value; returns; forget
//
// last base is the base of the run that ids and scalars are predicted from, 0 when they are not.
// With everything predicted a Run is some 50 bytes, 8 for each scalar that changed and 35 for an upload of two dims.
type Run struct {
	Session uint64
	Seq     uint64 // counts the session's runs; a Done names it
	Hash    Hash   // the program; zero when there is none (uploads, frees and fetches alone)
	Base    uint64 // id of the result of the program's instruction 0
	Flags   uint32 // RunSync, RunTurn

	Scalars []float64 // the numbers of the program that change from run to run
	Inputs  []uint64  // ids of the program's external inputs, in its order
	Frees   []uint64  // ids that nobody needs after this run
	Fetch   []uint64  // ids whose values the Done is to carry

	Uploads []Upload // tensors that come into being before the program runs
	Returns []Handle // leases of results that are given back
	Forget  []Hash   // programs that will not be run again
}

// Upload is a tensor of the client's. Its handle's block stays as it is until a Done gives it
// back in Returned.
type Upload struct {
	ID uint64

	// Stage and Layout are how the tensor is to lie on the session's workers where the client knows: the stage's number from 1 in a session
	// with several, and the layout as Result has it. A worker that shares no memory with the client is then sent its part
	// alone. Both 0: the first program that reads it decides.
	Stage  uint32
	Layout uint8

	// Own has workers copy what they need of it, so that the block is given back at once.
	Own bool

	Value
}

const (
	runFlags  = 8 + 8 + HashBytes + 8 + 8 // where flags are
	runFixed  = runFlags + 4
	minUpload = 1 + 1 + 2 + minValue
)

// Lies says that it is known how the tensor is to lie.
func (u *Upload) Lies() bool { return u.Stage != 0 || u.Layout != 0 }

// SetTurn sets RunTurn in the body of a Run. It reports whether there is room for flags.
func SetTurn(body []byte) bool {
	if len(body) < runFixed {
		return false
	}
	flags := body[runFlags:runFixed]
	binary.LittleEndian.PutUint32(flags, binary.LittleEndian.Uint32(flags)|RunTurn)
	return true
}

// prediction returns what m's ids are predicted from.
func (m *Run) prediction(h *History) (r *pastRun, flags uint32) {
	if r = h.find(m.Hash); r == nil {
		return &pastRun{}, m.Flags &^ runPredicted
	}
	return r, m.Flags | runPredicted
}

// AppendRun appends m to dst, predicted from what h remembers. It changes neither: call
// h.Record(m) once the message is committed. A nil h predicts nothing.
func AppendRun(dst []byte, m *Run, h *History) []byte {
	r, flags := m.prediction(h)
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.Seq)
	dst = append(dst, m.Hash[:]...)
	dst = appendU64(dst, m.Base)
	dst = appendU64(dst, r.base)
	dst = appendU32(dst, flags)
	dst = appendCount(dst, len(m.Scalars))
	dst = appendCount(dst, len(m.Inputs))
	dst = appendCount(dst, len(m.Frees))
	dst = appendCount(dst, len(m.Fetch))
	dst = appendCount(dst, len(m.Uploads))
	dst = appendCount(dst, len(m.Returns))
	dst = appendCount(dst, len(m.Forget))
	dst = appendScalars(dst, r.lastScalars(len(m.Scalars)), m.Scalars)
	dst = AppendIDs(dst, r.base, r.inputs, m.Base, m.Inputs)
	dst = AppendIDs(dst, r.base, r.frees, m.Base, m.Frees)
	dst = AppendIDs(dst, r.base, r.fetch, m.Base, m.Fetch)
	for i := range m.Uploads {
		u := &m.Uploads[i]
		dst = appendUint(dst, zigzag(int64(u.ID-m.Base)))
		dst = appendUint(dst, uint64(u.Stage))
		dst = appendBool(append(dst, u.Layout), u.Own)
		dst = appendValue(dst, &u.Value)
	}
	for _, v := range m.Returns {
		dst = v.Append(dst)
	}
	for i := range m.Forget {
		dst = append(dst, m.Forget[i][:]...)
	}
	return dst
}

// Size is the number of bytes that AppendRun writes with the same h.
func (m *Run) Size(h *History) int {
	r, _ := m.prediction(h)
	n := runFixed + sizeCount(len(m.Scalars)) + sizeCount(len(m.Inputs)) + sizeCount(len(m.Frees)) +
		sizeCount(len(m.Fetch)) + sizeCount(len(m.Uploads)) + sizeCount(len(m.Returns)) + sizeCount(len(m.Forget))
	n += sizeScalars(r.lastScalars(len(m.Scalars)), m.Scalars)
	n += SizeIDs(r.base, r.inputs, m.Base, m.Inputs)
	n += SizeIDs(r.base, r.frees, m.Base, m.Frees)
	n += SizeIDs(r.base, r.fetch, m.Base, m.Fetch)
	for i := range m.Uploads {
		u := &m.Uploads[i]
		n += sizeUint(zigzag(int64(u.ID-m.Base))) + sizeUint(uint64(u.Stage)) + 2 + u.Value.size()
	}
	return n + HandleBytes*len(m.Returns) + HashBytes*len(m.Forget)
}

// Check says whether the receiver's limits allow m, for senders that collect without one.
func (m *Run) Check() error {
	for _, c := range [...]struct {
		what     string
		n, limit int
	}{
		{"Scalars", len(m.Scalars), MaxScalars}, {"Inputs", len(m.Inputs), MaxIDs}, {"Frees", len(m.Frees), MaxIDs},
		{"Fetch", len(m.Fetch), MaxIDs}, {"Uploads", len(m.Uploads), MaxUploads},
		{"Returns", len(m.Returns), MaxReturns}, {"Forget", len(m.Forget), MaxForget},
	} {
		if c.n > c.limit {
			return fmt.Errorf("%w: Run.%s: %d are over the limit of %d", ErrMalformed, c.what, c.n, c.limit)
		}
	}
	return nil
}

// ParseRun reads a message that AppendRun wrote with a History that recorded the same runs as
// h. It does not change h: call h.Record(m) when it returned nil. Uploads' inline values point
// into src. ErrHistory when the two histories differ.
func ParseRun(src []byte, m *Run, h *History) error {
	p := parser{msg: "Run", src: src}
	m.Session = p.u64("Session")
	m.Seq = p.u64("Seq")
	m.Hash = p.hash("Hash")
	m.Base = p.u64("Base")
	lastBase := p.u64("LastBase")
	flags := p.u32("Flags")
	m.Flags = flags &^ runPredicted
	if m.Flags&^(RunSync|RunTurn) != 0 {
		p.fail("Flags", "%#x has unknown bits", flags)
	}
	scalars := p.count("Scalars", MaxScalars, 0) // predicted scalars take a bit
	inputs := p.count("Inputs", MaxIDs, 0)       // predicted ids take no bytes
	frees := p.count("Frees", MaxIDs, 0)
	fetch := p.count("Fetch", MaxIDs, 0)
	uploads := p.count("Uploads", MaxUploads, minUpload)
	returns := p.count("Returns", MaxReturns, HandleBytes)
	forget := p.count("Forget", MaxForget, HashBytes)
	if p.err != nil {
		return p.err
	}
	var last pastRun
	if flags&runPredicted != 0 {
		r := h.find(m.Hash)
		if r == nil || r.base != lastBase {
			return fmt.Errorf("%w: program %x, base %d", ErrHistory, m.Hash, lastBase)
		}
		last = *r
	}
	m.Scalars = p.scalars(last.lastScalars(scalars), scalars, m.Scalars)
	m.Inputs = p.ids("Inputs", &last, last.inputs, m.Base, inputs, m.Inputs)
	m.Frees = p.ids("Frees", &last, last.frees, m.Base, frees, m.Frees)
	m.Fetch = p.ids("Fetch", &last, last.fetch, m.Base, fetch, m.Fetch)
	if p.err == nil {
		m.Uploads = resize(m.Uploads, uploads)
		for i := range m.Uploads {
			u := &m.Uploads[i]
			u.ID = m.Base + uint64(p.varint("Uploads.ID"))
			if n := p.uvarint("Uploads.Stage"); n <= MaxWorkers {
				u.Stage = uint32(n)
			} else {
				p.fail("Uploads.Stage", "%d, there are at most %d", n, MaxWorkers)
			}
			u.Layout = p.u8("Uploads.Layout")
			u.Own = p.bool("Uploads.Own")
			p.value("Uploads", &u.Value)
			if u.Elsewhere {
				p.fail("Uploads", "value %d without bytes", u.ID)
			}
		}
	}
	m.Returns = p.handles("Returns", returns, m.Returns)
	m.Forget = resize(m.Forget, forget)
	for i := range m.Forget {
		m.Forget[i] = p.hash("Forget")
	}
	return p.end()
}

func (p *parser) ids(field string, r *pastRun, last []uint64, base uint64, n int, dst []uint64) []uint64 {
	if p.err != nil {
		return dst[:0]
	}
	ids, rest, err := ParseIDs(p.src[p.off:], r.base, last, base, n, dst)
	if err != nil {
		p.err = fmt.Errorf("in Run.%s: %w", field, err)
		return dst[:0]
	}
	p.off = len(p.src) - len(rest)
	return ids
}
