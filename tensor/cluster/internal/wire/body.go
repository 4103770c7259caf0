package wire

import (
	"fmt"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Body carries a program, or a part of one that is larger than a message. Parts come in
// order, without other Body messages of the session between them.
//
//	session uint64, hash [16]byte, total uint32, off uint32, part bytes
type Body struct {
	Session uint64
	Hash    Hash
	Total   uint32 // bytes of the whole program, at most MaxProgram
	Off     uint32 // where Part begins in it
	Part    []byte // points into what was parsed
}

// BodyOverhead is the most bytes of a Body beside its part.
const BodyOverhead = 8 + HashBytes + 4 + 4 + 4

func (m *Body) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Fixed("Hash", m.Hash[:])
	w.U32("Total", &m.Total)
	w.U32("Off", &m.Off)
	w.Bytes("Part", &m.Part, MaxProgram)
	if w.Parses() {
		m.check(w)
	}
}

func (m *Body) check(w *encoding.Walk) {
	if m.Total > MaxProgram {
		w.Fail("Total", "%d bytes are over the limit of %d", m.Total, MaxProgram)
	}
	if uint64(m.Off)+uint64(len(m.Part)) > uint64(m.Total) {
		w.Fail("Off", "%d+%d bytes are beyond the total of %d", m.Off, len(m.Part), m.Total)
	}
	if len(m.Part) == 0 && m.Total != 0 {
		w.Fail("Part", "is empty")
	}
}

// Bodies cuts a program into messages of at most limit bytes each (ipc.MaxMessage) and
// calls send for each, in order. It reuses m for the next, and stops at the first error.
func Bodies(session uint64, hash Hash, program []byte, limit int, send func(m *Body) error) error {
	if len(program) > MaxProgram {
		return fmt.Errorf("%w: program of %d bytes is over the limit of %d", ErrMalformed, len(program), MaxProgram)
	}
	step := limit - BodyOverhead
	if step <= 0 {
		return fmt.Errorf("%w: no program fits in messages of %d bytes", ErrMalformed, limit)
	}
	m := Body{Session: session, Hash: hash, Total: uint32(len(program))}
	for {
		m.Part = program[m.Off:min(len(program), int(m.Off)+step)]
		if err := send(&m); err != nil {
			return err
		}
		m.Off += uint32(len(m.Part))
		if m.Off == m.Total {
			return nil
		}
	}
}

// Assembler puts the parts of a session's programs together. The zero value is ready to
// use.
type Assembler struct {
	hash  Hash
	total uint32
	got   []byte
}

// Add takes the next part and returns the whole program once it is complete, else nil.
// The program is valid until the next Add, and is m.Part itself where that is all of it.
// The error is ErrMalformed for a part that does not continue the last one.
func (a *Assembler) Add(m *Body) ([]byte, error) {
	if m.Off == 0 {
		if int(m.Total) == len(m.Part) {
			a.got = a.got[:0]
			return m.Part, nil
		}
		a.hash, a.total, a.got = m.Hash, m.Total, append(a.got[:0], m.Part...)
		return nil, nil
	}
	if len(a.got) == 0 || m.Hash != a.hash || m.Total != a.total || int(m.Off) != len(a.got) {
		return nil, fmt.Errorf("%w: Body of %x: part at %d of %d follows %d bytes of %x, %d in all",
			ErrMalformed, m.Hash, m.Off, m.Total, len(a.got), a.hash, a.total)
	}
	a.got = append(a.got, m.Part...)
	if len(a.got) < int(a.total) {
		return nil, nil
	}
	program := a.got
	a.got = a.got[:0]
	return program, nil
}
