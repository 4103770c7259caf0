package wire

import (
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/tensor/device"
)

// Device tells the dispatcher what a worker computes on. It is a worker's first message:
// until it has come, no session is placed on the worker. The worker sends it again when
// the memory that its values use has changed by much, and when a program begins or ceases
// to be one that runs long.
//
// It is no part of the greeting, because it is sent again, and because transports know of
// no devices.
//
//	session uint64, kind uint8, id [16]byte, bytes uint64, used uint64, busy bool,
//	last uint64, flops float64, bandwidth float64, name text
type Device struct {
	Session uint64 // 0
	Info    device.Info
	Used    uint64 // bytes of values
	Busy    bool   // a program has run for so long that other sessions wait
	Last    uint64 // greatest number of a session so far, over all dispatchers
}

func (m *Device) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U8("Kind", (*uint8)(&m.Info.Kind))
	w.Fixed("ID", m.Info.ID[:])
	w.U64("Bytes", &m.Info.Bytes)
	w.U64("Used", &m.Used)
	w.Bool("Busy", &m.Busy)
	w.U64("Last", &m.Last)
	w.F64("Flops", &m.Info.Flops)
	w.F64("Bandwidth", &m.Info.Bandwidth)
	w.Text("Name", &m.Info.Name, MaxName)
	if w.Parses() {
		checkSpeed(w, m.Info.Flops, m.Info.Bandwidth)
	}
	if w.Parses() && m.Last > MaxSession {
		w.Fail("Last", "%d, want at most %d", m.Last, uint64(MaxSession))
	}
}

// checkSpeed fails a message that was parsed unless both speeds are numbers of at least
// 0.
func checkSpeed(w *encoding.Walk, flops, bandwidth float64) {
	if !(flops >= 0 && bandwidth >= 0) {
		w.Fail("Flops", "%v and a bandwidth of %v, want numbers of at least 0", flops, bandwidth)
	}
}
