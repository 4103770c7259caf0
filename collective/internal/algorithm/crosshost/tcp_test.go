package crosshost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
)

// tcpMesh is mesh over loopback TCP.
func tcpMesh(t testing.TB, n int, transport ipc.Transport) (conns [][]ipc.Conn, waiters []ipc.Waiter) {
	t.Helper()
	conns = make([][]ipc.Conn, n)
	for i := range n {
		conns[i] = make([]ipc.Conn, n)
		w, err := local.NewWaiter()
		if err != nil {
			t.Fatal(err)
		}
		waiters = append(waiters, w)
	}
	hello := func(i int) *ipc.Options {
		return &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleRank, Name: fmt.Sprint("rank ", i)}, Waiter: waiters[i], Secret: []byte("a secret")}
	}
	for j := range n {
		l, err := transport.Listen("127.0.0.1:0", hello(j))
		if err != nil {
			t.Fatal(err)
		}
		for i := j + 1; i < n; i++ {
			if conns[i][j], err = transport.Dial(t.Context(), l.Addr(), hello(i)); err != nil {
				t.Fatal(err)
			}
			if conns[j][i], err = l.Accept(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
	}
	return conns, waiters
}

// TestTCP: the same script over sockets.
func TestTCP(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	for _, n := range []int{2, 3, 4} {
		for _, count := range []int{0, 17, 20_000} {
			var fold protocol.Fold
			if n == 4 {
				fold = protocol.Fold{2, 2}
			}
			conns, waiters := tcpMesh(t, n, tcp.New())
			comms := world(t, conns, waiters, Options{Fold: fold, OneShot: 40_000})
			each(t, n, func(ctx context.Context, r int) error {
				_, err := script(ctx, comms[r], fold, seed+uint64(n*count), count, []element.DType{element.F32, element.BF16})
				return err
			})
			if t.Failed() {
				t.Fatalf("%d ranks, %d elements", n, count)
			}
		}
	}
}

// TestDamage: whatever a program between the ranks does to their bytes, each collective
// is right or an error on every rank that names one.
func TestDamage(t *testing.T) {
	for _, fault := range nettest.Faults {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(fault, "/", seed), func(t *testing.T) {
				t.Parallel()
				through := &nettest.Through{Transport: tcp.New(), T: t, Fault: fault, Seed: seed * 10, From: 2000, Among: 300_000}
				conns, waiters := tcpMesh(t, 3, through)
				comms := world(t, conns, waiters, Options{OneShot: 40_000})
				errs := all(t, 3, func(ctx context.Context, r int) error {
					_, err := script(ctx, comms[r], nil, seed, 20_000, []element.DType{element.F32})
					return err
				})
				for r, err := range errs {
					var peer *protocol.PeerError
					if fault == nettest.Delay && err != nil || fault != nettest.Delay && !errors.As(err, &peer) {
						t.Errorf("seed %d, rank %d: %v", seed, r, err)
					}
				}
				if through.Done() == 0 {
					t.Error("no fault was done")
				}
			})
		}
	}
}

// TestCrossing: two ranks send each other more than sockets hold, twice, before either
// receives, and get it in order.
func TestCrossing(t *testing.T) {
	for name, pair := range map[string]func() ([][]ipc.Conn, []ipc.Waiter){
		"tcp":  func() ([][]ipc.Conn, []ipc.Waiter) { return tcpMesh(t, 2, tcp.New()) },
		"fake": func() ([][]ipc.Conn, []ipc.Waiter) { return mesh(t, 2, 1000, nil) },
	} {
		const size = 12 << 20
		conns, waiters := pair()
		comms := world(t, conns, waiters, Options{})
		each(t, 2, func(ctx context.Context, r int) error {
			mine, got := bytes.Repeat([]byte{byte(r)}, size), make([]byte, size)
			for s := range uint64(2) {
				mine[0] = byte(10 + s)
				if err := comms[r].Send(ctx, protocol.Call{Seq: s + 1, DType: element.U8, Count: size}, 1-r, mine); err != nil {
					return err
				}
			}
			for s := range uint64(2) {
				if err := comms[r].Recv(ctx, protocol.Call{Seq: s + 1, DType: element.U8, Count: size}, 1-r, got); err != nil {
					return err
				}
				want := bytes.Repeat([]byte{byte(1 - r)}, size)
				want[0] = byte(10 + s)
				if err := differs(name, got, want); err != nil {
					return err
				}
			}
			return comms[r].Barrier(ctx, protocol.Call{Seq: 1, Kind: protocol.Barrier})
		})
	}
}
