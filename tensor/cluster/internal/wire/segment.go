package wire

import "github.com/ringside-go/ringside/ipc/wire"

// Kinds of memory that a segment can be.
const (
	MemoryHost uint8 = 0 // a file that the message's descriptor opens; Export is empty
	// reserved: device memory; Export is its CUDA IPC handle; no descriptor
	MemoryCUDA uint8 = 1
)

// Segment announces memory, before the first handle into it.
//
//	session uint64, id uint64, bytes uint64, memory uint8, device uint32, export bytes
type Segment struct {
	Session uint64
	ID      uint64 // as handles name it; drawn at random by its owner
	Bytes   uint64 // its size
	Memory  uint8  // MemoryHost, MemoryCUDA
	Device  uint32 // number of the host's GPU; 0 for host memory
	Export  []byte // at most MaxExport
}

func (m *Segment) walk(w *wire.Walk) {
	w.U64("Session", &m.Session)
	w.U64("ID", &m.ID)
	w.U64("Bytes", &m.Bytes)
	w.U8("Memory", &m.Memory)
	w.U32("Device", &m.Device)
	w.Bytes("Export", &m.Export, MaxExport)
	if w.Parses() && m.Memory > MemoryCUDA {
		w.Fail("Memory", "kind of memory %d is not known", m.Memory)
	}
}
