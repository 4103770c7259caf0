package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Save has the workers of a session write values to files, each worker to its own: file r
// of the message is for rank r. A worker writes its parts of the values one after the
// other, dense and row-major, and answers Saved.
//
//	session uint64, seq uint64, bases uvarint, ids uvarint, then the bases, uvarints,
//	and the ids, as differences to the one before
type Save struct {
	Session uint64
	Seq     uint64   // names it in the answer
	Bases   []uint64 // of each file, by rank: the offset at which its worker begins
	IDs     []uint64
}

// Limits of a Save. MaxSavers is the number of files that a message may have.
const (
	MaxSavers = 16
	MaxSaves  = 1024
)

func (m *Save) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Seq", &m.Seq)
	encoding.List(w, "Bases", &m.Bases, MaxSavers, 1)
	encoding.List(w, "IDs", &m.IDs, MaxSaves, 1)
	for i := range m.Bases {
		if w.Uvarint("Bases", &m.Bases[i]); w.Parses() && m.Bases[i] > maxDimProduct {
			w.Fail("Bases", "%d is not within a file", m.Bases[i])
		}
	}
	last := uint64(0)
	for i := range m.IDs {
		w.Delta("IDs", &m.IDs[i], last)
		last = m.IDs[i]
	}
}
