package crosshost

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// tcpMesh is mesh over loopback TCP.
func tcpMesh(t testing.TB, n int) (conns [][]ipc.Conn, waiters []ipc.Waiter) {
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
	transport := tcp.New()
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
			conns, waiters := tcpMesh(t, n)
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

// TestCrossing: two ranks send each other more than sockets hold, twice, before either
// receives, and get it in order.
func TestCrossing(t *testing.T) {
	for name, pair := range map[string]func() ([][]ipc.Conn, []ipc.Waiter){
		"tcp":  func() ([][]ipc.Conn, []ipc.Waiter) { return tcpMesh(t, 2) },
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
