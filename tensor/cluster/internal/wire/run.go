package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Flags of a Run.
const (
	// RunSync asks for a Done even if nothing is fetched.
	RunSync uint32 = 1 << 0

	// RunTurn asks the session's first worker for a Flow when the run begins: until then
	// the dispatcher holds back the session's next Run. The dispatcher sets it
	// ([SetTurn]). It is not a turn of package turn: it serves sessions that have none.
	RunTurn uint32 = 1 << 1

	// runPredicted says that the id lists are predicted from the program's last run.
	runPredicted uint32 = 1 << 31
)

// Run asks for a program to be run: the message of every step.
//
//	session uint64, seq uint64, hash [16]byte, base uint64, last base uint64,
//	flags uint32,
//	the counts of the lists below, uvarint each,
//	scalars (see scalars.go); inputs, frees and fetch as ids (see AppendIDs);
//	of each upload: id as zigzag(id - base), stage uvarint, layout uint8,
//	own uint8 (0 or 1), value;
//	returns; forget
//
// last base is the base of the run that ids and scalars are predicted from, 0 when they
// are not. With everything predicted a Run is some 50 bytes, 8 for each scalar that
// changed and 35 for an upload of two dims.
type Run struct {
	Session uint64
	Seq     uint64 // counts the session's runs; a Done names it
	Hash    Hash   // the program; zero: there is none (uploads, frees and fetches alone)
	Base    uint64 // id of the result of the program's instruction 0
	Flags   uint32 // RunSync, RunTurn

	Scalars []float64 // the numbers of the program that change from run to run
	Inputs  []uint64  // ids of the program's external inputs, in its order
	Frees   []uint64  // ids that the client does not use after this run
	Fetch   []uint64  // ids whose values the Done carries

	Uploads []Upload // tensors that exist before the program runs
	Returns []Handle // leases of results that the client gives back
	Forget  []Hash   // programs that will not be run again
}

// Upload is a tensor that the client made. The client does not change the handle's block
// until a Done gives it back in Returned.
type Upload struct {
	ID uint64

	// Stage and Layout say how the tensor lies on the session's workers, where the client
	// knows: the stage's number from 1 in a session with several, and the layout as
	// Result has it. A worker that shares no memory with the client then receives its
	// part alone. Both 0: the first program that reads the tensor decides.
	Stage  uint32
	Layout uint8

	// Own asks workers to copy their parts, so that the block is given back at once.
	Own bool

	Value
}

const (
	runFlags  = 8 + 8 + HashBytes + 8 + 8 // offset of the flags
	runFixed  = runFlags + 4
	minUpload = 1 + 1 + 2 + minValue
)

// Lies reports whether u says how the tensor lies.
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

func (m *Run) walk(w *encoding.Walk, h *History) {
	w.U64("Session", &m.Session)
	w.U64("Seq", &m.Seq)
	w.Fixed("Hash", m.Hash[:])
	w.U64("Base", &m.Base)
	past := m.walkPast(w, h)
	encoding.List(w, "Scalars", &m.Scalars, MaxScalars, 0) // predicted ones take a bit
	encoding.List(w, "Inputs", &m.Inputs, MaxIDs, 0)       // predicted ones take no bytes
	encoding.List(w, "Frees", &m.Frees, MaxIDs, 0)
	encoding.List(w, "Fetch", &m.Fetch, MaxIDs, 0)
	encoding.List(w, "Uploads", &m.Uploads, MaxUploads, minUpload)
	encoding.List(w, "Returns", &m.Returns, MaxReturns, HandleBytes)
	encoding.List(w, "Forget", &m.Forget, MaxForget, HashBytes)
	if w.Err() != nil {
		return
	}
	walkScalars(w, past.lastScalars(len(m.Scalars)), m.Scalars)
	walkIDs(w, "Inputs", past.base, past.inputs, m.Base, m.Inputs)
	walkIDs(w, "Frees", past.base, past.frees, m.Base, m.Frees)
	walkIDs(w, "Fetch", past.base, past.fetch, m.Base, m.Fetch)
	for i := range m.Uploads {
		m.Uploads[i].walk(w, m.Base)
	}
	walkHandles(w, "Returns", m.Returns)
	for i := range m.Forget {
		w.Fixed("Forget", m.Forget[i][:])
	}
}

// nothing is the run that an unpredicted one is predicted from.
var nothing = new(pastRun)

// walkPast visits the last base and the flags, and returns the run that m is predicted
// from.
func (m *Run) walkPast(w *encoding.Walk, h *History) *pastRun {
	past := h.find(m.Hash)
	lastBase, flags := uint64(0), m.Flags&^runPredicted
	if past != nil {
		lastBase, flags = past.base, flags|runPredicted
	}
	w.U64("LastBase", &lastBase)
	w.U32("Flags", &flags)
	if w.Parses() {
		if m.Flags = flags &^ runPredicted; m.Flags&^(RunSync|RunTurn) != 0 {
			w.Fail("Flags", "%#x has unknown bits", flags)
		}
		switch {
		case flags&runPredicted == 0:
			past = nil
		case past == nil || past.base != lastBase:
			w.Abort(fmt.Errorf("%w: program %x, base %d", ErrHistory, m.Hash, lastBase))
		}
	}
	if past == nil {
		return nothing
	}
	return past
}

func (u *Upload) walk(w *encoding.Walk, base uint64) {
	w.Delta("Uploads.ID", &u.ID, base)
	w.Number("Uploads.Stage", &u.Stage, MaxWorkers)
	w.U8("Uploads.Layout", &u.Layout)
	w.Bool("Uploads.Own", &u.Own)
	u.Value.walk(w, "Uploads")
	if w.Parses() && u.Elsewhere {
		w.Fail("Uploads", "value %d without bytes", u.ID)
	}
}

// AppendRun appends m to dst, predicted from the runs that h remembers. It changes
// neither: the caller calls h.Record(m) once the message is committed. A nil h predicts
// nothing.
func AppendRun(dst []byte, m *Run, h *History) []byte {
	return m.append(dst, h)
}

// ParseRun parses a message that AppendRun wrote with a History that recorded the same
// runs as h. It does not change h: the caller calls h.Record(m) when it returned nil.
// Uploads' inline values point into src. The error is ErrHistory when the two histories
// differ.
func ParseRun(src []byte, m *Run, h *History) error {
	w := encoding.Parsing("Run", src)
	m.walk(&w, h)
	return w.End()
}
