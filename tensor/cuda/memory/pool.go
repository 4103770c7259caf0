package memory

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// align is what blocks begin at a multiple of, for vector loads and their coalescing.
const align = 256

// Kind is how a segment can be given to other processes.
type Kind uint8

// The kinds of segments. Their numbers travel between processes.
const (
	// Handles are plain allocations: 64 bytes name one in processes of the same PID
	// namespace.
	Handles Kind = 1
	// Descriptors are mapped memory, which a file descriptor names in any process.
	Descriptors Kind = 2
)

// String returns the kind's name.
func (k Kind) String() string {
	if k == Handles || k == Descriptors {
		return [...]string{Handles: "handles", Descriptors: "descriptors"}[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Pool hands out blocks of a device's memory. All methods may be called concurrently.
type Pool struct {
	dev   *Device
	kind  Kind
	arena *shm.Arena

	mu       sync.RWMutex
	segments map[uint64]*segment
	failed   error // of freeing segments
}

// segment is an allocation of a pool.
type segment struct {
	at     driver.DevicePtr
	size   uint64
	mapped uint64   // of Descriptors: size in whole granules
	file   *os.File // of Descriptors: the memory
	export *Export  // nil before the first
	holds  int      // of Hold
}

// NewPool returns an empty pool. The first Alloc makes its first segment.
func (d *Device) NewPool(k Kind) (*Pool, error) {
	p := &Pool{dev: d, kind: k, segments: map[uint64]*segment{}}
	var err error
	p.arena, err = shm.NewArena(&shm.ArenaOptions{
		Segment: shm.Options{Backing: shm.Reserved}, First: d.opt.Segment, Growth: d.opt.Growth, TrimAll: true,
		NewSegment: p.newSegment, FreeSegment: p.freeSegment,
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pools[p] = struct{}{}
	return p, nil
}

// Arena returns the books of the pool: leases, blocks by handle, counters.
func (p *Pool) Arena() *shm.Arena { return p.arena }

// Size returns how many bytes a block has that Alloc returns for n.
func Size(n int) int {
	if n <= 4*align { // the arena's larger classes are multiples already
		n = max(align, 1<<bits.Len(uint(max(n, 1)-1)))
	}
	return n
}

// Alloc returns a block of at least n bytes with one reference. It begins at a multiple
// of 256 bytes. shm.ErrNoSpace is returned when the device has no memory even after its
// unused segments were given back.
func (p *Pool) Alloc(n int) (*shm.Block, error) {
	n = Size(n)
	b, err := p.arena.Alloc(n)
	if !errors.Is(err, shm.ErrNoSpace) {
		return b, err
	}
	if e := p.dev.reclaim(); e != nil {
		return nil, e
	}
	return p.arena.Alloc(n)
}

// Address returns where a block of the pool lies on the device. The caller holds the
// block.
func (p *Pool) Address(b *shm.Block) driver.DevicePtr {
	h := b.Handle()
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.segments[h.Segment].at + driver.DevicePtr(h.Off)
}

// Hold keeps the segment with that id although nothing may be in it, for processes that
// have opened it, until Unhold was called as often. The caller holds a block of the
// segment.
func (p *Pool) Hold(id uint64) { p.hold(id, 1) }

// Unhold undoes Hold: no other process has the segment open on that account.
func (p *Pool) Unhold(id uint64) { p.hold(id, -1) }

func (p *Pool) hold(id uint64, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.segments[id]; s != nil {
		s.holds += n
	}
}

// trim gives back the segments that nothing is in, but for those that are held.
func (p *Pool) trim() {
	p.arena.TrimExcept(func(id uint64) bool {
		p.mu.RLock()
		defer p.mu.RUnlock()
		s := p.segments[id]
		return s != nil && s.holds > 0
	})
}

// newSegment makes the memory behind a segment of the arena.
func (p *Pool) newSegment(id uint64, size int64) error {
	s := &segment{size: uint64(size)}
	err := p.dev.Do(func() error {
		if p.kind == Descriptors {
			return p.dev.mapMemory(s)
		}
		var err error
		s.at, err = p.dev.api.Alloc(s.size)
		return err
	})
	if errors.Is(err, driver.OutOfMemory) {
		return fmt.Errorf("%w: %d bytes on %s: %w", shm.ErrNoSpace, size, p.dev.info.Name, err)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.segments[id] = s
	return nil
}

// mapMemory makes memory that has a descriptor and maps it.
func (d *Device) mapMemory(s *segment) (err error) {
	granule, err := d.api.VirtualGranularity(d.device)
	if err != nil {
		return err
	}
	s.mapped = (s.size + granule - 1) / granule * granule
	m, err := d.api.VirtualCreate(d.device, s.mapped)
	if err != nil {
		return err
	}
	fd, err := d.api.VirtualExport(m)
	if err == nil {
		s.file = os.NewFile(uintptr(fd), "device memory")
		s.at, err = d.mapped(m, s.mapped, driver.AccessReadWrite)
	}
	err = errors.Join(err, d.api.VirtualRelease(m)) // the mapping keeps it
	if err != nil && s.file != nil {
		s.file.Close()
	}
	return err
}

// mapped maps memory at new addresses.
func (d *Device) mapped(m driver.Memory, n uint64, a driver.Access) (driver.DevicePtr, error) {
	at, err := d.api.VirtualReserve(n)
	if err != nil {
		return 0, err
	}
	if err := d.api.VirtualMap(at, n, m); err != nil {
		return 0, errors.Join(err, d.api.VirtualFree(at, n))
	}
	if err := d.api.VirtualAccess(at, n, d.device, a); err != nil {
		return 0, errors.Join(err, d.unmap(at, n))
	}
	return at, nil
}

// unmap undoes mapped.
func (d *Device) unmap(at driver.DevicePtr, n uint64) error {
	return errors.Join(d.api.VirtualUnmap(at, n), d.api.VirtualFree(at, n))
}

// freeSegment gives the memory of a segment back.
func (p *Pool) freeSegment(seg *shm.Segment) {
	p.mu.Lock()
	s := p.segments[seg.ID()]
	delete(p.segments, seg.ID())
	p.mu.Unlock()
	err := p.dev.Do(func() error {
		if s.file == nil {
			return p.dev.api.Free(s.at)
		}
		// Unlike Free, unmapping doesn't wait for work of the device.
		return errors.Join(p.dev.api.Synchronize(), p.dev.unmap(s.at, s.mapped))
	})
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
}

// Close ends the pool. A segment goes with its last block, at once where there is none.
// The error is that of all segments that could not be given back.
func (p *Pool) Close() error {
	p.dev.mu.Lock()
	delete(p.dev.pools, p)
	p.dev.mu.Unlock()
	err := p.arena.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.failed)
}
