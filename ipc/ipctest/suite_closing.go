package ipctest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// testCloseDelivers: what was committed before Close arrives, and then the news.
func testCloseDelivers(t *testing.T, f *fixture) {
	for _, dialerCloses := range []bool{true, false} {
		a, b := f.pair(nil)
		if !dialerCloses {
			a, b = b, a
		}
		size := func(int) int { return 200 }
		f.must(sendAll(f.ctx, a, 0, 100, size))
		f.must(a.Close())
		f.must(expectAll(f.ctx, b, 0, 100, size))
		f.ended(b, ipc.ErrPeerGone)
		var peer *ipc.PeerError
		if !errors.As(b.Err(), &peer) {
			t.Errorf("Err is no PeerError: %v", b.Err())
		}
	}
}

// testCloseUnblocks: our own Close ends our own waits.
func testCloseUnblocks(_ *testing.T, f *fixture) { f.unblocks(false, net.ErrClosed) }

func testPeerCloseUnblocks(_ *testing.T, f *fixture) { f.unblocks(true, ipc.ErrPeerGone) }

// unblocks has one end wait in both directions while it or its peer closes, and wants
// target from both waits.
func (f *fixture) unblocks(peer bool, target error) {
	f.t.Helper()
	for range 5 {
		a, closes := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
		if !peer {
			closes = a
		}
		_, err := fill(a, 1000)
		f.must(err)
		recv := spawn(func() error { _, err := a.Recv(f.ctx); return err })
		reserve := spawn(func() error { _, err := a.Reserve(f.ctx, 1, 1000); return err })
		f.must(closes.Close())
		f.is("Recv", recv(), target)
		f.is("Reserve", reserve(), target)
	}
}

// testCloseConcurrently closes both ends from many goroutines while both are busy.
func testCloseConcurrently(t *testing.T, f *fixture) {
	for range 5 {
		a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
		size := func(i int) int { return i % 500 }
		busy := []func() error{
			spawn(func() error { return sendAll(f.ctx, a, 0, ipc.MaxKind, size) }),
			spawn(func() error { return sendAll(f.ctx, b, 0, ipc.MaxKind, size) }),
			spawn(func() error { return recvUntil(f.ctx, a) }),
			spawn(func() error { return recvUntil(f.ctx, b) }),
		}
		var wg sync.WaitGroup
		for range 4 {
			for _, c := range []ipc.Conn{a, b} {
				wg.Go(func() {
					if err := c.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
			}
		}
		wg.Wait()
		for _, wait := range busy {
			if err := wait(); !errors.Is(err, net.ErrClosed) && !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("busy goroutine: %v", err)
			}
		}
	}
}

func recvUntil(ctx context.Context, c ipc.Conn) error {
	for {
		if _, err := c.Recv(ctx); err != nil {
			return err
		}
		c.Release()
	}
}

func testCloseIsFinal(t *testing.T, f *fixture) {
	a, b := f.pair(nil)
	f.send(b, 1, 100)
	f.must(a.Close())
	f.must(a.Close())
	f.ended(a, net.ErrClosed)
	if a.Stats().RecvMessages != 0 {
		t.Errorf("Stats: %+v", a.Stats())
	}
	a.Peer()
}

// testCloseHolding: a conn may be closed with a message received or reserved.
func testCloseHolding(_ *testing.T, f *fixture) {
	a, b := f.pair(nil)
	f.send(a, 1, 100)
	m, err := b.Recv(f.ctx)
	f.must(err)
	buf, err := b.Reserve(f.ctx, 2, 100)
	f.must(err)
	f.must(b.Close())
	f.must(a.Close())
	for i := range buf {
		buf[i] = m.Body[i] // what is in it does not matter, only that it can be touched
	}
	f.is("Commit", b.Commit(), net.ErrClosed)
	b.Release()
	f.ended(b, net.ErrClosed)
}
