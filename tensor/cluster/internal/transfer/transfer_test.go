package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/transfer"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// pair returns two ends of a connection that one waiter wakes.
func pair(t *testing.T) (ctx context.Context, w ipc.Waiter, a, b *transfer.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	w = ipc.NewWaiter()
	l, err := tcp.New().Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	dialed, err := tcp.New().Dial(ctx, l.Addr(), &ipc.Options{Waiter: w})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return ctx, w, transfer.New(dialed, 0), transfer.New(accepted, 7)
}

func name(i int) wire.Handle { return wire.Handle{Segment: 1, Off: uint64(i) * 64, Len: 1} }

// TestConn sends blocks of many sizes both ways at once, and messages about them, which
// come in order with the blocks that they name.
func TestConn(t *testing.T) {
	ctx, w, a, b := pair(t)
	const blocks = 40
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ends := []*transfer.Conn{a, b}
	var sent, got [2][][]byte
	for e, c := range ends {
		for i := range blocks {
			from, to := make([]byte, 1+r.IntN(1<<r.IntN(20))), []byte(nil)
			for k := range from {
				from[k] = byte(r.Uint32())
			}
			to = make([]byte, len(from))
			sent[e], got[e] = append(sent[e], from), append(got[e], to)
			cut := r.IntN(len(from))
			c.Say(wire.KindPush, name(i))
			c.Send.Add(transfer.Block{Handle: name(i), Parts: [][]byte{from}})
			ends[1-e].Recv.Add(transfer.Block{Handle: name(i), Parts: [][]byte{to[:cut], to[cut:]}})
		}
	}
	var heard [2]int
	var failed error
	if err := w.Wait(ctx, func() bool {
		done := true
		for e, c := range ends {
			if _, failed = c.Step(); failed != nil {
				return true
			}
			for ok := true; ok && failed == nil; {
				ok, failed = c.Hear(func(kind uint32, h wire.Handle) error {
					if kind != wire.KindPush || h != name(heard[e]) {
						t.Errorf("message %d is %s of %v", heard[e], wire.KindName(kind), h)
					}
					heard[e]++
					return nil
				})
			}
			done = done && failed == nil && c.Send.Moved == blocks && c.Recv.Moved == blocks && heard[e] == blocks
		}
		if !done {
			w.Wake() // only one of the two ends wakes it
		}
		return done || failed != nil
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for e := range ends {
		for i := range sent[e] {
			if !bytes.Equal(sent[e][i], got[e][i]) {
				t.Errorf("end %d, block %d of %d bytes: other bytes came", e, i, len(sent[e][i]))
			}
		}
	}
}

// TestDrop tests that blocks are released as they are dropped, one after the other and
// all at once.
func TestDrop(t *testing.T) {
	_, _, a, _ := pair(t)
	arena, err := shm.NewArena(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	var memory []*shm.Block
	refs := func() (n []int) {
		for _, m := range memory {
			n = append(n, int(m.Refs()))
		}
		return n
	}
	for range 3 {
		m, err := arena.Alloc(100)
		if err != nil {
			t.Fatal(err)
		}
		m.Retain() // the test's
		defer m.Release()
		memory = append(memory, m)
		a.Send.Add(transfer.Block{Memory: m})
	}
	a.Recv.Add(transfer.Block{}) // without memory
	a.Send.Drop()
	if n := refs(); !slices.Equal(n, []int{1, 2, 2}) {
		t.Errorf("%v references after the first block was dropped, expected 1, 2, 2", n)
	}
	a.Close()
	a.Drop()
	if n := refs(); !slices.Equal(n, []int{1, 1, 1}) || len(a.Send.Blocks)+len(a.Recv.Blocks) != 0 {
		t.Errorf("%v references, %d and %d blocks are left", n, len(a.Send.Blocks), len(a.Recv.Blocks))
	}
}

// TestHearBroken tests that what is no message about a block, or one that the caller
// refuses, ends the connection.
func TestHearBroken(t *testing.T) {
	refuse := errors.New("not now")
	for what, body := range map[string][]byte{
		"too short": {1, 2, 3},
		"refused":   wire.Append(nil, &wire.Transfer{Handle: name(1)}),
	} {
		ctx := context.Background()
		w := ipc.NewWaiter()
		l, err := tcp.New().Listen("127.0.0.1:0", &ipc.Options{Waiter: w})
		if err != nil {
			t.Fatal(err)
		}
		c, err := tcp.New().Dial(ctx, l.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := ipc.Send(ctx, c, ipc.Message{Kind: wire.KindPull, Body: body}); err != nil {
			t.Fatal(err)
		}
		b, heard := transfer.New(accepted, 7), false
		if errWait := w.Wait(ctx, func() bool {
			heard, err = b.Hear(func(uint32, wire.Handle) error { return refuse })
			return heard || err != nil
		}); errWait != nil || !heard || !errors.Is(err, ipc.ErrCorrupt) || errors.Is(err, refuse) != (what == "refused") {
			t.Errorf("%s: heard %v, %v, %v", what, heard, err, errWait)
		}
		b.Close()
		c.Close()
		l.Close()
	}
}
