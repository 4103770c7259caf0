package shm

import (
	"slices"
	"sort"
)

// span is a run of pages of one segment: free, one large block, or a slab of
// small ones. Every page of every segment is in exactly one span, and two
// neighbours are never both free.
type span struct {
	seg   *arenaSegment
	start int // page
	pages int
	state spanState
	class int // of a slab

	blocks []*Block // a slab's, or the one large; by slot
	free   []uint16 // slots of a slab that are free, used from the end
	live   int      // blocks in use

	prev, next *span // in the list of slabs of a class that have free slots
}

type spanState uint8

const (
	spanFree spanState = iota
	spanLarge
	spanSlab
)

// arenaSegment is a segment and which span has which page.
type arenaSegment struct {
	*Segment
	order int  // of creation
	live  int  // spans that are not free
	used  bool // a block was in use since TrimUnused looked last

	// owner has for each page its span. It is right for the first and last page of
	// every span, which is what coalescing needs, and for all pages of a slab;
	// inside a large or free span it may be what was there earlier.
	owner []*span
}

// extents are the free spans of all segments, smallest first, so that the first
// that is large enough is the best fit. Ties go to the oldest and lowest, which
// leaves the youngest segments free to be trimmed.
type extents struct {
	free  []*span
	spare []*span // structs for new spans
}

func compareSpans(a, b *span) int {
	if a.pages != b.pages {
		return a.pages - b.pages
	}
	if a.seg.order != b.seg.order {
		return a.seg.order - b.seg.order
	}
	return a.start - b.start
}

// place returns the first free span that has that many pages, or -1.
func (x *extents) place(pages int) int {
	i := sort.Search(len(x.free), func(i int) bool { return x.free[i].pages >= pages })
	if i == len(x.free) {
		return -1
	}
	return i
}

// take returns a span of that many pages, marked as state, or nil.
func (x *extents) take(pages int, state spanState) *span {
	i := x.place(pages)
	if i < 0 {
		return nil
	}
	s := x.free[i]
	x.free = slices.Delete(x.free, i, i+1)
	if rest := s.pages - pages; rest > 0 {
		x.put(s.seg, s.start+pages, rest)
	}
	s.pages, s.state = pages, state
	s.seg.live++
	s.mark()
	return s
}

// give makes a used span free and joins it with free neighbours.
func (x *extents) give(s *span) {
	seg, start, pages := s.seg, s.start, s.pages
	seg.live--
	if start > 0 {
		if p := seg.owner[start-1]; p.state == spanFree {
			start, pages = p.start, pages+p.pages
			x.drop(p)
		}
	}
	if end := s.start + s.pages; end < len(seg.owner) {
		if n := seg.owner[end]; n.state == spanFree {
			pages += n.pages
			x.drop(n)
		}
	}
	x.recycle(s)
	x.put(seg, start, pages)
}

// put adds a free span.
func (x *extents) put(seg *arenaSegment, start, pages int) {
	s := x.newSpan()
	s.seg, s.start, s.pages, s.state = seg, start, pages, spanFree
	s.mark()
	i, _ := slices.BinarySearchFunc(x.free, s, compareSpans)
	x.free = slices.Insert(x.free, i, s)
}

// drop removes a free span.
func (x *extents) drop(s *span) {
	i, _ := slices.BinarySearchFunc(x.free, s, compareSpans)
	x.free = slices.Delete(x.free, i, i+1)
	x.recycle(s)
}

// mark enters a span for its first and last page.
func (s *span) mark() {
	s.seg.owner[s.start] = s
	s.seg.owner[s.start+s.pages-1] = s
}

func (x *extents) newSpan() *span {
	if n := len(x.spare); n > 0 {
		s := x.spare[n-1]
		x.spare = x.spare[:n-1]
		return s
	}
	return &span{}
}

// recycle keeps the struct for newSpan. A large span's block stays with it; a
// slab's blocks belong to their class and are dropped.
func (x *extents) recycle(s *span) {
	if s.state == spanSlab {
		s.blocks, s.free = nil, nil
	}
	s.seg, s.start, s.pages, s.state, s.live = nil, 0, 0, spanFree, 0
	x.spare = append(x.spare, s)
}
