package shm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// grow makes a segment with room for a run of that many pages.
func (a *Arena) grow(pages int) error {
	a.growing.Lock()
	defer a.growing.Unlock()
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return ErrClosed
	}
	if a.extents.place(pages) >= 0 { // another goroutine made one
		a.mu.Unlock()
		return nil
	}
	need := roundUp(int64(pages)*pageSize, int64(os.Getpagesize()))
	if a.made > 0 || need > a.next/4 {
		a.next = max(a.next, a.opt.Second)
	}
	size := max(a.next, need)
	left := int64(math.MaxInt64)
	if a.opt.MaxBytes > 0 {
		left = a.opt.MaxBytes - a.bytes
		size = min(size, max(left, need)&^int64(os.Getpagesize()-1))
	}
	have := a.bytes
	a.mu.Unlock()
	if need > left {
		return fmt.Errorf("%w: %d bytes asked, the arena has %d of at most %d",
			ErrNoSpace, need, have, a.opt.MaxBytes)
	}

	seg, err := a.newSegment(size)
	if size > need && errors.Is(err, ErrNoSpace) {
		// Not as much as would be convenient, but perhaps what is needed.
		seg, err = a.newSegment(need)
	}
	if err != nil {
		return fmt.Errorf("arena of %d bytes: %w", have, err)
	}
	if a.opt.OnSegment != nil {
		a.opt.OnSegment(seg)
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.discard(seg)
		return ErrClosed
	}
	n := len(seg.mem) / pageSize
	s := &arenaSegment{Segment: seg, order: a.made, owner: make([]*span, n)}
	a.made++
	a.segments[seg.id] = s
	a.bytes += seg.Size()
	if size == a.next {
		a.next = max(size, min(2*size, a.opt.Growth))
	}
	a.extents.put(s, 0, n)
	return nil
}

// newSegment makes a segment of size bytes.
func (a *Arena) newSegment(size int64) (*Segment, error) {
	seg, err := Create(size, &a.opt.Segment)
	if err != nil || a.opt.NewSegment == nil {
		return seg, err
	}
	if err := a.opt.NewSegment(seg.id, seg.Size()); err != nil {
		seg.Close()
		return nil, err
	}
	return seg, nil
}

// discard unmaps a segment that the arena has given up, or never took.
func (a *Arena) discard(s *Segment) error {
	if a.opt.FreeSegment != nil {
		a.opt.FreeSegment(s)
	}
	return s.Close()
}

// Segment returns the segment with that id, or ErrUnknownSegment. A block of it
// that the caller holds keeps it mapped.
func (a *Arena) Segment(id uint64) (*Segment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.segments[id]; s != nil {
		return s.Segment, nil
	}
	return nil, fmt.Errorf("%w: %016x", ErrUnknownSegment, id)
}

// Has says whether the segment with that id is one of the arena's.
func (a *Arena) Has(id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.segments[id] != nil
}

// Segments returns all segments, oldest first.
func (a *Arena) Segments() []*Segment {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*Segment
	for _, s := range slices.SortedFunc(maps.Values(a.segments), func(x, y *arenaSegment) int { return x.order - y.order }) {
		list = append(list, s.Segment)
	}
	return list
}

// Trim unmaps and closes all segments without a block in use but the first, which it
// keeps unless the option TrimAll is set, and returns their bytes. Peers that have them
// mapped keep them until they are told.
func (a *Arena) Trim() int64 { return a.TrimExcept(func(uint64) bool { return false }) }

// TrimExcept is Trim, but leaves those segments alone for which keep returns true. keep
// must not call the arena.
func (a *Arena) TrimExcept(keep func(id uint64) bool) int64 {
	from := 1
	if a.opt.TrimAll {
		from = 0
	}
	return a.trim(func(s *arenaSegment) bool { return s.order >= from && !keep(s.id) })
}

// TrimUnused is Trim for the segments, also the first, that had no block in use since the
// call before it. It leaves those alone for which keep returns true, such as segments
// that peers have mapped. keep must not call the arena.
func (a *Arena) TrimUnused(keep func(id uint64) bool) int64 {
	return a.trim(func(s *arenaSegment) bool {
		used := s.used
		s.used = false
		return !used && !keep(s.id)
	})
}

// trim gives up the segments without a block in use that which chooses. It is asked for
// those alone.
func (a *Arena) trim(which func(*arenaSegment) bool) int64 {
	a.mu.Lock()
	gone := a.collect(which)
	a.mu.Unlock()
	var n int64
	for _, s := range gone {
		n += s.Size()
		a.discard(s.Segment)
		if a.opt.OnTrim != nil {
			a.opt.OnTrim(s.id)
		}
	}
	return n
}

// Close ends the arena: Alloc fails, leases end, and each segment is unmapped with its
// last block, at once where there is none. Nothing is written any more: what peers have
// mapped stays as it is.
func (a *Arena) Close() error {
	a.mu.Lock()
	a.closed = true
	owners := slices.Collect(maps.Keys(a.leases))
	a.mu.Unlock()
	for _, o := range owners {
		a.ReleaseOwner(o)
	}
	a.mu.Lock()
	gone := a.collect(func(*arenaSegment) bool { return true })
	a.mu.Unlock()
	var err error
	for _, s := range gone {
		err = errors.Join(err, a.discard(s.Segment))
	}
	return err
}

// collect gives up slabs without a block in use, and takes those segments that have none
// out of the books that which chooses. Called with mu.
func (a *Arena) collect(which func(*arenaSegment) bool) []*arenaSegment {
	for i := range a.classes {
		for s := a.classes[i].partial; s != nil; {
			next := s.next
			if s.live == 0 {
				a.classes[i].remove(s)
				a.extents.give(s)
			}
			s = next
		}
	}
	var gone []*arenaSegment
	for _, s := range a.segments {
		if s.live == 0 && which(s) {
			gone = append(gone, s)
			a.forget(s)
		}
	}
	return gone
}

// forget takes a segment without used spans out of the books. Called with mu.
func (a *Arena) forget(s *arenaSegment) {
	a.extents.drop(s.owner[0])
	delete(a.segments, s.id)
	a.bytes -= s.Size()
}
