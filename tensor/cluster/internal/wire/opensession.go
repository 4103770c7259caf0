package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// OpenSession asks for a session. The dispatcher sets Apart, Flops, Bandwidth, Rank, Key
// and Token in what it passes on, and clears Direct where it knows of something against
// it.
//
//	session uint64, quota uint64, apart uint8, direct uint8, kind uint8, mixed uint8,
//	flops float64, bandwidth float64, workers uvarint, rank uvarint, key bytes,
//	token bytes, config bytes, name text
type OpenSession struct {
	Session uint64
	Quota   uint64 // bytes of tensors it may hold; 0: the worker's limit
	// client and worker share no memory: blocks use a connection of their own
	Apart  bool
	Direct bool  // the client takes a connection of its own with its (first) worker
	Kind   uint8 // device.Kind of the workers; 0: any one kind
	Mixed  bool  // the workers may be of several kinds; Kind is 0
	// the speed of the slowest device of the session's workers, as in device.Info; 0: not
	// known. All of them choose layouts by it, so that they choose the same.
	Flops, Bandwidth float64

	Workers uint32 // number of workers that run the session together; 0 and 1: one
	Rank    uint32 // which of them this worker is
	Key     []byte // secret of the connections between the session's workers
	// secret that client and worker share. With Apart that of the connection between
	// them; with Direct they name the session by it to another dispatcher (Held, Resume).
	Token []byte
	// where tensors lie, as tensor/shard/config writes it; empty: whole everywhere
	Config []byte
	Name   string // for status reports
}

func (m *OpenSession) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Quota", &m.Quota)
	w.Bool("Apart", &m.Apart)
	w.Bool("Direct", &m.Direct)
	w.U8("Kind", &m.Kind)
	w.Bool("Mixed", &m.Mixed)
	w.F64("Flops", &m.Flops)
	w.F64("Bandwidth", &m.Bandwidth)
	w.Number("Workers", &m.Workers, MaxWorkers)
	w.Number("Rank", &m.Rank, MaxWorkers-1)
	w.Bytes("Key", &m.Key, MaxKey)
	w.Bytes("Token", &m.Token, MaxKey)
	w.Bytes("Config", &m.Config, MaxConfig)
	w.Text("Name", &m.Name, MaxName)
	if w.Parses() {
		checkSpeed(w, m.Flops, m.Bandwidth)
	}
	if w.Parses() && m.Rank > 0 && m.Rank >= m.Workers {
		w.Fail("Rank", "%d of %d workers", m.Rank, m.Workers)
	}
}
