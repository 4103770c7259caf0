package memory

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Export describes a segment to another process. It is a capability: the holder can
// write all of the segment.
type Export struct {
	Segment uint64 // its id
	Size    uint64 // bytes
	Device  driver.UUID
	Kind    Kind
	Handle  driver.IPCHandle // of Handles; a descriptor travels beside the Export
}

// ExportSize is the number of bytes of an encoded Export.
const ExportSize = 8 + 8 + 16 + 1 + 64

// Append appends the encoded export to b: its fields in their order, numbers little
// endian.
func (e *Export) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.Segment)
	b = binary.LittleEndian.AppendUint64(b, e.Size)
	b = append(b, e.Device[:]...)
	b = append(b, byte(e.Kind))
	return append(b, e.Handle[:]...)
}

// ParseExport decodes an export that another process sent. Imports.Add checks the rest of
// it. ErrBadExport.
func ParseExport(b []byte) (Export, error) {
	var e Export
	if len(b) != ExportSize {
		return e, fmt.Errorf("%w: %d bytes, expected %d", ErrBadExport, len(b), ExportSize)
	}
	e.Segment, e.Size, e.Kind = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), Kind(b[32])
	copy(e.Device[:], b[16:])
	copy(e.Handle[:], b[33:])
	if e.Kind != Handles && e.Kind != Descriptors {
		return e, fmt.Errorf("%w: %v, expected %v or %v", ErrBadExport, e.Kind, Handles, Descriptors)
	}
	if e.Size == 0 || e.Size > shm.MaxSegment {
		return e, fmt.Errorf("%w: segment of %d bytes, expected 1 to %d", ErrBadExport, e.Size, int64(shm.MaxSegment))
	}
	return e, nil
}

// Export describes the segment with that id to other processes, and returns the
// descriptor to send along, which is nil for Handles and stays the pool's. The driver is
// called once a segment. The caller holds a block of the segment.
// shm.ErrUnknownSegment.
func (p *Pool) Export(id uint64) (Export, *os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.segments[id]
	if s == nil {
		return Export{}, nil, fmt.Errorf("%w: %016x", shm.ErrUnknownSegment, id)
	}
	if s.export == nil {
		e := Export{Segment: id, Size: s.size, Device: p.dev.info.UUID, Kind: p.kind}
		if p.kind == Handles {
			err := p.dev.Do(func() (err error) {
				e.Handle, err = p.dev.api.IPCGetMemory(s.at)
				return err
			})
			if err != nil {
				return Export{}, nil, fmt.Errorf("exporting a segment of %d bytes: %w", s.size, err)
			}
		}
		s.export = &e
	}
	return *s.export, s.file, nil
}
