package ipctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

type fixture struct {
	Fixture
	t   *testing.T
	ctx context.Context // ends a test that hangs
}

func (f *fixture) waiter() ipc.Waiter {
	f.t.Helper()
	if f.NewWaiter == nil {
		return ipc.NewWaiter()
	}
	w, err := f.NewWaiter()
	f.must(err)
	return w
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) listen(o *ipc.Options) ipc.Listener {
	f.t.Helper()
	l, err := f.Transport.Listen(f.Addr(), o)
	f.must(err)
	f.t.Cleanup(func() { l.Close() })
	return l
}

func (f *fixture) dial(l ipc.Listener, o *ipc.Options) ipc.Conn {
	f.t.Helper()
	c, err := f.Transport.Dial(f.ctx, l.Addr(), o)
	f.must(err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

func (f *fixture) accept(l ipc.Listener) ipc.Conn {
	f.t.Helper()
	c, err := l.Accept(f.ctx)
	f.must(err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

// pair opens a conn and returns its two ends, the dialer's first.
func (f *fixture) pair(o *ipc.Options) (a, b ipc.Conn) {
	f.t.Helper()
	l := f.listen(o)
	a = f.dial(l, nil)
	return a, f.accept(l)
}

// send sends one message made by pattern.
func (f *fixture) send(c ipc.Conn, kind uint32, n int) {
	f.t.Helper()
	f.must(send(f.ctx, c, kind, n))
}

func send(ctx context.Context, c ipc.Conn, kind uint32, n int) error {
	buf, err := c.Reserve(ctx, kind, n)
	if err != nil {
		return fmt.Errorf("reserve message %d of %d bytes: %w", kind, n, err)
	}
	if len(buf) != n {
		return fmt.Errorf("reserved %d bytes for %d", len(buf), n)
	}
	pattern(buf, kind)
	return c.Commit()
}

// expect receives one message and checks that it is what send sent.
func (f *fixture) expect(c ipc.Conn, kind uint32, n int) {
	f.t.Helper()
	f.must(expect(f.ctx, c, kind, n))
}

func expect(ctx context.Context, c ipc.Conn, kind uint32, n int) error {
	m, err := c.Recv(ctx)
	if err != nil {
		return fmt.Errorf("message %d of %d bytes: %w", kind, n, err)
	}
	defer c.Release()
	if m.Kind != kind || len(m.Body) != n {
		return fmt.Errorf("message %d of %d bytes, expected %d of %d", m.Kind, len(m.Body), kind, n)
	}
	return checkPattern(m.Body, kind)
}

// trySend is send without the wait: ipc.ErrFull if there is no room now.
func trySend(c ipc.Conn, kind uint32, n int) error {
	buf, err := c.TryReserve(kind, n)
	if err != nil {
		return err
	}
	pattern(buf, kind)
	return c.Commit()
}

// sendAll sends the messages from first to before end, and expectAll receives them; size
// returns the length of each.
func sendAll(ctx context.Context, c ipc.Conn, first, end int, size func(i int) int) error {
	for i := first; i < end; i++ {
		if err := send(ctx, c, uint32(i), size(i)); err != nil {
			return err
		}
	}
	return nil
}

func expectAll(ctx context.Context, c ipc.Conn, first, end int, size func(i int) int) error {
	for i := first; i < end; i++ {
		if err := expect(ctx, c, uint32(i), size(i)); err != nil {
			return err
		}
	}
	return nil
}

// pattern fills buf with bytes that depend on the message and the place in it.
func pattern(buf []byte, kind uint32) {
	x := kind*2654435761 + 12345
	for i := range buf {
		x = x*1664525 + 1013904223
		buf[i] = byte(x >> 24)
	}
}

func checkPattern(buf []byte, kind uint32) error {
	want := make([]byte, len(buf))
	pattern(want, kind)
	for i, b := range buf {
		if b != want[i] {
			return fmt.Errorf("message %d: byte %d of %d is %#x, expected %#x", kind, i, len(buf), b, want[i])
		}
	}
	return nil
}

// random returns a generator whose seed is printed when the test fails.
func (f *fixture) random() *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// is fails the test unless err is or wraps target.
func (f *fixture) is(what string, err, target error) {
	f.t.Helper()
	if !errors.Is(err, target) {
		f.t.Errorf("%s: %v, expected %v", what, err, target)
	}
}

// ended fails the test unless every call on c returns target.
func (f *fixture) ended(c ipc.Conn, target error) {
	f.t.Helper()
	_, err := c.Recv(f.ctx)
	f.is("Recv", err, target)
	_, _, err = c.TryRecv()
	f.is("TryRecv", err, target)
	_, err = c.Reserve(f.ctx, 1, 1)
	f.is("Reserve", err, target)
	_, err = c.TryReserve(1, 1)
	f.is("TryReserve", err, target)
	f.is("Err", c.Err(), target)
}

// join fails the test for each of the errors that waits return.
func (f *fixture) join(waits ...func() error) {
	f.t.Helper()
	for _, wait := range waits {
		if err := wait(); err != nil {
			f.t.Error(err)
		}
	}
}

// spawn runs do in a goroutine and returns a function that waits for its result.
func spawn(do func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() error { return <-done }
}
