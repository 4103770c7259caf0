package wire

// Kinds of memory that a segment can be.
const (
	MemoryHost uint8 = 0 // a file that the message's descriptor opens; Export is empty
	MemoryCUDA uint8 = 1 // reserved, nobody takes it: device memory; Export is its CUDA IPC handle; no descriptor
)

// Segment announces memory, before the first handle into it.
//
//	session uint64, id uint64, bytes uint64, memory uint8, device uint32, export bytes
type Segment struct {
	Session uint64
	ID      uint64 // what handles call it; drawn at random by its owner
	Bytes   uint64 // its size
	Memory  uint8  // MemoryHost, MemoryCUDA
	Device  uint32 // which GPU of the host; 0 for host memory
	Export  []byte // at most MaxExport
}

// AppendSegment appends m to dst.
func AppendSegment(dst []byte, m *Segment) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.ID)
	dst = appendU64(dst, m.Bytes)
	dst = append(dst, m.Memory)
	dst = appendU32(dst, m.Device)
	return appendBytes(dst, m.Export)
}

// Size is the number of bytes AppendSegment writes.
func (m *Segment) Size() int { return 29 + sizeBytes(m.Export) }

// ParseSegment reads a message that AppendSegment wrote.
func ParseSegment(src []byte, m *Segment) error {
	p := parser{msg: "Segment", src: src}
	m.Session = p.u64("Session")
	m.ID = p.u64("ID")
	m.Bytes = p.u64("Bytes")
	m.Memory = p.u8("Memory")
	m.Device = p.u32("Device")
	m.Export = p.bytes("Export", MaxExport)
	if m.Memory > MemoryCUDA {
		p.fail("Memory", "kind of memory %d is not known", m.Memory)
	}
	return p.end()
}
