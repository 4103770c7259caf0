package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
)

// TestDamage: whatever a program between two peers does to their bytes, each gets what
// the other sent, or an error that names it.
func TestDamage(t *testing.T) {
	const seeds = 12
	for _, fault := range nettest.Faults {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprint(fault, "/", seed), func(t *testing.T) {
				t.Parallel()
				damage(t, fault, seed, nil)
			})
			t.Run(fmt.Sprint("TLS/", fault, "/", seed), func(t *testing.T) {
				t.Parallel()
				damage(t, fault, seed, &ipc.TLS{})
			})
		}
	}
}

// damage exchanges messages and bulk transfers over a forwarder until an error, or to the
// end.
func damage(t *testing.T, fault nettest.Fault, seed uint64, tls *ipc.TLS) {
	ctx := testContext(t)
	var ends [2]end
	for i := range ends {
		ends[i].w = ipc.NewWaiter()
	}
	options := func(i int) *ipc.Options {
		return &ipc.Options{Waiter: ends[i].w, Secret: []byte("s"), TLS: tls, Hello: ipc.Peer{Name: []string{"first", "second"}[i]}}
	}
	tr := tcp.NewQuick()
	l, err := tr.Listen("127.0.0.1:0", options(0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// Behind the greetings, which are tested elsewhere.
	from := int64(1000)
	if tls != nil {
		from = 4000
	}
	f := nettest.Forward(t, l.Addr(), fault, seed, from, 200_000)
	dialed, err := tr.Dial(ctx, f.Addr(), options(1))
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	ends[0], ends[1] = newEnd(accepted, ends[0].w), newEnd(dialed, ends[1].w)
	var errs [2]error
	errs[0], errs[1] = both(t, func() error { return ends[0].talk(ctx, seed, 0) }, func() error { return ends[1].talk(ctx, seed, 1) })
	if err := errors.Join(errs[:]...); (err == nil) != (fault == nettest.Delay) || f.Done() == 0 {
		t.Fatalf("seed %d, %d faults: %v", seed, f.Done(), err)
	}
	for _, err := range errs {
		var peer *ipc.PeerError
		var mismatch *ipc.BulkMismatchError
		switch {
		case err == nil, errors.As(err, &mismatch):
		case !errors.As(err, &peer) || !errors.Is(err, ipc.ErrPeerGone) && !errors.Is(err, ipc.ErrCorrupt):
			t.Errorf("seed %d: %v", seed, err)
		case fault == nettest.Flip && errors.Is(err, ipc.ErrCorrupt) && !errors.Is(err, ipc.ErrDamaged):
			t.Errorf("seed %d: a bit that was flipped is taken for the peer's fault: %v", seed, err)
		}
	}
}

// talk sends and receives rounds of one message and one transfer each. The seed gives the
// bytes of end i, so the other one knows them.
func (e end) talk(ctx context.Context, seed uint64, i int) error {
	own, peers := rand.New(rand.NewPCG(seed, uint64(i))), rand.New(rand.NewPCG(seed, uint64(1-i)))
	defer e.Close() // the peer need not wait
	for round := range uint64(30) {
		message, bulk := fill(own, 1+own.IntN(5000)), fill(own, own.IntN(20_000))
		if buf, err := e.Reserve(ctx, uint32(round), len(message)); err != nil {
			return err
		} else if copy(buf, message); e.Commit() != nil {
			return e.Err()
		}
		wantMessage, wantBulk := fill(peers, 1+peers.IntN(5000)), fill(peers, peers.IntN(20_000))
		got := make([]byte, len(wantBulk))
		if err := e.exchange(ctx, round, [][]byte{bulk}, [][]byte{got}); err != nil {
			return err
		}
		m, err := e.Recv(ctx)
		if err != nil {
			return err
		}
		if m.Kind != uint32(round) || !bytes.Equal(m.Body, wantMessage) || !bytes.Equal(got, wantBulk) {
			return fmt.Errorf("round %d: wrong data was delivered", round)
		}
		e.Release()
	}
	return nil
}
