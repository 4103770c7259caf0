package shm

import (
	"cmp"
	"fmt"
	"os"
	"sync"
)

const (
	// firstSegment is small enough for a program that shares little.
	firstSegment = 16 << 20

	// maxGrowth ends the doubling: a peer maps whole segments.
	maxGrowth = 256 << 20

	// mangle fills released memory in a checked arena; as a float it is about
	// -1e8 and as an index out of any range.
	mangle = 0xCC
)

// ArenaOptions are the choices of NewArena; nil means all defaults.
type ArenaOptions struct {
	// Segment is how segments are made.
	Segment Options

	// First is the size in bytes of the first segment, 16 MiB; each further one is
	// twice as large up to Growth. A block that is larger than that has a segment
	// of its own size.
	First int64

	// Second, if set, is the least size of every segment but the first, and of that one
	// too if its first block takes more than a quarter of First: more such will come.
	Second int64

	// Growth is the size in bytes at which the doubling ends, 256 MiB.
	Growth int64

	// MaxBytes bounds the segments together; 0 is no bound.
	MaxBytes int64

	// Checked fills released memory with 0xCC and never uses a Block again, so
	// that every use after Release shows. It costs a fill and some garbage.
	Checked bool

	// NewSegment, if set, is called with the id and the size of each new segment, before
	// OnSegment; when it returns an error there is no segment, and Alloc returns the
	// error. A device makes the memory behind a Reserved segment there.
	NewSegment func(id uint64, size int64) error

	// FreeSegment, if set, is called with each segment that the arena gives up, before
	// its addresses are unmapped: by Trim, by Close, or by the last Release after Close.
	FreeSegment func(*Segment)

	// Fill sets the bytes that the handle names to x. A Checked arena of Reserved
	// segments needs it, as it cannot write to them itself; others don't use it.
	Fill func(h Handle, x byte)

	// OnSegment is called with each new segment before the first block of it is
	// returned. No lock is held that Alloc of existing memory needs, but it must
	// not call Alloc itself.
	OnSegment func(*Segment)

	// OnTrim is called with the id of each segment that Trim has let go.
	OnTrim func(id uint64)

	// TrimAll makes Trim give up the first segment as well.
	TrimAll bool
}

// ArenaStats describes an arena at one moment.
type ArenaStats struct {
	Segments int    // mapped
	Bytes    int64  // of all segments
	InUse    int64  // of pages in large blocks and in slabs that have a block in use
	Peak     int64  // the most that InUse has been
	Blocks   int    // in use
	Leases   int    // held by owners
	Allocs   uint64 // since the start
	Frees    uint64 // since the start
	Extents  int    // free runs of pages
	Largest  int64  // bytes of the largest free run
}

// Arena hands out blocks of segments that it makes as needed. Small blocks come
// from slabs of one size class each, four classes to a doubling; larger ones are
// runs of pages, best fit, joined when free. All its books are on the Go heap.
//
// All methods may be called concurrently.
type Arena struct {
	opt ArenaOptions

	growing sync.Mutex // held while a segment is made; taken before mu

	mu       sync.Mutex
	closed   bool
	segments map[uint64]*arenaSegment
	made     int   // segments ever made
	next     int64 // size of the next segment
	bytes    int64
	extents  extents
	classes  [numClasses]class
	leases   map[uint64]map[*Block]int
	leased   int
	inUse    int64
	peak     int64
	allocs   uint64
	frees    uint64
}

// class is a size of small blocks.
type class struct {
	size    int
	pages   int   // of a slab
	partial *span // slabs with free slots, the one to use first
}

// NewArena returns an empty arena; the first Alloc makes the first segment.
func NewArena(o *ArenaOptions) (*Arena, error) {
	a := &Arena{
		opt:      *cmp.Or(o, &ArenaOptions{}),
		segments: make(map[uint64]*arenaSegment),
		leases:   make(map[uint64]map[*Block]int),
	}
	a.next = cmp.Or(a.opt.First, firstSegment)
	a.opt.Growth = cmp.Or(a.opt.Growth, maxGrowth)
	if a.next < 0 || max(a.next, a.opt.Second) > MaxSegment || a.opt.Second < 0 || a.opt.MaxBytes < 0 || a.opt.Growth < 0 {
		return nil, fmt.Errorf("shm: arena options First %d, Second %d, Growth %d, MaxBytes %d: out of range", a.opt.First, a.opt.Second, a.opt.Growth, a.opt.MaxBytes)
	}
	if a.opt.Checked && a.opt.Segment.Backing == Reserved && a.opt.Fill == nil {
		return nil, fmt.Errorf("shm: arena options: Checked with %v segments, expected Fill as well", Reserved)
	}
	a.next = roundUp(a.next, int64(os.Getpagesize()))
	for i := range a.classes {
		a.classes[i] = class{size: classSize(i), pages: slabPages(i)}
	}
	return a, nil
}

// Alloc returns a block of n bytes with one reference. ErrNoSpace says which limit
// was in the way; ErrClosed.
func (a *Arena) Alloc(n int) (*Block, error) { return a.alloc(n, -1) }

// AllocShifted is Alloc for a block that is used together with others of its size. A
// large one begins some lines behind the start of a page, as many as order, counted from
// 0, says: otherwise such blocks all begin in the same set of a first-level cache, and a
// loop that goes over four of them at once may take twice as long, when their addresses
// are alike in other bits too. A block has a page more for that. Small ones are as
// Alloc's.
func (a *Arena) AllocShifted(n int, order uint64) (*Block, error) {
	return a.alloc(n, int(order%(pageSize/minBlock)*shiftLines%(pageSize/minBlock))*minBlock)
}

// alloc is both; a shift of -1 is none, and no page for it.
func (a *Arena) alloc(n, shift int) (*Block, error) {
	if n < 0 || n > MaxSegment {
		return nil, fmt.Errorf("shm: block of %d bytes, expected 0 to %d", n, int64(MaxSegment))
	}
	for {
		a.mu.Lock()
		if a.closed {
			a.mu.Unlock()
			return nil, ErrClosed
		}
		var b *Block
		need := 0
		if n <= maxSmall {
			c := &a.classes[classOf(n)]
			need = c.pages
			b = a.allocSmall(c, n)
		} else {
			need = (n + pageSize - 1) / pageSize
			at := 0
			if shift >= 0 && n <= MaxSegment-pageSize {
				at = shift
				need++ // whatever the shift is, so that a block fits where another was
			}
			b = a.allocLarge(need, n, at)
		}
		a.mu.Unlock()
		if b != nil {
			return b, nil
		}
		if err := a.grow(need); err != nil {
			return nil, err
		}
	}
}

// allocSmall takes a slot of a slab of the class, a new slab if there is none;
// nil when there is no room for that. Called with mu.
func (a *Arena) allocSmall(c *class, n int) *Block {
	s := c.partial
	if s == nil {
		if s = a.newSlab(c); s == nil {
			return nil
		}
	}
	last := len(s.free) - 1
	slot := s.free[last]
	s.free = s.free[:last]
	if last == 0 {
		c.remove(s)
	}
	if s.live == 0 {
		a.use(s.pages)
	}
	off := s.start*pageSize + int(slot)*c.size
	return a.issue(s, uint32(slot), off, n, c.size)
}

// allocLarge takes a run of pages, for n bytes from shift on. Called with mu.
func (a *Arena) allocLarge(pages, n, shift int) *Block {
	s := a.extents.take(pages, spanLarge)
	if s == nil {
		return nil
	}
	if s.blocks == nil {
		s.blocks = []*Block{{}}
	}
	a.use(pages)
	return a.issue(s, 0, s.start*pageSize+shift, n, pages*pageSize-shift)
}

// use counts pages of a large block, or of a slab that has a block in use from now on.
// Called with mu.
func (a *Arena) use(pages int) {
	a.inUse += int64(pages) * pageSize
	a.peak = max(a.peak, a.inUse)
}

// issue fills in the Block of a slot.
func (a *Arena) issue(s *span, slot uint32, off, n, size int) *Block {
	s.live++
	s.seg.used = true
	a.allocs++
	b := s.blocks[slot]
	if a.opt.Checked {
		b = &Block{}
		s.blocks[slot] = b
	}
	b.mem = s.seg.mem[off : off+n : off+size]
	b.handle = Handle{Segment: s.seg.id, Off: uint64(off), Len: uint64(n)}
	b.span, b.slot, b.home = s, slot, a
	b.refs.Store(1)
	return b
}

// newSlab makes a slab and puts it in its class's list. Called with mu.
func (a *Arena) newSlab(c *class) *span {
	s := a.extents.take(c.pages, spanSlab)
	if s == nil {
		return nil
	}
	n := c.pages * pageSize / c.size
	backing := make([]Block, n)
	s.class = classOf(c.size)
	s.blocks = make([]*Block, n)
	s.free = make([]uint16, n)
	for i := range n {
		s.blocks[i] = &backing[i]
		s.free[i] = uint16(n - 1 - i)
	}
	for page := s.start; page < s.start+s.pages; page++ {
		s.seg.owner[page] = s
	}
	c.insert(s)
	return s
}

func (c *class) insert(s *span) {
	s.prev, s.next = nil, c.partial
	if c.partial != nil {
		c.partial.prev = s
	}
	c.partial = s
}

func (c *class) remove(s *span) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		c.partial = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// reclaim frees a block without references.
func (a *Arena) reclaim(b *Block) {
	a.mu.Lock()
	if a.opt.Checked && !a.closed {
		a.mu.Unlock() // it takes a while, and the block has no owner meanwhile
		a.mangle(b)
		a.mu.Lock()
	}
	s := b.span
	seg := s.seg
	s.live--
	seg.used = true
	a.frees++
	if s.state == spanLarge {
		a.inUse -= int64(s.pages) * pageSize
		a.extents.give(s)
	} else {
		a.freeSlot(s, b.slot)
	}
	var last *Segment
	if a.closed && seg.live == 0 {
		a.forget(seg)
		last = seg.Segment
	}
	a.mu.Unlock()
	if last != nil {
		a.discard(last)
	}
}

// mangle overwrites the memory of a block that was released.
func (a *Arena) mangle(b *Block) {
	if a.opt.Segment.Backing == Reserved {
		h := b.handle
		h.Len = uint64(cap(b.mem))
		a.opt.Fill(h, mangle)
		return
	}
	fill(b.mem[:cap(b.mem)], mangle)
}

// fill sets all bytes to v.
func fill(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// freeSlot gives a slot back to its slab. A slab that is wholly free is given up
// unless it is the only one with room, so that a block that comes and goes does
// not make and unmake a slab each time. Called with mu.
func (a *Arena) freeSlot(s *span, slot uint32) {
	c := &a.classes[s.class]
	s.free = append(s.free, uint16(slot))
	if len(s.free) == 1 {
		c.insert(s)
	}
	if s.live > 0 {
		return
	}
	a.inUse -= int64(s.pages) * pageSize
	if a.closed || s.prev != nil || s.next != nil {
		c.remove(s)
		a.extents.give(s)
	}
}

// Block returns our own block that the handle names, as a peer gave it back, with
// a reference for the caller. The handle must start where the block does and be no
// longer: ErrBounds; ErrUnknownSegment, ErrNotLive.
func (a *Arena) Block(h Handle) (*Block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(h)
	if err != nil {
		return nil, err
	}
	if !b.tryRetain() {
		return nil, fmt.Errorf("%w: %v", ErrNotLive, h)
	}
	return b, nil
}

// find returns the block at a handle, which may be released. Called with mu.
func (a *Arena) find(h Handle) (*Block, error) {
	seg := a.segments[h.Segment]
	if seg == nil {
		return nil, fmt.Errorf("%w: %v", ErrUnknownSegment, h)
	}
	if !h.in(uint64(len(seg.mem))) || h.Off == uint64(len(seg.mem)) {
		return nil, fmt.Errorf("%w: %v, segment of %d bytes", ErrBounds, h, len(seg.mem))
	}
	page := int(h.Off / pageSize)
	s := seg.owner[page]
	// Inside a large or free span the entry may be an old one, even of a struct
	// that is in use elsewhere by now.
	if s == nil || s.seg != seg || s.state == spanFree || page < s.start || page >= s.start+s.pages {
		return nil, fmt.Errorf("%w: %v", ErrNotLive, h)
	}
	off, slot := h.Off-uint64(s.start)*pageSize, 0
	if s.state == spanSlab {
		size := uint64(a.classes[s.class].size)
		slot, off = int(off/size), off%size
	} else {
		// which may be shifted; before it there is no block either
		off = h.Off - s.blocks[0].handle.Off
	}
	if slot >= len(s.blocks) || off != 0 {
		return nil, fmt.Errorf("%w: %v is not the start of a block", ErrBounds, h)
	}
	b := s.blocks[slot]
	if b.refs.Load() <= 0 {
		return nil, fmt.Errorf("%w: %v", ErrNotLive, h)
	}
	if h.Len > uint64(len(b.mem)) {
		return nil, fmt.Errorf("%w: %v, block of %d bytes", ErrBounds, h, len(b.mem))
	}
	return b, nil
}

// Stats returns the state of the arena.
func (a *Arena) Stats() ArenaStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	st := ArenaStats{
		Segments: len(a.segments),
		Bytes:    a.bytes,
		InUse:    a.inUse,
		Peak:     a.peak,
		Blocks:   int(a.allocs - a.frees),
		Leases:   a.leased,
		Allocs:   a.allocs,
		Frees:    a.frees,
		Extents:  len(a.extents.free),
	}
	if n := len(a.extents.free); n > 0 {
		st.Largest = int64(a.extents.free[n-1].pages) * pageSize
	}
	return st
}
