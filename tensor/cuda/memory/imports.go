package memory

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// ImportOptions are the choices of NewImports; nil means all defaults.
type ImportOptions struct {
	// MaxSegments bounds how many segments one owner may have here, 1024: each takes
	// addresses of the device.
	MaxSegments int

	// Others allows segments of other devices that this one reaches, see Device.Reaches.
	Others bool
}

// Imports are the segments of other processes that are open here, each under the owner
// that sent its Export. Ids are looked up together with the owner, so that no peer
// reaches another's memory by naming it. All methods may be called concurrently.
type Imports struct {
	dev    *Device
	max    int
	others bool

	mu       sync.RWMutex
	segments map[importKey]*imported
	counts   map[uint64]int // segments of each owner
}

type importKey struct{ owner, id uint64 }

// imported is an open segment of another process.
type imported struct {
	export Export
	at     driver.DevicePtr
	mapped uint64 // of Descriptors
}

// NewImports returns an empty table.
func (d *Device) NewImports(o *ImportOptions) *Imports {
	t := &Imports{dev: d, max: 1024, segments: map[importKey]*imported{}, counts: map[uint64]int{}}
	if o != nil {
		t.max, t.others = cmp.Or(max(o.MaxSegments, 0), t.max), o.Others
	}
	return t
}

// Add opens a segment that owner sent. f is the descriptor that came along, and stays the
// caller's. Adding the same export again does nothing. ErrBadExport; shm.ErrExists for
// another segment of an id that the owner has used; shm.ErrNoSpace beyond MaxSegments.
func (t *Imports) Add(owner uint64, e Export, f *os.File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := importKey{owner, e.Segment}
	if old := t.segments[key]; old != nil {
		if old.export == e {
			return nil
		}
		return fmt.Errorf("%w: %016x of owner %d", shm.ErrExists, e.Segment, owner)
	}
	if t.counts[owner] >= t.max {
		return fmt.Errorf("%w: owner %d has %d segments, at most %d", shm.ErrNoSpace, owner, t.counts[owner], t.max)
	}
	if t.others {
		if err := t.dev.Reaches(e.Device); err != nil {
			return fmt.Errorf("%w: segment %016x of owner %d: %w", ErrBadExport, e.Segment, owner, err)
		}
	} else if e.Device != t.dev.info.UUID {
		return fmt.Errorf("%w: of device %x, this process uses %x", ErrBadExport, e.Device, t.dev.info.UUID)
	}
	if (e.Kind == Descriptors) != (f != nil) {
		return fmt.Errorf("%w: %v, descriptor %v", ErrBadExport, e.Kind, f != nil)
	}
	s := &imported{export: e}
	err := t.dev.Do(func() error {
		if e.Kind == Descriptors {
			return t.dev.openDescriptor(s, f)
		}
		return t.dev.openHandle(s)
	})
	switch {
	case errors.Is(err, ErrLost), errors.Is(err, ErrBadExport):
		return err
	case err != nil:
		return fmt.Errorf("%w: segment %016x of owner %d: %w", ErrBadExport, e.Segment, owner, err)
	}
	t.dev.opens.Add(1)
	t.segments[key] = s
	t.counts[owner]++
	return nil
}

// openHandle opens the allocation of a handle, which must have at least the bytes that
// the exporter says.
func (d *Device) openHandle(s *imported) error {
	at, err := d.api.IPCOpenMemory(s.export.Handle)
	if err != nil {
		return err
	}
	base, bytes, err := d.api.AddressRange(at)
	if err == nil && (base != at || bytes < s.export.Size) {
		err = fmt.Errorf("%w: the handle is of %d bytes, expected %d", ErrBadExport, bytes, s.export.Size)
	}
	if err != nil {
		return errors.Join(err, d.api.IPCCloseMemory(at))
	}
	s.at = at
	return nil
}

// openDescriptor maps the memory of a descriptor. The driver refuses to map more than
// there is.
func (d *Device) openDescriptor(s *imported, f *os.File) error {
	granule, err := d.api.VirtualGranularity(d.device)
	if err != nil {
		return err
	}
	m, err := d.api.VirtualImport(int(f.Fd()))
	if err != nil {
		return err
	}
	s.mapped = (s.export.Size + granule - 1) / granule * granule
	s.at, err = d.mapped(m, s.mapped, driver.AccessReadWrite)
	return errors.Join(err, d.api.VirtualRelease(m))
}

// Resolve returns where the memory that the owner's handle names lies on the device. It
// is valid until the segment is removed. shm.ErrUnknownSegment, shm.ErrBounds.
func (t *Imports) Resolve(owner uint64, h shm.Handle) (driver.DevicePtr, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.segments[importKey{owner, h.Segment}]
	if s == nil {
		return 0, fmt.Errorf("%w: %v of owner %d", shm.ErrUnknownSegment, h, owner)
	}
	if h.Off > s.export.Size || h.Len > s.export.Size-h.Off {
		return 0, fmt.Errorf("%w: %v of owner %d, segment of %d bytes", shm.ErrBounds, h, owner, s.export.Size)
	}
	return s.at + driver.DevicePtr(h.Off), nil
}

// Remove closes a segment after all work of the device, which may read it. If the driver
// can't wait for that, the segment stays, and Remove may be called again.
// shm.ErrUnknownSegment.
func (t *Imports) Remove(owner, id uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := importKey{owner, id}
	if t.segments[key] == nil {
		return fmt.Errorf("%w: %016x of owner %d", shm.ErrUnknownSegment, id, owner)
	}
	return t.remove(key)
}

// remove is called with mu.
func (t *Imports) remove(key importKey) error {
	s, idle := t.segments[key], false
	err := t.dev.Do(func() error {
		if err := t.dev.api.Synchronize(); err != nil {
			return err
		}
		idle = true
		if s.export.Kind == Descriptors {
			return t.dev.unmap(s.at, s.mapped)
		}
		return t.dev.api.IPCCloseMemory(s.at)
	})
	if !idle && !errors.Is(err, ErrLost) {
		return err
	}
	delete(t.segments, key)
	if t.counts[key.owner]--; t.counts[key.owner] == 0 {
		delete(t.counts, key.owner)
	}
	return err
}

// ReleaseOwner closes all segments of an owner, such as one whose process has ended.
// Those stay that Remove would leave.
func (t *Imports) ReleaseOwner(owner uint64) error {
	return t.removeAll(func(k importKey) bool { return k.owner == owner })
}

// Close closes all segments. Those stay that Remove would leave.
func (t *Imports) Close() error { return t.removeAll(func(importKey) bool { return true }) }

func (t *Imports) removeAll(which func(importKey) bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	for k := range t.segments {
		if which(k) {
			err = errors.Join(err, t.remove(k))
		}
	}
	return err
}
