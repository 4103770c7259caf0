package ipctest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

func testHello(t *testing.T, f *fixture) {
	l := f.listen(&ipc.Options{Hello: ipc.Peer{Role: ipc.RoleServer, Name: "the dispatcher", Note: "\x00 any bytes"}})
	a := f.dial(l, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: "w0", Note: strings.Repeat("\xff", encoding.MaxNote)}})
	b := f.accept(l)
	if p := a.Peer(); p.Role != ipc.RoleServer || p.Name != "the dispatcher" || p.Note != "\x00 any bytes" || p.Version == 0 || p.PID == 0 {
		t.Errorf("dialer sees %+v", p)
	}
	if p := b.Peer(); p.Role != ipc.RoleWorker || p.Name != "w0" || len(p.Note) != encoding.MaxNote || p.Version == 0 || p.PID == 0 {
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
	size := func(i int) int { return sizes[i] }
	for _, c := range []ipc.Conn{a, b} {
		waits = append(waits, spawn(func() error { return sendAll(f.ctx, c, 0, n, size) }),
			spawn(func() error { return expectAll(f.ctx, c, 0, n, size) }))
	}
	f.join(waits...)
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
		_, err := a.Reserve(f.ctx, 1, n)
		f.is(fmt.Sprintf("Reserve of %d bytes", n), err, ipc.ErrMessageTooLarge)
		_, err = a.TryReserve(1, n)
		f.is(fmt.Sprintf("TryReserve of %d bytes", n), err, ipc.ErrMessageTooLarge)
	}
	_, err := a.TryReserve(ipc.MaxKind+1, 1)
	f.is("TryReserve of a kind above MaxKind", err, ipc.ErrBadKind)
	// The conn is as well as before.
	f.send(a, ipc.MaxKind, limit)
	f.expect(b, ipc.MaxKind, limit)
}

// testWrap goes round a small queue many times, with every remainder in front of its end.
func testWrap(t *testing.T, f *fixture) {
	a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
	size := func(i int) int { return i * 37 % (ipc.MessageLimit(ipc.MinRingBytes) + 1) }
	for i := range 4000 {
		f.send(a, uint32(i), size(i))
		if i%3 == 0 { // have up to three in the queue
			f.must(expectAll(f.ctx, b, max(0, i-2), i+1, size))
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
	_, err := b.Recv(f.ctx)
	f.must(err)
	panics("TryRecv before Release", func() { _, _, _ = b.TryRecv() })
	b.Release()
	f.expect(b, 2, 10)
	_, err = a.Reserve(f.ctx, 1, 1)
	f.must(err)
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
		got, want ipc.Stats
	}{
		{"a", a.Stats(), ipc.Stats{SentMessages: 10, SentBytes: bytes, RecvMessages: 1, RecvBytes: 5}},
		{"b", b.Stats(), ipc.Stats{SentMessages: 1, SentBytes: 5, RecvMessages: 10, RecvBytes: bytes}},
	} {
		if c.got.Wakes = 0; c.got != c.want { // how often a peer slept is its own matter
			t.Errorf("%s: %+v, expected %+v", c.what, c.got, c.want)
		}
	}
}

// fill sends messages until there is no room, and returns how many.
func fill(c ipc.Conn, n int) (int, error) {
	for i := 0; ; i++ {
		if err := trySend(c, uint32(i), n); errors.Is(err, ipc.ErrFull) {
			return i, nil
		} else if err != nil {
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
	size := func(i int) int {
		if i < n {
			return 200
		}
		return 1000
	}
	wait := spawn(func() error { return sendAll(f.ctx, a, n, n+500, size) })
	f.must(expectAll(f.ctx, b, 0, n+500, size))
	f.must(wait())
}

// testFullWaiter: the same for a sender that sleeps on its Waiter.
func testFullWaiter(t *testing.T, f *fixture) {
	l := f.listen(&ipc.Options{RingBytes: ipc.MinRingBytes})
	w := f.waiter()
	a := f.dial(l, &ipc.Options{Waiter: w})
	b := f.accept(l)
	const n = 3000
	size := func(i int) int { return i % 1000 }
	wait := spawn(func() error {
		for i := range n {
			var err error
			if errWait := w.Wait(f.ctx, func() bool {
				err = trySend(a, uint32(i), size(i))
				return err != ipc.ErrFull
			}); errWait != nil || err != nil {
				return fmt.Errorf("message %d: %w", i, errors.Join(errWait, err))
			}
		}
		return nil
	})
	f.must(expectAll(f.ctx, b, 0, n, size))
	f.must(wait())
}
