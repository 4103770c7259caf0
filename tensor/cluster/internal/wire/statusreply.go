package wire

import (
	"slices"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// StatusReply has the dispatcher's counters.
//
//	session uint64, count uvarint, then of each: name text, value uvarint
type StatusReply struct {
	Session  uint64
	Counters Counters
}

// Counters is a list of counters.
type Counters []Counter

// Counter is a named number: "clients", "workers", "messages", "worker.w0.runs".
type Counter struct {
	Name  string
	Value uint64
}

func (m *StatusReply) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	encoding.List(w, "Counters", (*[]Counter)(&m.Counters), MaxCounters, 2)
	m.Counters.walk(w)
}

func (c Counters) walk(w *encoding.Walk) {
	for i := range c {
		w.Text("Counters.Name", &c[i].Name, MaxName)
		w.Uvarint("Counters.Value", &c[i].Value)
	}
}

// Get returns the value of the counter of that name, 0 when there is none.
func (c Counters) Get(name string) uint64 {
	i := slices.IndexFunc(c, func(x Counter) bool { return x.Name == name })
	if i < 0 {
		return 0
	}
	return c[i].Value
}
