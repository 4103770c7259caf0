package ipctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// serve is a server of many conns in one goroutine: it accepts, echoes, and drops peers
// that are gone, until it has dropped the expected number.
func serve(ctx context.Context, w ipc.Waiter, l ipc.Listener, clients int) error {
	var conns []ipc.Conn
	dropped := 0
	var failed error
	step := func() bool {
		for c, ok := l.TryAccept(); ok; c, ok = l.TryAccept() {
			conns = append(conns, c)
		}
		conns = slices.DeleteFunc(conns, func(c ipc.Conn) bool {
			gone, err := echo(c)
			if gone {
				c.Close()
				dropped++
			}
			failed = errors.Join(failed, err)
			return gone
		})
		return dropped == clients || failed != nil
	}
	if err := w.Wait(ctx, step); err != nil {
		return fmt.Errorf("server with %d conns, %d dropped: %w", len(conns), dropped, err)
	}
	return failed
}

// echo answers what has come, as far as there is room for answers.
func echo(c ipc.Conn) (gone bool, err error) {
	for {
		m, ok, err := c.TryRecv()
		if errors.Is(err, ipc.ErrPeerGone) {
			return true, nil
		}
		if !ok || err != nil {
			return false, err
		}
		buf, err := c.TryReserve(m.Kind, len(m.Body))
		if err == nil {
			copy(buf, m.Body)
			err = c.Commit()
		}
		c.Release()
		if errors.Is(err, ipc.ErrPeerGone) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// testManyConns: clients of one server that sleeps on one Waiter, one message at a time.
func testManyConns(t *testing.T, f *fixture) {
	const clients, messages = 12, 100
	w := f.waiter()
	l := f.listen(&ipc.Options{Waiter: w, RingBytes: 1 << 14})
	server := spawn(func() error { return serve(f.ctx, w, l, clients) })
	var waits []func() error
	for range clients {
		waits = append(waits, spawn(func() error {
			c, err := f.Transport.Dial(f.ctx, l.Addr(), nil)
			if err != nil {
				return err
			}
			defer c.Close()
			for i := range uint32(messages) {
				if err := send(f.ctx, c, i, int(i)*7); err != nil {
					return err
				}
				if err := expect(f.ctx, c, i, int(i)*7); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	f.join(waits...)
	f.must(server())
}

// testManyConnsStream: two sleepers on one Waiter each: a client that streams to many
// servers' conns, of which every one may be full.
func testManyConnsStream(t *testing.T, f *fixture) {
	const conns, messages = 5, 400
	l := f.listen(&ipc.Options{RingBytes: ipc.MinRingBytes})
	w := f.waiter()
	var out []ipc.Conn
	var waits []func() error
	for range conns {
		out = append(out, f.dial(l, &ipc.Options{Waiter: w}))
		in := f.accept(l)
		waits = append(waits, spawn(func() error {
			return expectAll(f.ctx, in, 0, messages, func(i int) int { return i })
		}))
	}
	next := make([]int, conns)
	var failed error
	f.must(w.Wait(f.ctx, func() bool {
		left := 0
		for i, c := range out {
			for next[i] < messages {
				err := trySend(c, uint32(next[i]), next[i])
				if err == ipc.ErrFull {
					left++
					break
				}
				if failed = err; err != nil {
					return true
				}
				next[i]++
			}
		}
		return left == 0
	}))
	f.must(failed)
	f.join(waits...)
}

func testCancel(t *testing.T, f *fixture) {
	a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
	_, err := fill(a, 1000)
	f.must(err)
	l := f.listen(nil)
	w := f.waiter()
	why := errors.New("the reason")
	for _, c := range []struct {
		what string
		do   func(ctx context.Context) error
	}{
		{"Recv", func(ctx context.Context) error { _, err := a.Recv(ctx); return err }},
		{"Reserve", func(ctx context.Context) error { _, err := a.Reserve(ctx, 1, 1000); return err }},
		{"Accept", func(ctx context.Context) error { _, err := l.Accept(ctx); return err }},
		{"Wait", func(ctx context.Context) error { return w.Wait(ctx, func() bool { return false }) }},
	} {
		// Once with a context that is cancelled before, and several times with one that
		// is cancelled meanwhile: the same waiter is used again and again.
		for round := range 4 {
			ctx, cancel := context.WithCancelCause(f.ctx)
			if round == 0 {
				cancel(why)
			}
			wait := spawn(func() error { return c.do(ctx) })
			cancel(why)
			err := wait()
			if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s, round %d: %v", c.what, round, err)
			}
		}
	}
	// Both ends work as before.
	f.send(b, 1, 10)
	f.expect(a, 1, 10)
	f.expect(b, 0, 1000)
}

func testDeadline(t *testing.T, f *fixture) {
	a, _ := f.pair(nil)
	for range 2 {
		ctx, cancel := context.WithTimeout(f.ctx, 20*time.Millisecond)
		_, err := a.Recv(ctx)
		cancel()
		f.is("Recv", err, os.ErrDeadlineExceeded)
		f.is("Recv", err, context.DeadlineExceeded)
	}
	f.must(a.Err())
}

// testWaiterWake: Wake is for any other news that the goroutine waits for.
func testWaiterWake(t *testing.T, f *fixture) {
	w := f.waiter()
	for i := range int32(50) {
		var n atomic.Int32
		wait := spawn(func() error { return w.Wait(f.ctx, func() bool { return n.Load() == i+1 }) })
		for range i + 1 {
			n.Add(1)
			w.Wake()
		}
		f.must(wait())
	}
}

// testWaiterPark checks that Wait calls the functions given to OnPark before each sleep,
// and ready after them, until they are forgotten.
func testWaiterPark(t *testing.T, f *fixture) {
	w := f.waiter()
	var calls [2]int
	var forget [2]func()
	target := 0
	for i := range calls {
		forget[i] = w.OnPark(func() {
			calls[i]++
			if calls[i] < target {
				w.Wake() // else Wait must call ready once more, or it sleeps for good
			}
		})
	}
	sleepUntil := func(i, n int) {
		t.Helper()
		target = n
		f.must(w.Wait(f.ctx, func() bool { return calls[i] >= n }))
	}
	sleepUntil(0, 3)
	if calls[0] != calls[1] {
		t.Errorf("%v calls, expected as many of each", calls)
	}
	forget[0]()
	before := calls[0]
	sleepUntil(1, calls[1]+3)
	if calls[0] != before {
		t.Errorf("%d calls after forget", calls[0]-before)
	}
	forget[1]()
	forget[0]() // a second time does nothing
}
