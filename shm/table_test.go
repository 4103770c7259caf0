package shm

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// peerSegment is a segment as another process would have it, filled with its index.
func peerSegment(t testing.TB, size int64, fill byte) *Segment {
	t.Helper()
	s, err := Create(size, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for i := range s.Bytes() {
		s.Bytes()[i] = fill
	}
	return s
}

func add(t testing.TB, table *Table, owner uint64, s *Segment) {
	t.Helper()
	if err := table.Add(owner, s.ID(), dupFile(t, s.File()), s.Size()); err != nil {
		t.Fatal(err)
	}
}

func TestTableOpens(t *testing.T) {
	type released struct {
		owner uint64
		h     Handle
	}
	var back []released
	table := NewTable(&TableOptions{OnRelease: func(owner uint64, h Handle) { back = append(back, released{owner, h}) }})
	before := openFiles(t)
	s := peerSegment(t, 8192, 7)
	add(t, table, 1, s)
	h := Handle{s.ID(), 100, 50}
	b, err := table.Open(1, h)
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != 50 || cap(b.Bytes()) != 50 || b.Handle() != h || b.Bytes()[49] != 7 || !b.ReadOnly() || b.Refs() != 1 {
		t.Errorf("opened %d bytes, handle %v, read only %v, %d references", b.Len(), b.Handle(), b.ReadOnly(), b.Refs())
	}
	s.Bytes()[100] = 8
	if b.Bytes()[0] != 8 {
		t.Error("the block is not the peer's memory")
	}
	b.Retain()
	b.Release()
	if len(back) != 0 {
		t.Error("given back with a reference left")
	}
	b.Release()
	if want := []released{{1, h}}; !slices.Equal(back, want) {
		t.Errorf("given back %v, expected %v", back, want)
	}
	if mem, err := table.Resolve(1, h); err != nil || len(mem) != 50 || mem[0] != 8 {
		t.Errorf("Resolve: %d bytes, %v", len(mem), err)
	}
	if n := openFiles(t); n > before+1 {
		t.Errorf("%d descriptors, expected the owner's beside %d", n, before)
	}
	if n := testing.AllocsPerRun(100, func() {
		b, err := table.Open(1, h)
		if err != nil {
			t.Fatal(err)
		}
		back = back[:0]
		b.Release()
	}); n != 0 {
		t.Errorf("%v allocations to open and release, expected none", n)
	}
	if err := table.Remove(1, s.ID()); err != nil {
		t.Error(err)
	}
	s.Close()
	if n := openFiles(t); n > before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

func TestTableRefuses(t *testing.T) {
	table := NewTable(&TableOptions{MaxBytes: 20480})
	s := peerSegment(t, 8192, 1)
	big := peerSegment(t, 16384, 1)
	add(t, table, 1, s)
	before := openFiles(t)
	for _, tc := range []struct {
		name  string
		owner uint64
		h     Handle
		want  error
	}{
		{"another owner's segment", 2, Handle{s.ID(), 0, 1}, ErrUnknownSegment},
		{"no segment", 1, Handle{0, 0, 1}, ErrUnknownSegment},
		{"one byte too many", 1, Handle{s.ID(), 0, 8193}, ErrBounds},
		{"one byte too far", 1, Handle{s.ID(), 8192, 1}, ErrBounds},
		{"an overflow", 1, Handle{s.ID(), ^uint64(0), 2}, ErrBounds},
		{"everything", 1, Handle{s.ID(), 0, 8192}, nil},
		{"nothing at the end", 1, Handle{s.ID(), 8192, 0}, nil},
	} {
		b, err := table.Open(tc.owner, tc.h)
		mem, err2 := table.Resolve(tc.owner, tc.h)
		if !errors.Is(err, tc.want) || !errors.Is(err2, tc.want) {
			t.Errorf("%s: %v and %v, expected %v", tc.name, err, err2, tc.want)
		}
		if err == nil {
			if len(mem) != b.Len() || uint64(len(mem)) != tc.h.Len {
				t.Errorf("%s: %d and %d bytes", tc.name, len(mem), b.Len())
			}
			b.Release()
		}
	}
	for _, tc := range []struct {
		name string
		id   uint64
		f    *os.File
		size int64
		want error
	}{
		{"the same again", s.ID(), s.File(), 8192, ErrExists},
		{"more than MaxBytes", big.ID(), big.File(), 16384, ErrNoSpace},
		{"longer than the file", 5, s.File(), 8193, ErrBadFile},
		{"no size", 5, s.File(), 0, ErrBadFile},
		{"a negative size", 5, s.File(), -4096, ErrBadFile},
		{"a size that overflows", 5, s.File(), 1<<63 - 1, ErrBadFile},
	} {
		f := dupFile(t, tc.f)
		if err := table.Add(1, tc.id, f, tc.size); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, expected %v", tc.name, err, tc.want)
		}
		if err := f.Close(); err != nil {
			t.Errorf("%s: a refused file is not the caller's: %v", tc.name, err)
		}
	}
	if n := openFiles(t); n > before {
		t.Errorf("%d descriptors, %d before: the table kept a refused one", n, before)
	}
	if st := table.Stats(); st != (TableStats{Segments: 1, Bytes: 8192}) {
		t.Errorf("%+v", st)
	}
	add(t, table, 2, big) // another owner has bytes of its own
	if err := table.Remove(1, big.ID()); !errors.Is(err, ErrUnknownSegment) {
		t.Errorf("removing another owner's segment: %v", err)
	}
	if err := table.Remove(1, s.ID()); err != nil {
		t.Fatal(err)
	}
	add(t, table, 1, big) // and room again
	if err := table.Close(); err != nil || table.Stats() != (TableStats{}) {
		t.Errorf("Close: %v, %+v", err, table.Stats())
	}
}

// TestTableSegments: an owner has so many segments, those that were removed and are still
// read included; another has his own.
func TestTableSegments(t *testing.T) {
	const most = 3
	table := NewTable(&TableOptions{MaxSegments: most})
	defer table.Close()
	s := peerSegment(t, 4096, 1)
	for id := range uint64(most) {
		if err := table.Add(1, id, dupFile(t, s.File()), 4096); err != nil {
			t.Fatal(err)
		}
	}
	before := openFiles(t)
	tooMany := func(what string) {
		t.Helper()
		f := dupFile(t, s.File())
		defer f.Close()
		if err := table.Add(1, most, f, 4096); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "at most 3") {
			t.Errorf("%s: %v, expected ErrNoSpace", what, err)
		}
		if n := openFiles(t); n > before+1 {
			t.Errorf("%s: %d descriptors, %d and the refused one before", what, n, before)
		}
	}
	tooMany("one more")
	b, err := table.Open(1, Handle{0, 0, 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Remove(1, 0); err != nil {
		t.Fatal(err)
	}
	tooMany("one more while the one that was removed is read")
	add(t, table, 2, s)
	b.Release()
	if err := table.Add(1, most, dupFile(t, s.File()), 4096); err != nil {
		t.Errorf("in the place of one that is gone: %v", err)
	}
}

func TestSealedOnly(t *testing.T) {
	table := NewTable(&TableOptions{Sealed: true})
	defer table.Close()
	for backing, want := range map[Backing]error{Tmpfs: ErrBadFile, Memfd: nil} {
		s, err := Create(4096, &Options{Backing: backing})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := table.Add(1, s.ID(), dupFile(t, s.File()), 4096); !errors.Is(err, want) {
			t.Errorf("%v: %v, expected %v", backing, err, want)
		}
	}
}

// TestRemovedWhileRead: a mapping stays while a block of it is held, and goes with the
// last.
func TestRemovedWhileRead(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "1m")
	called := 0
	table := NewTable(&TableOptions{Writable: true, Prefault: true, OnRelease: func(uint64, Handle) { called++ }})
	s, err := Create(8192, &Options{Dir: dir, Backing: Tmpfs})
	if err != nil {
		t.Fatal(err)
	}
	add(t, table, 1, s)
	id := s.ID()
	s.Close() // the owner is dead
	b, err := table.Open(1, Handle{id, 0, 8192})
	if err != nil {
		t.Fatal(err)
	}
	c, err := table.Open(1, Handle{id, 4096, 10})
	if err != nil {
		t.Fatal(err)
	}
	if n := table.ReleaseOwner(1); n != 1 {
		t.Errorf("owner 1 had %d segments", n)
	}
	if _, err := table.Open(1, Handle{id, 0, 1}); !errors.Is(err, ErrUnknownSegment) {
		t.Errorf("opening of a removed segment: %v", err)
	}
	b.Bytes()[4096] = 5
	if c.Bytes()[0] != 5 {
		t.Error("the two blocks are not of one segment")
	}
	b.Release()
	if n := used(t, dir); n != 8192 {
		t.Errorf("%d bytes in use while a block is open", n)
	}
	c.Release()
	if n := used(t, dir); n != 0 {
		t.Errorf("%d bytes in use after the last Release", n)
	}
	if called != 0 {
		t.Errorf("%d leases given back to a dead owner", called)
	}
}

func TestTableConcurrently(t *testing.T) {
	table := NewTable(nil)
	s := peerSegment(t, 1<<16, 9)
	var wg sync.WaitGroup
	for g := range 4 {
		owner := uint64(g % 2)
		wg.Go(func() {
			for range 300 {
				f := dupFile(t, s.File())
				err := table.Add(owner, s.ID(), f, s.Size())
				if err != nil {
					f.Close()
				}
				if err != nil && !errors.Is(err, ErrExists) {
					t.Error(err)
				}
				b, err := table.Open(owner, Handle{s.ID(), 64, 64})
				if err == nil {
					table.ReleaseOwner(owner)
					if b.Bytes()[63] != 9 {
						t.Errorf("read %d", b.Bytes()[63])
					}
					b.Release()
				} else if !errors.Is(err, ErrUnknownSegment) || !strings.Contains(err.Error(), "owner") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	table.Close()
	if st := table.Stats(); st != (TableStats{}) || len(table.owners) != 0 {
		t.Errorf("%+v, %v", st, table.owners)
	}
}
