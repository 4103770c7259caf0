package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Done answers a Run.
//
//	session uint64, seq uint64, code uint32, rank, calls, moved, plans, took and hidden as
//	uvarints, text, at uvarint,
//	if at is not 0: op text, inputs text;
//	if code is not 0: base uint64, rest uint8 (0 or 1), more uvarint, then of each
//	failure: base uint64, code uint32, rest uint8, text, at, op and inputs as above;
//	results uvarint, returned uvarint,
//	then of each result: id uvarint (as the difference to the result before),
//	layout uvarint, value;
//	then the returned handles
type Done struct {
	Session uint64
	Seq     uint64 // of the Run
	Code    Code
	Rank    uint32 // of the worker
	Calls   uint64 // collectives that it took part in since the session began
	Moved   uint64 // bytes that it sent in them
	Plans   uint64 // programs that it rewrote; the others were known
	Took    uint64 // nanoseconds that collectives ran
	Hidden  uint64 // of these, while it did something else
	// the error, at most MaxText bytes (see CutText); empty when Code is CodeOK
	Text string
	// 1 + the index of the instruction that failed; 0: none did, or not known
	At uint32
	Op string // of that instruction, at most MaxName bytes; empty when At is 0
	// dtypes and shapes of its arguments, at most MaxText bytes; empty when At is 0
	Inputs string
	// the Base of the Run that failed; 0: that of this Run. An engine that computes late
	// tells the failure of an earlier one
	Base     uint64
	Rest     bool      // results that do not depend on the failures exist
	More     []Failure // further failures of that program, and of later ones
	Results  []Result
	Returned []Handle // blocks of uploads that the worker no longer uses
}

// Failure is one more failure that a Done tells. Its fields are as those of Done.
type Failure struct {
	Base   uint64
	Code   Code
	Rest   bool
	Text   string
	At     uint32
	Op     string
	Inputs string
}

// Result is a tensor that the Run asked for. A handle in it is leased: Returns of a later
// Run give it back.
//
// In a session of several workers the dims are those of the whole. Layout says which part
// of it the value is: for each dim of the session's mesh four bits, the first in the
// lowest, 0 for whole and 1+d for a chunk of dim d. A worker that has the same part as
// another sets Elsewhere.
type Result struct {
	ID     uint64
	Layout uint8
	Value
}

// MaxFailures is the most failures that a Done has in More. With texts of MaxMore bytes
// at most they fit into the smallest ring.
const (
	MaxFailures = 64
	MaxMore     = 256
)

const minFailure = 8 + 4 + 1 + 1 + 1

// maxAt is more instructions than MaxProgram bytes hold.
const maxAt = MaxProgram

func (m *Done) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Seq", &m.Seq)
	w.U32("Code", (*uint32)(&m.Code))
	w.Number("Rank", &m.Rank, MaxWorkers-1)
	w.Uvarint("Calls", &m.Calls)
	w.Uvarint("Moved", &m.Moved)
	w.Uvarint("Plans", &m.Plans)
	w.Uvarint("Took", &m.Took)
	w.Uvarint("Hidden", &m.Hidden)
	w.Text("Text", &m.Text, MaxText)
	w.Number("At", &m.At, maxAt)
	switch {
	case m.At != 0:
		w.Text("Op", &m.Op, MaxName)
		w.Text("Inputs", &m.Inputs, MaxText)
	case w.Parses():
		m.Op, m.Inputs = "", ""
	}
	switch {
	case m.Code != CodeOK:
		w.U64("Base", &m.Base)
		w.Bool("Rest", &m.Rest)
		encoding.List(w, "More", &m.More, MaxFailures, minFailure)
		for i := range m.More {
			m.More[i].walk(w)
		}
	case w.Parses():
		m.Base, m.Rest, m.More = 0, false, m.More[:0]
	}
	encoding.List(w, "Results", &m.Results, MaxResults, 2+minValue)
	encoding.List(w, "Returned", &m.Returned, MaxReturns, HandleBytes)
	last := uint64(0)
	for i := range m.Results {
		r := &m.Results[i]
		w.Delta("Results.ID", &r.ID, last)
		last = r.ID
		layout := uint32(r.Layout)
		w.Number("Results.Layout", &layout, 255)
		if w.Parses() {
			r.Layout = uint8(layout)
		}
		r.Value.walk(w, "Results")
	}
	walkHandles(w, "Returned", m.Returned)
}

func (m *Failure) walk(w *encoding.Walk) {
	w.U64("More.Base", &m.Base)
	w.U32("More.Code", (*uint32)(&m.Code))
	w.Bool("More.Rest", &m.Rest)
	w.Text("More.Text", &m.Text, MaxMore)
	w.Number("More.At", &m.At, maxAt)
	switch {
	case m.At != 0:
		w.Text("More.Op", &m.Op, MaxMore)
		w.Text("More.Inputs", &m.Inputs, MaxMore)
	case w.Parses():
		m.Op, m.Inputs = "", ""
	}
}

func walkHandles(w *encoding.Walk, field string, handles []Handle) {
	for i := range handles {
		w.Handle(field, &handles[i])
	}
}
