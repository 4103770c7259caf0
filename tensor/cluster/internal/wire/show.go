package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Show asks for a program of a session: the dispatcher passes it to the session's first
// worker, and answers itself where there is none.
//
//	session uint64, ask uint64, of uint64, hash [16]byte, off uint32
type Show struct {
	Session uint64 // 0
	Ask     uint64 // number of the asker, set by the dispatcher; the answer repeats it
	Of      uint64 // the dispatcher's number of the session
	Hash    Hash   // of the program; zero: the one that ran most often
	Off     uint32 // where the part begins that is wanted
}

func (m *Show) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Ask", &m.Ask)
	w.U64("Of", &m.Of)
	w.Fixed("Hash", m.Hash[:])
	w.U32("Off", &m.Off)
}

// Shown answers a Show with a part of the program's encoding.
//
//	session uint64, ask uint64, of uint64, hash [16]byte, total uint32, off uint32,
//	part bytes, workers and programs as uvarints, runs uvarint, name text, worker text
type Shown struct {
	Session  uint64 // 0
	Ask      uint64 // of the Show
	Of       uint64
	Hash     Hash
	Total    uint32 // bytes of the whole program; 0 if there is none
	Off      uint32 // where Part begins in it
	Part     []byte // points into what was parsed
	Workers  uint32 // that run the session together; 0: there is no such session
	Programs uint32 // that the session has
	Runs     uint64 // of this one
	Name     string // of the session
	Worker   string
}

// MaxShown is the most bytes of a part in a Shown.
const MaxShown = 1 << 15

func (m *Shown) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Ask", &m.Ask)
	w.U64("Of", &m.Of)
	w.Fixed("Hash", m.Hash[:])
	w.U32("Total", &m.Total)
	w.U32("Off", &m.Off)
	w.Bytes("Part", &m.Part, MaxShown)
	w.Number("Workers", &m.Workers, MaxWorkers)
	w.Number("Programs", &m.Programs, MaxProgram)
	w.Uvarint("Runs", &m.Runs)
	w.Text("Name", &m.Name, MaxName)
	w.Text("Worker", &m.Worker, MaxName)
	if w.Parses() && (m.Total > MaxProgram || uint64(m.Off)+uint64(len(m.Part)) > uint64(m.Total)) {
		w.Fail("Off", "%d+%d bytes are beyond the total of %d, at most %d", m.Off, len(m.Part), m.Total, MaxProgram)
	}
}
