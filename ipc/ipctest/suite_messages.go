package ipctest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
)

func testHello(t *testing.T, f *fixture) {
	l := f.listen(&ipc.Options{Hello: ipc.Peer{Role: ipc.RoleServer, Name: "the dispatcher", Note: "\x00 any bytes"}})
	a := f.dial(l, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: "w0", Note: strings.Repeat("\xff", wire.MaxNote)}})
	b := f.accept(l)
	if p := a.Peer(); p.Role != ipc.RoleServer || p.Name != "the dispatcher" || p.Note != "\x00 any bytes" || p.Version == 0 || p.PID == 0 {
		t.Errorf("dialer sees %+v", p)
	}
	if p := b.Peer(); p.Role != ipc.RoleWorker || p.Name != "w0" || len(p.Note) != wire.MaxNote || p.Version == 0 || p.PID == 0 {
		t.Errorf("listener sees %+v", p)
	}
	for _, c := range []ipc.Conn{a, b} {
		if got := c.Features(); got.Files == f.NoFiles || (got.Bulk != nil) != f.Bulk {
			t.Errorf("features %+v, expected files %v, bulk %v", got, !f.NoFiles, f.Bulk)
		}
	}
	if a.Err() != nil || b.Err() != nil {
		t.Errorf("new conn has errors %v, %v", a.Err(), b.Err())
	}
}

// testOrder has both directions busy at once, with messages of random sizes.
func testOrder(t *testing.T, f *fixture) {
	const n = 3000
	r := f.random()
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = r.IntN(1 << r.IntN(13))
	}
	a, b := f.pair(&ipc.Options{RingBytes: 1 << 16})
	var waits []func() error
	for _, c := range []ipc.Conn{a, b} {
		waits = append(waits, spawn(func() error {
			for i, size := range sizes {
				if err := send(f.ctx, c, uint32(i), size); err != nil {
					return err
				}
			}
			return nil
		}), spawn(func() error {
			for i, size := range sizes {
				if err := expect(f.ctx, c, uint32(i), size); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}

func testSizes(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	var sizes []int
	for n := range 70 {
		sizes = append(sizes, n)
	}
	for n := 128; n <= ipc.MaxMessage; n *= 2 {
		sizes = append(sizes, n-1, n)
		if n < ipc.MaxMessage {
			sizes = append(sizes, n+1)
		}
	}
	for i, n := range sizes {
		f.send(a, uint32(i), n)
		f.expect(b, uint32(i), n)
		f.send(b, uint32(i), n)
		f.expect(a, uint32(i), n)
	}
}

func testTooLarge(t *testing.T, f *fixture) {
	const ring = 1 << 14
	a, b := f.pair(&ipc.Options{RingBytes: ring})
	limit := ipc.MessageLimit(ring)
	for _, n := range []int{limit + 1, limit * 100, -1} {
		if _, err := a.Reserve(f.ctx, 1, n); !errors.Is(err, ipc.ErrMessageTooLarge) {
			t.Errorf("Reserve of %d bytes: %v", n, err)
		}
		if _, err := a.TryReserve(1, n); !errors.Is(err, ipc.ErrMessageTooLarge) {
			t.Errorf("TryReserve of %d bytes: %v", n, err)
		}
	}
	if _, err := a.TryReserve(ipc.MaxKind+1, 1); !errors.Is(err, ipc.ErrBadKind) {
		t.Errorf("TryReserve of kind %#x: %v", ipc.MaxKind+1, err)
	}
	// The conn is as well as before.
	f.send(a, ipc.MaxKind, limit)
	f.expect(b, ipc.MaxKind, limit)
}

// testWrap goes round a small queue many times, with every remainder in front of its end.
func testWrap(t *testing.T, f *fixture) {
	a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
	limit := ipc.MessageLimit(ipc.MinRingBytes)
	for i := range 4000 {
		n := i * 37 % (limit + 1)
		f.send(a, uint32(i), n)
		if i%3 != 0 {
			continue // have up to three in the queue
		}
		for k := max(0, i-2); k <= i; k++ {
			f.expect(b, uint32(k), k*37%(limit+1))
		}
	}
}

func testAbort(t *testing.T, f *fixture) {
	a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
	for i := range uint32(200) { // more than the queue holds
		buf, err := a.Reserve(f.ctx, 99, 500)
		f.must(err)
		pattern(buf, 7)
		a.Abort()
		f.send(a, i, 100)
		f.expect(b, i, 100)
	}
	if _, ok, err := b.TryRecv(); ok || err != nil {
		t.Errorf("TryRecv of an empty queue: %v, %v", ok, err)
	}
}

// testMisuse: a caller's bug panics, on every transport alike.
func testMisuse(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	panics := func(what string, do func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", what)
			}
		}()
		do()
	}
	panics("Commit without Reserve", func() { _ = a.Commit() })
	panics("Abort without Reserve", a.Abort)
	panics("Release without a message", a.Release)
	f.send(a, 1, 10)
	f.send(a, 2, 10)
	if _, err := b.Recv(f.ctx); err != nil {
		t.Fatal(err)
	}
	panics("TryRecv before Release", func() { _, _, _ = b.TryRecv() })
	b.Release()
	f.expect(b, 2, 10)
	if _, err := a.Reserve(f.ctx, 1, 1); err != nil {
		t.Fatal(err)
	}
	panics("Reserve before Commit", func() { _, _ = a.TryReserve(1, 1) })
}

func testStats(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	bytes := uint64(0)
	for i := range 10 {
		f.send(a, 1, i)
		f.expect(b, 1, i)
		bytes += uint64(i)
	}
	f.send(b, 2, 5)
	f.expect(a, 2, 5)
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"a sent messages", a.Stats().SentMessages, 10}, {"a sent bytes", a.Stats().SentBytes, bytes},
		{"a received messages", a.Stats().RecvMessages, 1}, {"a received bytes", a.Stats().RecvBytes, 5},
		{"b sent messages", b.Stats().SentMessages, 1}, {"b sent bytes", b.Stats().SentBytes, 5},
		{"b received messages", b.Stats().RecvMessages, 10}, {"b received bytes", b.Stats().RecvBytes, bytes},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, expected %d", c.what, c.got, c.want)
		}
	}
}

// fill sends messages until there is no room, and returns how many.
func fill(c ipc.Conn, n int) (int, error) {
	for i := 0; ; i++ {
		buf, err := c.TryReserve(uint32(i), n)
		if errors.Is(err, ipc.ErrFull) {
			return i, nil
		}
		if err != nil {
			return i, err
		}
		pattern(buf, uint32(i))
		if err := c.Commit(); err != nil {
			return i, err
		}
		if i > 1<<20 {
			return i, errors.New("the queue is never full")
		}
	}
}

// testFull: a sender that waits in Reserve goes on when there is room.
func testFull(t *testing.T, f *fixture) {
	a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
	n, err := fill(a, 200)
	f.must(err)
	if n == 0 {
		t.Fatal("an empty queue is full")
	}
	if a.Stats().Full == 0 {
		t.Error("Stats.Full is 0")
	}
	wait := spawn(func() error {
		for i := range 500 {
			if err := send(f.ctx, a, uint32(n+i), 1000); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range n {
		f.expect(b, uint32(i), 200)
	}
	for i := range 500 {
		f.expect(b, uint32(n+i), 1000)
	}
	f.must(wait())
}

// testFullWaiter: the same for a sender that sleeps on its Waiter.
func testFullWaiter(t *testing.T, f *fixture) {
	l := f.listen(&ipc.Options{RingBytes: ipc.MinRingBytes})
	w := f.waiter()
	a := f.dial(l, &ipc.Options{Waiter: w})
	b := f.accept(l)
	const n = 3000
	wait := spawn(func() error {
		for i := range n {
			var err error
			if errWait := w.Wait(f.ctx, func() bool {
				var buf []byte
				if buf, err = a.TryReserve(uint32(i), i%1000); err == nil {
					pattern(buf, uint32(i))
					err = a.Commit()
				}
				return err != ipc.ErrFull
			}); errWait != nil {
				return fmt.Errorf("message %d: %w", i, errWait)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i := range n {
		f.expect(b, uint32(i), i%1000)
	}
	f.must(wait())
}
