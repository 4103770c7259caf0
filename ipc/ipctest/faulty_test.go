package ipctest

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// TestFaultless: without faults the wrapper changes nothing.
func TestFaultless(t *testing.T) {
	Run(t, func(t *testing.T) Fixture {
		names := 0
		return Fixture{
			Transport: &Faulty{Transport: new(Network), Plan: func(int) Faults { return Faults{} }},
			Addr: func() string {
				names++
				return pipePrefix + string(rune('a'+names))
			},
		}
	})
}

// faultyPair is a conn of which the dialer's end, the first, has the faults.
func faultyPair(t *testing.T, faults Faults) (a, b ipc.Conn) {
	t.Helper()
	tr := &Faulty{Transport: new(Network), Plan: func(n int) Faults {
		if n == 0 {
			return faults
		}
		return Faults{}
	}}
	l, err := tr.Listen(pipePrefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if a, err = tr.Dial(context.Background(), l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(context.Background()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestDropAfterSent(t *testing.T) {
	ctx := context.Background()
	a, b := faultyPair(t, Faults{DropAfterSent: 2})
	for i := range uint32(2) {
		if err := send(ctx, a, i, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(ctx, a, 2, 10); !errors.Is(err, net.ErrClosed) {
		t.Errorf("third message: %v", err)
	}
	for i := range uint32(2) {
		if err := expect(ctx, b, i, 10); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("after the drop: %v", err)
	}
}

func TestDropAfterReceivedAndCorrupt(t *testing.T) {
	ctx := context.Background()
	a, b := faultyPair(t, Faults{DropAfterReceived: 3, Corrupt: func(n int, m ipc.Message) {
		if n == 2 {
			m.Body[5] ^= 1
		}
	}})
	for i := range uint32(4) {
		if err := send(ctx, b, i, 10); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(3) {
		if err := expect(ctx, a, i, 10); (err != nil) != (i == 1) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if _, _, err := a.TryRecv(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("fourth message: %v", err)
	}
	if err := send(ctx, b, 4, 10); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("the peer: %v", err)
	}
}
