package shm

import (
	"errors"
	"runtime/debug"
	"testing"
)

// faults reports whether f touches memory that it must not.
func faults(f func()) (did bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestReserved checks that blocks of reserved addresses fault when they are touched, and
// are otherwise blocks like any: named by handles, leased, counted, bounded, filled.
func TestReserved(t *testing.T) {
	made, filled := map[uint64]int64{}, map[Handle]byte{}
	a := newArena(t, &ArenaOptions{
		Segment: Options{Backing: Reserved}, First: 1 << 20, MaxBytes: 3 << 20, Checked: true,
		NewSegment: func(id uint64, size int64) error { made[id] = size; return nil },
		Fill:       func(h Handle, x byte) { filled[h] = x },
	})
	small, large := alloc(t, a, 100), alloc(t, a, 1<<20)
	var x byte
	for _, b := range []*Block{small, large} {
		if !faults(func() { x = b.Bytes()[0] }) || !faults(func() { b.Bytes()[b.Len()-1] = 1 }) {
			t.Errorf("block %v can be touched, and holds %d", b.Handle(), x)
		}
		seg, err := a.Segment(b.Handle().Segment)
		if err != nil || seg.File() != nil || seg.Backing() != Reserved || made[seg.ID()] != seg.Size() {
			t.Errorf("segment of %v: %v, %v, file %v, made with %d bytes", b.Handle(), err, seg.Backing(), seg.File(), made[seg.ID()])
		}
	}
	if err := a.Lease(small, 7); err != nil {
		t.Fatal(err)
	}
	if small.Refs() != 2 || a.ReleaseOwner(7) != 1 {
		t.Errorf("a leased block has %d references", small.Refs())
	}
	if b, err := a.Alloc(2 << 20); !errors.Is(err, ErrNoSpace) {
		t.Errorf("beyond MaxBytes: %v, %v", b, err)
	}
	for _, b := range []*Block{small, large} {
		h, room := b.Handle(), uint64(cap(b.Bytes()))
		b.Release()
		if h.Len = room; filled[h] != mangle {
			t.Errorf("after %v was released %v were filled", h, filled)
		}
	}
}

// TestNewSegmentRefuses checks that a segment which the option refuses does not come to
// be, that a smaller one is tried where there is not enough memory, and that a checked
// arena of reserved addresses must be able to fill them.
func TestNewSegmentRefuses(t *testing.T) {
	var sizes []int64
	room := int64(0)
	a := newArena(t, &ArenaOptions{Segment: Options{Backing: Reserved}, First: 1 << 20, NewSegment: func(_ uint64, size int64) error {
		if sizes = append(sizes, size); size > room {
			return ErrNoSpace
		}
		return nil
	}})
	if b, err := a.Alloc(64 << 10); !errors.Is(err, ErrNoSpace) || len(sizes) != 2 || sizes[1] != 64<<10 {
		t.Errorf("Alloc with no memory: %v, %v; segments of %v were asked for", b, err, sizes)
	}
	if s := a.Stats(); s.Segments != 0 || s.Bytes != 0 {
		t.Errorf("refused segments are counted: %+v", s)
	}
	room = 64 << 10
	alloc(t, a, 64<<10).Release()
	if a, err := NewArena(&ArenaOptions{Segment: Options{Backing: Reserved}, Checked: true}); err == nil {
		t.Errorf("NewArena took Checked without Fill: %v", a)
	}
}

// TestFreeSegment checks that each segment is given up once, with its addresses still
// reserved: by Trim, by Close, and by the last Release after Close.
func TestFreeSegment(t *testing.T) {
	alive := map[uint64]bool{}
	a := newArena(t, &ArenaOptions{
		Segment: Options{Backing: Reserved}, First: 1 << 20, Growth: 1 << 20, TrimAll: true,
		NewSegment: func(id uint64, size int64) error {
			if size != 1<<20 {
				t.Errorf("a segment of %d bytes, want all of 1 MiB", size)
			}
			alive[id] = true
			return nil
		},
		FreeSegment: func(s *Segment) {
			if !alive[s.ID()] || len(s.Bytes()) != 1<<20 {
				t.Errorf("segment %016x of %d bytes is given up twice or unmapped", s.ID(), len(s.Bytes()))
			}
			delete(alive, s.ID())
		},
	})
	var blocks []*Block
	for range 3 {
		blocks = append(blocks, alloc(t, a, 1<<20))
	}
	for i, step := range []func(){
		blocks[0].Release,
		func() { a.Trim() },
		blocks[1].Release,
		func() { a.Close() },
		blocks[2].Release,
	} {
		step()
		if want := []int{3, 2, 2, 1, 0}[i]; len(alive) != want {
			t.Errorf("after step %d %d segments are alive, want %d", i, len(alive), want)
		}
	}
}
