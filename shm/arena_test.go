package shm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
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
		total, peak := 0, int64(0)
		for step := range 6000 {
			if len(live) == 0 || rng.IntN(20) < 11 && total < 40<<20 {
				n := size()
				shifted := rng.IntN(2) == 0
				b, err := a.Alloc(n)
				if shifted && err == nil {
					b.Release()
					b, err = a.AllocShifted(n, uint64(step))
				}
				if err != nil {
					t.Fatal(err)
				}
				if b.Len() != n || len(b.Bytes()) != n || b.Refs() != 1 || b.ReadOnly() {
					t.Fatalf("Alloc(%d): %d bytes, %d references", n, b.Len(), b.Refs())
				}
				h := b.Handle()
				if h.Off%minBlock != 0 || h.Len != uint64(n) || n > maxSmall && !shifted && h.Off%pageSize != 0 {
					t.Fatalf("Alloc(%d): handle %v", n, h)
				}
				if got, err := a.Block(h); err != nil || got != b {
					t.Fatalf("Alloc(%d): its handle %v names %v, %v", n, h, got, err)
				}
				b.Release()
				if k := bytes.Count(b.Bytes(), []byte{0}) + bytes.Count(b.Bytes(), []byte{mangle}); checked && k != n {
					t.Fatalf("%d bytes of a block of %d are neither new nor released", n-k, n)
				}
				peak = max(peak, a.Stats().InUse)
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
		if s.Blocks != 0 || s.InUse != 0 || s.Segments != 1 || s.Extents != 1 || s.Largest != s.Bytes || s.Allocs != s.Frees || s.Peak < peak || s.Peak > peak+4<<20 {
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
			if _, err := a.Segment(s.ID()); !errors.Is(err, ErrUnknownSegment) || a.Has(s.ID()) {
				t.Error("the arena used a segment before OnSegment")
			}
			sizes = append(sizes, s.Size())
		},
		OnTrim: func(id uint64) { trimmed = append(trimmed, id) },
	})
	var blocks []*Block
	for _, n := range []int{1 << 20, 1 << 20, 1 << 20, 4 << 20, 6 << 20} {
		blocks = append(blocks, alloc(t, a, n))
		if h := blocks[len(blocks)-1].Handle(); !a.Has(h.Segment) || a.Has(h.Segment+1) {
			t.Errorf("a block in segment %x: the arena has it: %v, and the next number: %v", h.Segment, a.Has(h.Segment), a.Has(h.Segment+1))
		}
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

// TestSecondSegment wants small blocks to take a small segment, and any further memory to
// come in larger ones.
func TestSecondSegment(t *testing.T) {
	for _, c := range []struct {
		blocks []int
		want   []int64
	}{
		{[]int{10, 20, 4 << 10}, []int64{1 << 18}},
		{[]int{10, 1 << 17, 1 << 17, 1 << 20}, []int64{1 << 18, 1 << 20, 2 << 20}},
		{[]int{1 << 18, 1 << 18, 10}, []int64{1 << 20}},
		{[]int{3 << 20, 10, 10}, []int64{3 << 20, 1 << 20}},
	} {
		var sizes []int64
		a := newArena(t, &ArenaOptions{First: 1 << 18, Second: 1 << 20, OnSegment: func(s *Segment) { sizes = append(sizes, s.Size()) }})
		for _, n := range c.blocks {
			defer alloc(t, a, n).Release()
		}
		if !slices.Equal(sizes, c.want) {
			t.Errorf("blocks of %v bytes: segments of %v, expected %v", c.blocks, sizes, c.want)
		}
	}
}

// TestTrimUnused wants a segment back when no block was in use between two calls, and
// none that has one, had one meanwhile, or is to be kept.
func TestTrimUnused(t *testing.T) {
	var gone []uint64
	a := newArena(t, &ArenaOptions{First: 1 << 20, OnTrim: func(id uint64) { gone = append(gone, id) }})
	none := func(uint64) bool { return false }
	first, second := alloc(t, a, 1<<20), alloc(t, a, 1<<20)
	small := alloc(t, a, 100)
	for range 2 {
		if n := a.TrimUnused(none); n != 0 {
			t.Fatalf("%d bytes of blocks in use are gone", n)
		}
	}
	first.Release()
	if n := a.TrimUnused(none); n != 0 {
		t.Errorf("%d bytes are gone that were in use since the last call", n)
	}
	keep := first.Handle().Segment
	if n := a.TrimUnused(func(id uint64) bool { return id == keep }); n != 0 {
		t.Errorf("%d bytes are gone that were to be kept", n)
	}
	if n := a.TrimUnused(none); n != 1<<20 || !slices.Equal(gone, []uint64{keep}) {
		t.Errorf("%d bytes of segments %x, expected those of %x", n, gone, keep)
	}
	second.Release()
	a.TrimUnused(none)
	if n := a.TrimUnused(none); n != 0 || !a.Has(small.Handle().Segment) {
		t.Errorf("%d bytes are gone, with a small block in use", n)
	}
	small.Release()
	alloc(t, a, 100).Release() // a slot of the same slab
	if n := a.TrimUnused(none); n != 0 {
		t.Errorf("%d bytes are gone that a small block used since the last call", n)
	}
	if n := a.TrimUnused(none); n != 2<<20 || a.Stats().Bytes != 0 {
		t.Errorf("%d bytes are gone and %d left, expected all", n, a.Stats().Bytes)
	}
	alloc(t, a, 1<<20).Release()
}

func TestArenaOnAFullTmpfs(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "1m")
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

// TestAllocShifted: large blocks of one size begin in different sets of a cache, and one
// fits where another was.
func TestAllocShifted(t *testing.T) {
	a := newArena(t, &ArenaOptions{First: 64 << 20})
	const n, blocks = 1 << 20, 8
	starts := map[uint64]bool{}
	var all []*Block
	for i := range blocks {
		b, err := a.AllocShifted(n, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		h := b.Handle()
		starts[h.Off%pageSize] = true
		if h.Off--; h.Len > 0 {
			if _, err := a.Block(h); !errors.Is(err, ErrBounds) && !errors.Is(err, ErrNotLive) {
				t.Errorf("a handle before a block's start: %v", err)
			}
		}
		all = append(all, b)
	}
	if len(starts) != blocks {
		t.Errorf("%d blocks begin at %d places of their pages: %v", blocks, len(starts), starts)
	}
	was := all[3].Handle().Off / pageSize
	all[3].Release()
	again, err := a.AllocShifted(n, 12345)
	if err != nil {
		t.Fatal(err)
	}
	if at := again.Handle().Off / pageSize; at != was {
		t.Errorf("a block as large as one that was freed at page %d lies at %d", was, at)
	}
	all[3] = again
	for _, b := range all {
		b.Release()
	}
	if err := a.check(); err != nil {
		t.Error(err)
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

// TestTrimExcept wants the segments without a block back, but for one that is to be kept.
func TestTrimExcept(t *testing.T) {
	a := newArena(t, &ArenaOptions{First: 1 << 20, Growth: 1 << 20, TrimAll: true})
	var blocks [2]*Block
	var ids [2]uint64
	for i := range blocks {
		b, err := a.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		blocks[i], ids[i] = b, b.Handle().Segment
	}
	for _, b := range blocks {
		b.Release()
	}
	n := a.TrimExcept(func(id uint64) bool { return id == ids[0] })
	if n != 1<<20 || !a.Has(ids[0]) || a.Has(ids[1]) {
		t.Errorf("%d bytes came back, and the arena has the segments %v, %v; expected 1 MiB and the first", n, a.Has(ids[0]), a.Has(ids[1]))
	}
}
