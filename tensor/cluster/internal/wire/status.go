package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Status asks the dispatcher for its counters.
//
//	session uint64, trainings bool
type Status struct {
	Session   uint64
	Trainings bool // before the counters, also a Training for each run that it knows
}

func (m *Status) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Bool("Trainings", &m.Trainings)
}
