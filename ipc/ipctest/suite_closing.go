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
		for i := range uint32(100) {
			f.send(a, i, 200)
		}
		f.must(a.Close())
		for i := range uint32(100) {
			f.expect(b, i, 200)
		}
		if _, err := b.Recv(f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("Recv: %v", err)
		}
		if _, _, err := b.TryRecv(); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("TryRecv: %v", err)
		}
		if _, err := b.Reserve(f.ctx, 1, 1); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("Reserve: %v", err)
		}
		if !errors.Is(b.Err(), ipc.ErrPeerGone) {
			t.Errorf("Err: %v", b.Err())
		}
		var peer *ipc.PeerError
		if !errors.As(b.Err(), &peer) {
			t.Errorf("Err is no PeerError: %v", b.Err())
		}
	}
}

// testCloseUnblocks: our own Close ends our own waits.
func testCloseUnblocks(t *testing.T, f *fixture) {
	for range 5 {
		a, _ := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
		if _, err := fill(a, 1000); err != nil {
			t.Fatal(err)
		}
		recv := spawn(func() error { _, err := a.Recv(f.ctx); return err })
		reserve := spawn(func() error { _, err := a.Reserve(f.ctx, 1, 1000); return err })
		f.must(a.Close())
		if err := recv(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Recv: %v", err)
		}
		if err := reserve(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Reserve: %v", err)
		}
	}
}

func testPeerCloseUnblocks(t *testing.T, f *fixture) {
	for range 5 {
		a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
		if _, err := fill(a, 1000); err != nil {
			t.Fatal(err)
		}
		recv := spawn(func() error { _, err := a.Recv(f.ctx); return err })
		reserve := spawn(func() error { _, err := a.Reserve(f.ctx, 1, 1000); return err })
		f.must(b.Close())
		if err := recv(); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("Recv: %v", err)
		}
		if err := reserve(); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("Reserve: %v", err)
		}
	}
}

// testCloseConcurrently closes both ends from many goroutines while both are busy.
func testCloseConcurrently(t *testing.T, f *fixture) {
	for range 5 {
		a, b := f.pair(&ipc.Options{RingBytes: ipc.MinRingBytes})
		busy := []func() error{
			spawn(func() error { return sendUntil(f.ctx, a) }),
			spawn(func() error { return sendUntil(f.ctx, b) }),
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

func sendUntil(ctx context.Context, c ipc.Conn) error {
	for i := uint32(0); ; i = (i + 1) & ipc.MaxKind {
		if err := send(ctx, c, i, int(i%500)); err != nil {
			return err
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
	if _, err := a.Recv(f.ctx); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv: %v", err)
	}
	if _, _, err := a.TryRecv(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("TryRecv: %v", err)
	}
	if _, err := a.Reserve(f.ctx, 1, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Reserve: %v", err)
	}
	if _, err := a.TryReserve(1, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("TryReserve: %v", err)
	}
	if !errors.Is(a.Err(), net.ErrClosed) {
		t.Errorf("Err: %v", a.Err())
	}
	if a.Stats().RecvMessages != 0 {
		t.Errorf("Stats: %+v", a.Stats())
	}
	a.Peer()
}

// testCloseHolding: a conn may be closed with a message received or reserved.
func testCloseHolding(t *testing.T, f *fixture) {
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
	if err := b.Commit(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Commit: %v", err)
	}
	b.Release()
	if _, _, err := b.TryRecv(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("TryRecv: %v", err)
	}
}
