package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func newArena(t testing.TB, o *ArenaOptions) *Arena {
	t.Helper()
	a, err := NewArena(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func alloc(t testing.TB, a *Arena, n int) *Block {
	t.Helper()
	b, err := a.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check walks the books of an arena and reports what does not add up.
func (a *Arena) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	free := make(map[*span]bool)
	for i, s := range a.extents.free {
		if s.state != spanFree {
			return fmt.Errorf("extent %d is in state %d", i, s.state)
		}
		if i > 0 && compareSpans(a.extents.free[i-1], s) >= 0 {
			return fmt.Errorf("extents %d and %d are out of order", i-1, i)
		}
		free[s] = true
	}
	var inUse, mapped int64
	blocks, found := 0, 0
	for id, seg := range a.segments {
		mapped += seg.Size()
		live, last := 0, spanState(255)
		for page := 0; page < len(seg.owner); {
			s := seg.owner[page]
			if s == nil || s.seg != seg || s.start != page || s.pages < 1 || seg.owner[page+s.pages-1] != s {
				return fmt.Errorf("segment %x, page %d: span %+v", id, page, s)
			}
			switch s.state {
			case spanFree:
				if !free[s] || last == spanFree {
					return fmt.Errorf("segment %x, page %d: free, in the list %v, after state %d", id, page, free[s], last)
				}
				found++
			case spanLarge:
				live++
				blocks++
				inUse += int64(s.pages) * pageSize
				if s.live != 1 || len(s.blocks) != 1 {
					return fmt.Errorf("segment %x, page %d: large with %d of %d blocks", id, page, s.live, len(s.blocks))
				}
			case spanSlab:
				live++
				blocks += s.live
				if s.live > 0 {
					inUse += int64(s.pages) * pageSize
				}
				if s.live+len(s.free) != len(s.blocks) {
					return fmt.Errorf("segment %x, page %d: slab of %d blocks, %d in use, %d free", id, page, len(s.blocks), s.live, len(s.free))
				}
				inList := false
				for l := a.classes[s.class].partial; l != nil; l = l.next {
					inList = inList || l == s
				}
				if inList != (len(s.free) > 0) {
					return fmt.Errorf("segment %x, page %d: slab with %d free slots, in the list %v", id, page, len(s.free), inList)
				}
			}
			last = s.state
			page += s.pages
		}
		if live != seg.live {
			return fmt.Errorf("segment %x: %d spans in use, counted %d", id, live, seg.live)
		}
	}
	if found != len(free) || inUse != a.inUse || mapped != a.bytes || blocks != int(a.allocs-a.frees) {
		return fmt.Errorf("%d of %d extents in segments, %d bytes in use counted %d, %d mapped counted %d, %d blocks counted %d",
			found, len(free), inUse, a.inUse, mapped, a.bytes, blocks, a.allocs-a.frees)
	}
	return nil
}

// TestBesideAToy allocates and frees at random beside a list of what is in use:
// every block keeps what was written to it, at its own place.
func TestBesideAToy(t *testing.T) {
	for _, checked := range []bool{false, true} {
		seed := rand.Uint64()
		t.Logf("seed %d, checked %v", seed, checked)
		rng := rand.New(rand.NewPCG(seed, 1))
		a := newArena(t, &ArenaOptions{First: 1 << 20, MaxBytes: 256 << 20, Checked: checked})
		type held struct {
			b    *Block
			fill byte
		}
		var live []held
		size := func() int {
			switch rng.IntN(10) {
			case 0:
				return rng.IntN(3 << 20)
			case 1, 2:
				return rng.IntN(200 << 10)
			default:
				return rng.IntN(2000)
			}
		}
		total := 0
		for step := range 6000 {
			if len(live) == 0 || rng.IntN(20) < 11 && total < 40<<20 {
				n := size()
				b := alloc(t, a, n)
				if b.Len() != n || len(b.Bytes()) != n || b.Refs() != 1 || b.ReadOnly() {
					t.Fatalf("Alloc(%d): %d bytes, %d references", n, b.Len(), b.Refs())
				}
				h := b.Handle()
				if h.Off%minBlock != 0 || h.Len != uint64(n) || n > maxSmall && h.Off%pageSize != 0 {
					t.Fatalf("Alloc(%d): handle %v", n, h)
				}
				if k := bytes.Count(b.Bytes(), []byte{0}) + bytes.Count(b.Bytes(), []byte{mangle}); checked && k != n {
					t.Fatalf("%d bytes of a block of %d are neither new nor released", n-k, n)
				}
				f := held{b, byte(step)}
				fill(b.Bytes(), f.fill)
				live = append(live, f)
				total += n
			} else {
				i := rng.IntN(len(live))
				f := live[i]
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				if n := bytes.Count(f.b.Bytes(), []byte{f.fill}); n != f.b.Len() {
					t.Fatalf("step %d: %d of %d bytes of %v are not %d", step, f.b.Len()-n, f.b.Len(), f.b.Handle(), f.fill)
				}
				total -= f.b.Len()
				f.b.Release()
			}
			if step%100 == 0 {
				if rng.IntN(4) == 0 {
					a.Trim()
				}
				if err := a.check(); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
			}
		}
		for _, f := range live {
			f.b.Release()
		}
		a.Trim()
		if err := a.check(); err != nil {
			t.Fatal(err)
		}
		s := a.Stats()
		if s.Blocks != 0 || s.InUse != 0 || s.Segments != 1 || s.Extents != 1 || s.Largest != s.Bytes || s.Allocs != s.Frees {
			t.Errorf("after the last Release and Trim: %+v", s)
		}
	}
}

func TestGrowth(t *testing.T) {
	var sizes []int64
	var trimmed []uint64
	var a *Arena
	a = newArena(t, &ArenaOptions{
		First:    1 << 20,
		MaxBytes: 20 << 20,
		OnSegment: func(s *Segment) {
			if _, err := a.Segment(s.ID()); !errors.Is(err, ErrUnknownSegment) {
				t.Error("the arena used a segment before OnSegment")
			}
			sizes = append(sizes, s.Size())
		},
		OnTrim: func(id uint64) { trimmed = append(trimmed, id) },
	})
	var blocks []*Block
	for _, n := range []int{1 << 20, 1 << 20, 1 << 20, 4 << 20, 6 << 20} {
		blocks = append(blocks, alloc(t, a, n))
	}
	// 1, then 2 which holds two, then 4, then 8 for the 6.
	if want := []int64{1 << 20, 2 << 20, 4 << 20, 8 << 20}; !slices.Equal(sizes, want) {
		t.Errorf("segments of %v bytes, expected %v", sizes, want)
	}
	// The 5 MiB that are left of MaxBytes are less than the next doubling.
	blocks = append(blocks, alloc(t, a, 5<<20))
	if want := int64(5 << 20); sizes[4] != want {
		t.Errorf("the fifth segment has %d bytes, expected %d", sizes[4], want)
	}
	if _, err := a.Alloc(3 << 20); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "3145728 bytes asked, the arena has 20971520 of at most 20971520") {
		t.Errorf("beyond MaxBytes: %v", err)
	}
	if len(a.Segments()) != 5 || a.Segments()[0].Size() != 1<<20 {
		t.Errorf("%d segments", len(a.Segments()))
	}
	for _, b := range blocks {
		b.Release()
	}
	if n := a.Trim(); n != 19<<20 || len(trimmed) != 4 {
		t.Errorf("Trim returned %d and told of %d segments, expected all but the first", n, len(trimmed))
	}
	alloc(t, a, 16<<20).Release() // larger than the next: exactly its size
	if sizes[5] != 16<<20 {
		t.Errorf("a segment for a large block has %d bytes", sizes[5])
	}
}

func TestArenaOnAFullTmpfs(t *testing.T) {
	dir := smallTmpfs(t, "1m")
	a := newArena(t, &ArenaOptions{Segment: Options{Dir: dir, Backing: Tmpfs}})
	defer a.Close()
	// 16 MiB would be convenient; what is needed fits.
	b := alloc(t, a, 600<<10)
	if _, err := a.Alloc(600 << 10); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Alloc on a full tmpfs: %v, expected ErrNoSpace naming %s", err, dir)
	}
	for i := range b.Bytes() {
		b.Bytes()[i] = 1
	}
	b.Release()
	alloc(t, a, 600<<10).Release() // the arena goes on
}

func TestBadArguments(t *testing.T) {
	for _, o := range []ArenaOptions{{First: -1}, {First: MaxSegment + 1}, {MaxBytes: -1}} {
		if _, err := NewArena(&o); err == nil {
			t.Errorf("NewArena(First %d, MaxBytes %d) succeeded", o.First, o.MaxBytes)
		}
	}
	a := newArena(t, nil)
	for _, n := range []int{-1, MaxSegment + 1} {
		if _, err := a.Alloc(n); err == nil {
			t.Errorf("Alloc(%d) succeeded", n)
		}
	}
	b := alloc(t, a, 0)
	if b.Len() != 0 {
		t.Errorf("Alloc(0) has %d bytes", b.Len())
	}
	b.Release()
}

func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", name)
		}
	}()
	f()
}

func TestReleaseTwicePanics(t *testing.T) {
	for _, n := range []int{100, 100 << 10} {
		a := newArena(t, nil)
		b := alloc(t, a, n)
		b.Retain()
		b.Release()
		b.Release()
		mustPanic(t, "a third Release", b.Release)
		b = alloc(t, a, n)
		b.Release()
		mustPanic(t, "Retain after Release", b.Retain)

		// In a checked arena even when the memory has a new owner.
		a = newArena(t, &ArenaOptions{Checked: true})
		b = alloc(t, a, n)
		h := b.Handle()
		b.Release()
		again := alloc(t, a, n)
		if again.Handle() != h || again == b {
			t.Fatalf("checked: %v, then %v, the same Block %v", h, again.Handle(), again == b)
		}
		mustPanic(t, "Release of a block that has a new owner", b.Release)
		again.Release()
	}
}

func TestCheckedFillsReleased(t *testing.T) {
	a := newArena(t, &ArenaOptions{Checked: true})
	for _, n := range []int{100, 100 << 10} {
		b := alloc(t, a, n)
		mem := b.Bytes()
		clear(mem)
		b.Release()
		if !bytes.Equal(mem, bytes.Repeat([]byte{mangle}, n)) {
			t.Errorf("%d bytes released hold %x…", n, mem[:16])
		}
	}
}

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

// TestCloseWaitsForBlocks: memory that somebody reads stays.
func TestCloseWaitsForBlocks(t *testing.T) {
	dir := smallTmpfs(t, "8m")
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

// TestArenaConcurrently is for the race detector, and counts at the end.
func TestArenaConcurrently(t *testing.T) {
	a := newArena(t, &ArenaOptions{First: 1 << 20})
	var wg sync.WaitGroup
	blocks := make(chan *Block, 64)
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 2000 {
				b, err := a.Alloc(rng.IntN(60 << 10))
				if err != nil {
					t.Error(err)
					return
				}
				if err := a.Lease(b, uint64(g)); err != nil {
					t.Error(err)
				}
				h := b.Handle()
				blocks <- b
				b, ours := <-blocks, b
				if i%2 == 0 {
					if err := a.Unlease(h, uint64(g)); err != nil {
						t.Error(err)
					}
				} else if again, err := a.Block(h); err != nil {
					t.Error(err) // our own lease holds it
				} else if again != ours {
					t.Errorf("%v is another block", h)
				} else {
					again.Release()
				}
				b.Release()
				if i%500 == 499 {
					a.ReleaseOwner(uint64(g))
					a.Trim()
					a.Stats()
				}
			}
		})
	}
	wg.Wait()
	close(blocks)
	for b := range blocks {
		b.Release()
	}
	for g := range 4 {
		a.ReleaseOwner(uint64(g))
	}
	if err := a.check(); err != nil {
		t.Fatal(err)
	}
	if s := a.Stats(); s.Blocks != 0 || s.Leases != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSteadyStateMakesNoGarbage(t *testing.T) {
	a := newArena(t, nil)
	sizes := []int{64, 1000, 32 << 10, 64 << 10, 1 << 20, 300 << 10}
	blocks := make([]*Block, len(sizes))
	round := func() {
		for i, n := range sizes {
			blocks[i] = alloc(t, a, n)
			if err := a.Lease(blocks[i], 7); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range blocks {
			if err := a.Unlease(b.Handle(), 7); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
	}
	round()
	runtime.GC()
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations a round, expected none", n)
	}
}

func BenchmarkAlloc(b *testing.B) {
	a := newArena(b, nil)
	for _, size := range []struct {
		name string
		n    int
	}{{"256", 256}, {"4K", 4 << 10}, {"64K", 64 << 10}, {"1M", 1 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				alloc(b, a, size.n).Release()
			}
		})
	}
	b.Run("lease", func(b *testing.B) {
		x := alloc(b, a, 4096)
		b.ReportAllocs()
		for b.Loop() {
			if err := a.Lease(x, 1); err != nil {
				b.Fatal(err)
			}
			if err := a.Unlease(x.Handle(), 1); err != nil {
				b.Fatal(err)
			}
		}
		x.Release()
	})
}
