package wire

// Data carries bytes of a block between two ends that share no memory: of an upload, before the Run that names it, or
// of a result, as an answer to Read. Those of a block come in order and without gaps.
//
//	session uint64, handle, offset uint64, part bytes
type Data struct {
	Session uint64
	Handle  Handle // of the whole block, as it is called where it came from
	Off     uint64 // of part in it
	Part    []byte // at most MaxPart, and within the block
}

// MaxPart is the most bytes of a block that one message carries: two fit into the smallest queue that a
// dispatcher has, beside one that is being read.
const MaxPart = 128 << 10

const dataFixed = 8 + HandleBytes + 8

// AppendData appends m to dst.
func AppendData(dst []byte, m *Data) []byte {
	return appendBytes(appendU64(m.Handle.Append(appendU64(dst, m.Session)), m.Off), m.Part)
}

// Size is the number of bytes AppendData writes.
func (m *Data) Size() int { return dataFixed + sizeBytes(m.Part) }

// ParseData reads a message that AppendData wrote. Part points into src.
func ParseData(src []byte, m *Data) error {
	p := parser{msg: "Data", src: src}
	m.Session = p.u64("Session")
	m.Handle = p.handle("Handle")
	m.Off = p.u64("Off")
	m.Part = p.bytes("Part", MaxPart)
	p.within(m.Handle, m.Off, uint64(len(m.Part)))
	return p.end()
}

// within checks that n bytes at off lie in the block that h names.
func (p *parser) within(h Handle, off, n uint64) {
	if p.err == nil && (n > MaxPart || off > h.Len || n > h.Len-off) {
		p.fail("Part", "%d bytes at %d of a block of %d, expected at most %d within it", n, off, h.Len, MaxPart)
	}
}
