package ring

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

func TestInitAndAttachCheckTheMemory(t *testing.T) {
	good := func() []byte {
		mem := make([]byte, Size(256))
		if err := Init(mem); err != nil {
			t.Fatal(err)
		}
		return mem
	}
	for _, tc := range []struct {
		name string
		mem  []byte
		want string
	}{
		{"empty", nil, "0 bytes"},
		{"header only", make([]byte, HeaderSize), "512 bytes"},
		{"not a power of two", make([]byte, Size(96)), "608 bytes"},
		{"too small", make([]byte, Size(32)), "544 bytes"},
		{"misaligned", make([]byte, Size(256)+8)[4 : Size(256)+4], "not 8-byte aligned"},
	} {
		if err := Init(tc.mem); !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Init of memory that is %s: %v, expected ErrLayout with %q", tc.name, err, tc.want)
		}
	}
	for _, tc := range []struct {
		name   string
		damage func(mem []byte) []byte
		want   string
	}{
		{"never initialised", func(mem []byte) []byte { clear(mem); return mem }, "magic 0x0"},
		{"of another magic", func(mem []byte) []byte { mem[0]++; return mem }, "magic"},
		{"of another version", func(mem []byte) []byte { mem[offVersion]++; return mem }, "version 2, expected 1"},
		{"of another capacity", func(mem []byte) []byte { return mem[:Size(128)] }, "capacity 256, memory has 128"},
	} {
		_, err := NewProducer(tc.damage(good()))
		_, err2 := NewConsumer(tc.damage(good()), nil)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("attaching to a ring %s: %v, expected ErrLayout with %q", tc.name, err, tc.want)
			}
		}
	}
}

// TestLayoutGolden keeps the bytes: another process may be of another build.
func TestLayoutGolden(t *testing.T) {
	mem, p, c := heapRing(t, 64, nil)
	put := func(tag uint32, s string) {
		body, err := p.Reserve(len(s))
		if err != nil {
			t.Fatal(err)
		}
		copy(body, s)
		p.Commit(tag)
	}
	take := func() {
		if _, _, err := c.Peek(); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}
	put(1, "abc")
	put(0x01020304, "12345678901234567890")
	take()
	take()
	put(3, "0123456789abcdef") // behind padding
	if _, err := p.Reserve(24); err != ErrFull {
		t.Fatalf("Reserve: %v, expected ErrFull", err)
	}
	bell := make([]byte, BellSize)
	if err := InitBell(bell); err != nil {
		t.Fatal(err)
	}
	got := hex.Dump(mem) + hex.Dump(bell)
	const file = "testdata/layout1.hex"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the layout changed without its version; %s has\n%s\nnow it is\n%s", file, want, got)
	}
}

func TestMisusePanics(t *testing.T) {
	mustPanic := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", name)
			}
		}()
		f()
	}
	_, p, c := heapRing(t, 256, nil)
	mustPanic("Commit without a reservation", func() { p.Commit(1) })
	mustPanic("Abort without a reservation", func() { p.Abort() })
	mustPanic("Release without Peek", func() { c.Release() })
	if _, err := p.Reserve(8); err != nil {
		t.Fatal(err)
	}
	mustPanic("a second Reserve", func() { p.Reserve(8) })
	p.Commit(1)
	if _, _, err := c.Peek(); err != nil {
		t.Fatal(err)
	}
	c.Release()
	mustPanic("a second Release", func() { c.Release() })
	mustPanic("Reserve of a negative length", func() {
		if _, err := p.Reserve(-1); err == nil {
			t.Error("Reserve(-1) succeeded")
		} else {
			panic(err)
		}
	})
}

func TestRecordTooLarge(t *testing.T) {
	_, p, _ := heapRing(t, 1024, nil)
	if _, err := p.Reserve(p.MaxRecord() + 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Reserve of one more than MaxRecord: %v, expected ErrTooLarge", err)
	}
	if !p.CanReserve(p.MaxRecord() + 1) {
		t.Error("CanReserve would wait for ever for a record that never fits")
	}
}

// TestBesideAQueue runs random calls on rings of all small sizes beside a slice of
// slices, and checks each result.
func TestBesideAQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for capacity := MinCapacity; capacity <= 4096; capacity *= 2 {
		_, p, c := heapRing(t, capacity, nil)
		type record struct {
			tag  uint32
			body []byte
		}
		var queue []record // published
		var staged []record
		for step := range 20000 {
			switch rng.IntN(8) {
			case 0, 1, 2, 3:
				n := rng.IntN(p.MaxRecord() + 1)
				if rng.IntN(2) == 0 {
					n = rng.IntN(min(n+1, 40))
				}
				free, can := p.Free(), p.CanReserve(n)
				body, err := p.Reserve(n)
				if (err == nil) != (n <= free) || can != (err == nil) || err != nil && err != ErrFull {
					t.Fatalf("capacity %d, step %d: Reserve(%d) %v with Free %d, CanReserve %v", capacity, step, n, err, free, can)
				}
				if err != nil {
					// published, to make room
					queue, staged = append(queue, staged...), nil
					if len(queue) > 0 {
						break
					}
					// The consumer says that it has released the last when it looks for
					// more.
					if _, _, err := c.Peek(); err != ErrEmpty || !p.CanReserve(n) {
						t.Fatalf("capacity %d, step %d: an empty ring is full for %d bytes (Peek %v)", capacity, step, n, err)
					}
					break
				}
				if len(body) != n || cap(body) != n {
					t.Fatalf("Reserve(%d) returned length %d, capacity %d", n, len(body), cap(body))
				}
				tag := rng.Uint32()
				for i := range body {
					body[i] = byte(rng.Uint32())
				}
				r := record{tag, bytes.Clone(body)}
				switch rng.IntN(4) {
				case 0:
					p.Abort()
				case 1:
					p.Stage(tag)
					staged = append(staged, r)
				default:
					p.Commit(tag)
					queue, staged = append(append(queue, staged...), r), nil
				}
			case 4:
				p.Publish()
				queue, staged = append(queue, staged...), nil
			default:
				ready := c.Ready()
				tag, body, err := c.Peek()
				if ready != (err == nil) || ready != (len(queue) > 0) {
					t.Fatalf("capacity %d, step %d: Peek %v, Ready %v, %d records published", capacity, step, err, ready, len(queue))
				}
				if err != nil {
					break
				}
				if want := queue[0]; tag != want.tag || !bytes.Equal(body, want.body) {
					t.Fatalf("capacity %d, step %d: got tag %d and %x, expected %d and %x", capacity, step, tag, body, want.tag, want.body)
				}
				if rng.IntN(4) > 0 {
					c.Release()
					queue = queue[1:]
				}
			}
		}
		records, size := uint64(0), uint64(0) // still in the ring
		for _, r := range append(queue, staged...) {
			records++
			size += uint64(len(r.body))
		}
		if ps, cs := p.Stats(), c.Stats(); ps.Records != cs.Records+records || ps.Bytes != cs.Bytes+size || ps.Full == 0 {
			t.Errorf("capacity %d: producer counted %+v, consumer %+v, %d of %d bytes still in the ring", capacity, ps, cs, records, size)
		}
	}
}

// TestFullRingAsksOnce: a producer without room asks for it, and is rung when there
// is enough and not before.
func TestFullRingAsksOnce(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	_, p, c := heapRing(t, 1024, bell)
	for {
		if _, err := p.Reserve(24); err != nil {
			break
		}
		p.Commit(0)
	}
	const n = 200
	if _, err := p.Reserve(n); err != ErrFull {
		t.Fatalf("Reserve: %v, expected ErrFull", err)
	}
	bell.announce()
	for released := 0; ; released++ {
		can := p.CanReserve(n)
		if rung := bell.rung(); rung != can {
			t.Fatalf("after %d releases: rung %v, room %v", released, rung, can)
		}
		if can {
			break
		}
		if _, _, err := c.Peek(); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}
	bell.announce()
	if _, _, err := c.Peek(); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if bell.rung() {
		t.Error("the producer was rung twice for the same want")
	}
	if s := c.Stats(); s.Answers != 1 {
		t.Errorf("%d answers, expected 1", s.Answers)
	}
}

// TestPassed: a producer that waits for a position, not for room, asks and is rung when
// the consumer is there.
func TestPassed(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	_, p, c := heapRing(t, 1024, bell)
	if !p.Passed(p.Position()) {
		t.Error("of nothing, something was not passed")
	}
	var ends []uint64
	for range 5 {
		if _, err := p.Reserve(24); err != nil {
			t.Fatal(err)
		}
		p.Stage(0) // Passed publishes it
		ends = append(ends, p.Position())
	}
	for i, end := range ends {
		if p.Passed(end) {
			t.Fatalf("record %d was passed before it was read", i)
		}
		bell.announce()
		if _, _, err := c.Peek(); err != nil {
			t.Fatal(err)
		}
		if bell.rung() {
			t.Fatalf("rung before record %d was released", i)
		}
		c.Release()
		if !bell.rung() || !p.Passed(end) {
			t.Fatalf("record %d: rung %v, passed %v", i, bell.rung(), p.Passed(end))
		}
	}
	if _, err := p.Reserve(24); err != nil { // takes the question back
		t.Fatal(err)
	}
	p.Commit(0)
	bell.announce()
	if _, _, err := c.Peek(); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if bell.rung() {
		t.Error("rung though nobody asks any more")
	}
}

func TestProducerRefusesABadHead(t *testing.T) {
	for _, head := range []uint64{4, 8, 72, 1 << 63, ^uint64(7)} {
		mem, p, _ := heapRing(t, 256, nil)
		if _, err := p.Reserve(40); err != nil { // 48 bytes
			t.Fatal(err)
		}
		p.Commit(0)
		binary.LittleEndian.PutUint64(mem[offHead:], head)
		var err error
		for range 5 {
			if _, err = p.Reserve(100); err != nil {
				break
			}
			p.Commit(0)
		}
		// within what was published: no harm to the producer
		legal := head == 8 || head == 72
		if errors.Is(err, ErrCorrupt) == legal {
			t.Errorf("head %d: %v", head, err)
		}
		if !legal {
			if _, again := p.Reserve(100); again != err || p.Err() != err {
				t.Errorf("head %d: not sticky: %v, %v", head, again, p.Err())
			}
		}
	}
}

// FuzzConsumer gives the consumer a ring that a hostile producer has filled, and
// changes it under its hands.
func FuzzConsumer(f *testing.F) {
	f.Add([]byte{4, 0, 0, 0, 1, 0, 0, 0, 'a', 'b', 'c'}, uint64(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, uint64(3))
	f.Add([]byte{0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0}, uint64(1<<40))
	f.Add(bytes.Repeat([]byte{9, 0, 0, 0, 1, 0, 0, 0}, 32), uint64(5))
	f.Fuzz(func(t *testing.T, data []byte, want uint64) {
		bell := heapBell(t, newHeapFutex())
		mem, _, c := heapRing(t, 256, bell)
		copy(mem[HeaderSize:], data)
		binary.LittleEndian.PutUint64(mem[offWant:], want)
		for step := range 200 {
			ready := c.Ready()
			_, body, err := c.Peek()
			if ready != (err != ErrEmpty) {
				t.Fatalf("Ready %v, Peek %v", ready, err)
			}
			if err != nil {
				_, _, again := c.Peek()
				if again != err || err != ErrEmpty && c.Err() != err {
					t.Fatalf("%v is not sticky: %v, %v", err, again, c.Err())
				}
				return
			}
			if len(body) > 256-recordHeader || c.head%8 != 0 || c.next-c.head != recordSize(uint64(len(body))) {
				t.Fatalf("a body of %d bytes at %d to %d", len(body), c.head, c.next)
			}
			for i := range body {
				body[i] ^= byte(step)
			}
			c.Release()
		}
	})
}

// FuzzProducer gives the producer heads that no correct consumer stores.
func FuzzProducer(f *testing.F) {
	f.Add(uint64(0), uint64(48), uint16(40))
	f.Add(uint64(1), uint64(1<<63), uint16(100))
	f.Fuzz(func(t *testing.T, head1, head2 uint64, n uint16) {
		mem, p, _ := heapRing(t, 256, nil)
		for i := range 20 {
			head := head1
			if i%2 == 1 {
				head = head2
			}
			binary.LittleEndian.PutUint64(mem[offHead:], head)
			body, err := p.Reserve(int(n) % 121)
			if err == ErrFull {
				continue
			}
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatal(err)
				}
				return
			}
			for i := range body {
				body[i] = 0xAA
			}
			p.Commit(1)
			if p.tail-p.head > p.capacity-recordHeader {
				t.Fatalf("tail %d, head %d: more than the ring holds", p.tail, p.head)
			}
		}
	})
}

func TestHotCallsDoNotAllocate(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	_, p, c := heapRing(t, 1024, bell)
	w := NewWaiter(bell, nil)
	ready, no := c.Ready, func() bool { return false }
	if n := testing.AllocsPerRun(1000, func() {
		for range 3 {
			if _, err := p.Reserve(100); err != nil {
				t.Fatal(err)
			}
			p.Commit(1)
		}
		if _, err := p.Reserve(p.MaxRecord()); err != nil && err != ErrFull {
			t.Fatal(err)
		} else if err == nil {
			p.Abort()
		}
		bell.Ring()
		w.Wait(ready, nil)
		for {
			if _, _, err := c.Peek(); err != nil {
				break
			}
			c.Release()
		}
		w.WaitFor(no, no, 0)
		_ = p.Free()
	}); n != 0 {
		t.Errorf("%v allocations a round, expected none", n)
	}
}
