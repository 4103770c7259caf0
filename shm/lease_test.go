package shm

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// TestHandlesThatComeBack gives Arena.Block handles as only a hostile or confused
// peer sends them.
func TestHandlesThatComeBack(t *testing.T) {
	a := newArena(t, &ArenaOptions{First: 1 << 20})
	small, large, dead := alloc(t, a, 100), alloc(t, a, 100<<10), alloc(t, a, 5000)
	deadLarge := alloc(t, a, 200<<10)
	gone, goneLarge := dead.Handle(), deadLarge.Handle()
	dead.Release()
	deadLarge.Release()
	seg := small.Handle().Segment
	for _, tc := range []struct {
		name string
		h    Handle
		want error
	}{
		{"a small block", small.Handle(), nil},
		{"the start of one", Handle{seg, small.Handle().Off, 1}, nil},
		{"a large block", large.Handle(), nil},
		{"another segment", Handle{seg + 1, 0, 1}, ErrUnknownSegment},
		{"no segment", Handle{}, ErrUnknownSegment},
		{"inside a small block", Handle{seg, small.Handle().Off + 8, 1}, ErrBounds},
		{"inside the first page of a large block", Handle{seg, large.Handle().Off + 64, 1}, ErrBounds},
		{"a page inside a large block", Handle{seg, large.Handle().Off + pageSize, 1}, ErrNotLive},
		{"the last page of a large block", Handle{seg, large.Handle().Off + 24*pageSize, 1}, ErrBounds},
		{"more than a small block", Handle{seg, small.Handle().Off, 101}, ErrBounds},
		{"more than a large block", Handle{seg, large.Handle().Off, 100<<10 + 1}, ErrBounds},
		{"a free slot", Handle{seg, small.Handle().Off + 128, 1}, ErrNotLive},
		{"a released slab block", gone, ErrNotLive},
		{"a released large block", goneLarge, ErrNotLive},
		{"the end of the segment", Handle{seg, 1 << 20, 0}, ErrBounds},
		{"beyond the segment", Handle{seg, 1 << 40, 1}, ErrBounds},
		{"an overflow", Handle{seg, ^uint64(0), 2}, ErrBounds},
		{"a huge length", Handle{seg, 0, ^uint64(0)}, ErrBounds},
	} {
		b, err := a.Block(tc.h)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, expected %v", tc.name, err, tc.want)
		}
		if err == nil {
			if b.Refs() != 2 {
				t.Errorf("%s: %d references, expected 2", tc.name, b.Refs())
			}
			b.Release()
		}
	}
	small.Release()
	large.Release()
}

func FuzzHandle(f *testing.F) {
	a := newArena(f, &ArenaOptions{First: 1 << 20})
	live := []*Block{alloc(f, a, 10), alloc(f, a, 300), alloc(f, a, 33<<10), alloc(f, a, 150<<10), alloc(f, a, 64)}
	alloc(f, a, 300).Release()
	alloc(f, a, 99<<10).Release()
	for _, b := range live {
		f.Add(b.Handle().Append(nil))
	}
	table := NewTable(nil)
	seg := a.Segments()[0]
	if err := table.Add(1, seg.ID(), dupFile(f, seg.File()), seg.Size()); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < HandleSize {
			return
		}
		h := GetHandle(raw)
		if binary.LittleEndian.Uint64(raw)%2 == 0 {
			h.Segment = seg.ID()
		}
		b, err := a.Block(h)
		if err == nil {
			if !slices.Contains(live, b) || b.Handle().Off != h.Off || h.Len > b.Handle().Len {
				t.Errorf("%v is %v", h, b.Handle())
			}
			b.Release()
		}
		mem, err2 := table.Resolve(1, h)
		if err == nil && err2 != nil || err2 == nil && uint64(len(mem)) != h.Len {
			t.Errorf("%v: arena %v, table %v with %d bytes", h, err, err2, len(mem))
		}
		err3 := a.Unlease(h, 1)
		if err3 == nil {
			t.Errorf("%v was leased to nobody", h)
		}
	})
}

func TestLeases(t *testing.T) {
	a := newArena(t, nil)
	other := newArena(t, nil)
	small, large := alloc(t, a, 100), alloc(t, a, 100<<10)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.Lease(small, 1))
	must(a.Lease(small, 1))
	must(a.Lease(small, 2))
	must(a.Lease(large, 2))
	if err := other.Lease(small, 1); !errors.Is(err, ErrUnknownSegment) {
		t.Errorf("leasing another arena's block: %v", err)
	}
	h := small.Handle()
	small.Release()
	if s := a.Stats(); s.Leases != 4 || s.Blocks != 2 || small.Refs() != 3 {
		t.Errorf("%+v, %d references", s, small.Refs())
	}
	must(a.Unlease(h, 1))
	must(a.Unlease(h, 1))
	if err := a.Unlease(h, 1); !errors.Is(err, ErrNotLeased) {
		t.Errorf("giving back once more than leased: %v, expected ErrNotLeased", err)
	}
	if err := a.Unlease(large.Handle(), 1); !errors.Is(err, ErrNotLeased) {
		t.Errorf("giving back what another holds: %v, expected ErrNotLeased", err)
	}
	if small.Refs() != 1 {
		t.Errorf("%d references, expected owner 2's", small.Refs())
	}
	if n := a.ReleaseOwner(2); n != 2 {
		t.Errorf("owner 2 held %d leases, expected 2", n)
	}
	if n := a.ReleaseOwner(2); n != 0 {
		t.Errorf("owner 2 held %d leases the second time", n)
	}
	if err := a.Unlease(h, 2); !errors.Is(err, ErrNotLive) {
		t.Errorf("giving back what is gone: %v, expected ErrNotLive", err)
	}
	if s := a.Stats(); s.Leases != 0 || s.Blocks != 1 {
		t.Errorf("at the end: %+v", s)
	}
	large.Release()
	must(a.check())
}

// TestCloseWaitsForBlocks: memory that is being read stays.
func TestCloseWaitsForBlocks(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "8m")
	a := newArena(t, &ArenaOptions{First: 1 << 20, Segment: Options{Dir: dir, Backing: Tmpfs}})
	b, c := alloc(t, a, 100), alloc(t, a, 2<<20)
	if err := a.Lease(c, 1); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := used(t, dir); n != 1<<20 {
		t.Errorf("%d bytes in use after Close, expected the segment of one block", n)
	}
	if _, err := a.Alloc(1); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
	b.Bytes()[0] = 1
	b.Release()
	if n := used(t, dir); n != 0 {
		t.Errorf("%d bytes in use after the last Release", n)
	}
}
