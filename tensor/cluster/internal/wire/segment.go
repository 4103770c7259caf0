package wire

import (
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/shm"
)

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

func (m *Segment) walk(w *encoding.Walk) {
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

// MapSegment maps the segment that m announces, for owner. The table takes over m's
// descriptor.
func MapSegment(table *shm.Table, owner uint64, m *ipc.Message) error {
	var seg Segment
	if err := Parse(m.Body, &seg); err != nil {
		return err
	}
	if seg.Memory != MemoryHost || len(m.Files) != 1 || seg.Bytes > shm.MaxSegment {
		return fmt.Errorf("segment %016x of %d bytes, memory %d, with %d descriptors; expected host memory with one",
			seg.ID, seg.Bytes, seg.Memory, len(m.Files))
	}
	if err := table.Add(owner, seg.ID, m.Files[0], int64(seg.Bytes)); err != nil {
		return fmt.Errorf("segment %016x: %w", seg.ID, err)
	}
	m.Files = nil
	return nil
}
