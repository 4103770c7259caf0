package wire

import "github.com/ringside-go/ringside/ipc/wire"

// StatusReply has the dispatcher's counters.
//
//	session uint64, count uvarint, then of each: name text, value uvarint
type StatusReply struct {
	Session  uint64
	Counters []Counter
}

// Counter is a named number: "clients", "workers", "messages", "worker.w0.runs".
type Counter struct {
	Name  string
	Value uint64
}

func (m *StatusReply) walk(w *wire.Walk) {
	w.U64("Session", &m.Session)
	wire.List(w, "Counters", &m.Counters, MaxCounters, 2)
	walkCounters(w, m.Counters)
}

func walkCounters(w *wire.Walk, counters []Counter) {
	for i := range counters {
		w.Text("Counters.Name", &counters[i].Name, MaxName)
		w.Uvarint("Counters.Value", &counters[i].Value)
	}
}
