package shm

import (
	"cmp"
	"fmt"
	"os"
	"sync"
)

// TableOptions are the choices of NewTable; nil means all defaults.
type TableOptions struct {
	// Writable maps for writing too. By default a peer's memory is read only, so
	// that a stray store here is found here.
	Writable bool

	// Prefault maps all pages when a segment is added.
	Prefault bool

	// Sealed accepts only segments that cannot be shrunk any more, see the package's
	// page. With others a peer that truncates its file ends this process at its next
	// read: only use those of peers whose user is trusted.
	Sealed bool

	// MaxBytes bounds what one owner may have mapped here, 0 is no bound: address
	// space and page tables are ours.
	MaxBytes int64

	// MaxSegments bounds how many segments one owner may have here, 0 is no bound: each
	// costs a mapping, of which a process has a limited number for all owners.
	MaxSegments int

	// OnRelease is called when the last reference to a block of a peer is gone, so
	// that its lease can be given back. Not after the segment was removed.
	OnRelease func(owner uint64, h Handle)
}

// Table is the segments of other processes that are mapped here, each under the
// owner that passed its descriptor. Ids are looked up together with the owner, so
// no peer reaches another's memory by naming it, or takes its id.
//
// A removed segment stays mapped until the last block of it is released: memory does not
// disappear while it is read. All methods may be called concurrently.
type Table struct {
	opt TableOptions

	mu       sync.Mutex
	segments map[tableKey]*foreign
	// what they have mapped, also what was removed and is still read
	owners map[uint64]held
	spare  []*Block
}

// held is what an owner has.
type held struct {
	segments int
	bytes    int64
}

type tableKey struct {
	owner, id uint64
}

// foreign is a peer's segment.
type foreign struct {
	table   *Table
	seg     *Segment
	owner   uint64
	pins    int // blocks that are open
	removed bool
}

// TableStats describes a table at one moment.
type TableStats struct {
	Segments int   // not removed
	Bytes    int64 // of them
}

// NewTable returns an empty table.
func NewTable(o *TableOptions) *Table {
	return &Table{opt: *cmp.Or(o, &TableOptions{}), segments: make(map[tableKey]*foreign), owners: make(map[uint64]held)}
}

// Add maps a segment that owner passed here: its id, descriptor and size in bytes. It
// closes the file, which the mapping does not need; on error the file is still the
// caller's: ErrBadFile, ErrExists, ErrNoSpace when MaxBytes or MaxSegments is reached.
func (t *Table) Add(owner, id uint64, f *os.File, size int64) error {
	if err := t.reserve(tableKey{owner, id}, size); err != nil {
		return err
	}
	seg, err := FromFile(id, f, size, &Options{
		ReadOnly: !t.opt.Writable,
		Prefault: t.opt.Prefault,
		Sealed:   t.opt.Sealed,
	})
	if err == nil {
		seg.file = nil
		_ = f.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.segments[tableKey{owner, id}] != nil {
		err = fmt.Errorf("%w: %016x of owner %d", ErrExists, id, owner)
		seg.Close()
	}
	if err != nil {
		t.unreserve(owner, size)
		return err
	}
	t.segments[tableKey{owner, id}] = &foreign{table: t, seg: seg, owner: owner}
	return nil
}

// reserve counts the bytes of a segment that is about to be mapped.
func (t *Table) reserve(key tableKey, size int64) error {
	if size <= 0 || size > MaxSegment {
		return fmt.Errorf("%w: size %d, expected 1 to %d", ErrBadFile, size, int64(MaxSegment))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.segments[key] != nil {
		return fmt.Errorf("%w: %016x of owner %d", ErrExists, key.id, key.owner)
	}
	have := t.owners[key.owner]
	if t.opt.MaxBytes > 0 && size > t.opt.MaxBytes-have.bytes {
		return fmt.Errorf("%w: owner %d adds %d bytes to %d, at most %d",
			ErrNoSpace, key.owner, size, have.bytes, t.opt.MaxBytes)
	}
	if t.opt.MaxSegments > 0 && have.segments >= t.opt.MaxSegments {
		return fmt.Errorf("%w: owner %d has %d segments, at most %d", ErrNoSpace, key.owner, have.segments, t.opt.MaxSegments)
	}
	t.owners[key.owner] = held{have.segments + 1, have.bytes + size}
	return nil
}

// unreserve is called with mu.
func (t *Table) unreserve(owner uint64, size int64) {
	have := t.owners[owner]
	if have.segments == 1 {
		delete(t.owners, owner)
		return
	}
	t.owners[owner] = held{have.segments - 1, have.bytes - size}
}

// Open returns the memory that the owner's handle names as a block with one
// reference. Until its last Release the memory stays mapped, whatever is removed.
// ErrUnknownSegment, ErrBounds.
func (t *Table) Open(owner uint64, h Handle) (*Block, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, mem, err := t.resolve(owner, h)
	if err != nil {
		return nil, err
	}
	var b *Block
	if n := len(t.spare); n > 0 {
		b = t.spare[n-1]
		t.spare = t.spare[:n-1]
	} else {
		b = &Block{}
	}
	f.pins++
	b.mem, b.handle, b.readOnly = mem, h, !t.opt.Writable
	b.home = f
	b.refs.Store(1)
	return b, nil
}

// Resolve returns the memory that the owner's handle names. It is valid until the segment
// is removed: for callers that hold a block of it, or that alone remove.
func (t *Table) Resolve(owner uint64, h Handle) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, mem, err := t.resolve(owner, h)
	return mem, err
}

func (t *Table) resolve(owner uint64, h Handle) (*foreign, []byte, error) {
	f := t.segments[tableKey{owner, h.Segment}]
	if f == nil {
		return nil, nil, fmt.Errorf("%w: %v of owner %d", ErrUnknownSegment, h, owner)
	}
	if !h.in(uint64(len(f.seg.mem))) {
		return nil, nil, fmt.Errorf("%w: %v, segment of %d bytes", ErrBounds, h, len(f.seg.mem))
	}
	end := h.Off + h.Len
	return f, f.seg.mem[h.Off:end:end], nil
}

// reclaim ends a block that Open returned.
func (f *foreign) reclaim(b *Block) {
	t := f.table
	h := b.handle
	b.mem = nil
	t.mu.Lock()
	f.pins--
	removed, idle := f.removed, f.pins == 0
	if removed && idle {
		t.unreserve(f.owner, f.seg.Size())
	}
	t.spare = append(t.spare, b)
	t.mu.Unlock()
	switch {
	case !removed && t.opt.OnRelease != nil:
		t.opt.OnRelease(f.owner, h)
	case removed && idle:
		f.seg.Close()
	}
}

// Remove forgets a segment, as its owner asks after Trim. ErrUnknownSegment.
func (t *Table) Remove(owner, id uint64) error {
	t.mu.Lock()
	f := t.segments[tableKey{owner, id}]
	if f == nil {
		t.mu.Unlock()
		return fmt.Errorf("%w: %016x of owner %d", ErrUnknownSegment, id, owner)
	}
	idle := t.remove(f)
	t.mu.Unlock()
	if idle {
		return f.seg.Close()
	}
	return nil
}

// ReleaseOwner forgets all segments of an owner that is gone, and returns how many
// there were. Blocks of them that are open stay readable until released.
func (t *Table) ReleaseOwner(owner uint64) int {
	return t.removeAll(func(key tableKey) bool { return key.owner == owner })
}

// Close forgets all segments.
func (t *Table) Close() error {
	t.removeAll(func(tableKey) bool { return true })
	return nil
}

func (t *Table) removeAll(which func(tableKey) bool) int {
	t.mu.Lock()
	n := 0
	var idle []*foreign
	for key, f := range t.segments {
		if which(key) {
			n++
			if t.remove(f) {
				idle = append(idle, f)
			}
		}
	}
	t.mu.Unlock()
	for _, f := range idle {
		f.seg.Close()
	}
	return n
}

// remove takes a segment out of the table and reports whether no block of it is in use,
// so that the caller closes it. Called with mu.
func (t *Table) remove(f *foreign) (idle bool) {
	delete(t.segments, tableKey{f.owner, f.seg.id})
	f.removed = true
	if f.pins > 0 {
		return false
	}
	t.unreserve(f.owner, f.seg.Size())
	return true
}

// Stats returns the state of the table.
func (t *Table) Stats() TableStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := TableStats{Segments: len(t.segments)}
	for _, f := range t.segments {
		st.Bytes += f.seg.Size()
	}
	return st
}
