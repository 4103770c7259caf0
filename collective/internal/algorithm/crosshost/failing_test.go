package crosshost

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// crash is what the kernel does when a process dies: its ends close without a reason.
func crash(c *Comm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.peers {
		if p != c.rank {
			c.peers[p].conn.Close()
		}
	}
}

// TestDeath: a rank dies before a call, while others wait for it directly or through a
// third.
func TestDeath(t *testing.T) {
	for _, c := range []struct {
		name string
		dies int
		w    calling
	}{
		{"all-reduce", 2, calling{call: protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 10}}},
		{"large all-reduce", 0, calling{call: protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 100_000}}},
		{"tree", 4, calling{call: protocol.Call{Seq: 1, Kind: protocol.Broadcast, DType: element.F32, Count: 10}, root: 4}},
		{"barrier", 3, calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			comms := fakeWorld(t, 5, Options{})
			for r, err := range all(t, 5, func(ctx context.Context, r int) error {
				if r == c.dies {
					crash(comms[r])
					return nil
				}
				return c.w.do(ctx, comms[r])
			}) {
				if r == c.dies {
					continue
				}
				var e *protocol.PeerError
				if !errors.Is(err, protocol.ErrPeerLost) || !errors.As(err, &e) || e.Rank != c.dies {
					t.Errorf("rank %d: %v", r, err)
				}
				if again := comms[r].Barrier(t.Context(), protocol.Call{Seq: 2, Kind: protocol.Barrier}); again != err {
					t.Errorf("rank %d: the next call returns %v", r, again)
				}
			}
		})
	}
}

// TestDeathMidway: a rank dies at a random moment of a series of calls; the others all
// learn of it, and of nothing else.
func TestDeathMidway(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const n = 4
	for round := range 40 {
		conns, waiters := mesh(t, n, 500, rng)
		comms := world(t, conns, waiters, Options{Chunk: 256, OneShot: 64})
		dies, after := rng.IntN(n), rng.IntN(300)
		errs := all(t, n, func(ctx context.Context, r int) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if r == dies {
				received := &comms[r].stats.recvBytes
				go func() {
					defer cancel()
					for received.Load() < uint64(256*after) && ctx.Err() == nil {
						// there is nothing to wait for: look again and again
						waiters[r].Wake()
					}
					// it says no more
					comms[r].dead.CompareAndSwap(nil, &protocol.PeerError{Err: errors.New("killed")})
					for p, conn := range conns[r] {
						if p != r {
							conn.Close()
						}
					}
				}()
			}
			for s := uint64(0); ; s++ {
				if _, err := script(ctx, comms[r], nil, seed+s, 50, []element.DType{element.F32}); err != nil {
					return err
				}
			}
		})
		for r, err := range errs {
			var e *protocol.PeerError
			if r != dies && (!errors.Is(err, protocol.ErrPeerLost) || !errors.As(err, &e) || e.Rank != dies) {
				t.Fatalf("round %d, rank %d, when %d died: %v", round, r, dies, err)
			}
		}
	}
}

// TestLeaving: a rank that is done may leave while others are still in the call.
func TestLeaving(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		const n = 5
		conns, waiters := mesh(t, n, 100, rng)
		comms := world(t, conns, waiters, Options{OneShot: 1 << 20})
		w := calling{call: protocol.Call{Seq: 1, Kind: protocol.Broadcast, DType: element.U8, Count: 500}, root: rng.IntN(n)}
		each(t, n, func(ctx context.Context, r int) error {
			if err := w.do(ctx, comms[r]); err != nil {
				return err
			}
			return comms[r].Close()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	comms := fakeWorld(t, 2, Options{})
	comms[1].Close()
	err := calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.do(t.Context(), comms[0])
	if !errors.Is(err, protocol.ErrPeerLost) {
		t.Errorf("a rank left before the call: %v", err)
	}
	if err := comms[1].Barrier(t.Context(), protocol.Call{Seq: 1, Kind: protocol.Barrier}); !errors.Is(err, protocol.ErrAborted) {
		t.Errorf("a call after Close: %v", err)
	}
}

// TestTimeout: ranks that do not come are named, on all that wait.
func TestTimeout(t *testing.T) {
	t.Parallel() // it waits most of the time
	comms := fakeWorld(t, 5, Options{Timeout: time.Second})
	w := calling{call: protocol.Call{Seq: 7, Kind: protocol.AllReduce, Op: element.Sum, DType: element.I64, Count: 3}}
	for r, err := range all(t, 5, func(ctx context.Context, r int) error {
		if r == 1 || r == 3 {
			return nil
		}
		return w.do(ctx, comms[r])
	}) {
		if r == 1 || r == 3 {
			continue
		}
		var e *protocol.PeerError
		if !errors.Is(err, protocol.ErrTimeout) || !errors.As(err, &e) || fmt.Sprint(e.Missing) != "[1 3]" || e.Rank != 1 || e.Call.Seq != 7 {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	err := w.do(t.Context(), comms[1])
	if !errors.Is(err, protocol.ErrTimeout) || !strings.Contains(err.Error(), "waited") {
		t.Errorf("the rank that came late: %v", err)
	}
}

// TestHang: a rank does not name a late rank that itself waits.
func TestHang(t *testing.T) {
	t.Parallel() // it waits most of the time
	const n, hangs = 7, 4
	comms := fakeWorld(t, n, Options{Timeout: time.Second})
	w := calling{call: protocol.Call{Seq: 1, Kind: protocol.Broadcast, DType: element.F32, Count: 10}, root: hangs}
	for r, err := range all(t, n, func(ctx context.Context, r int) error {
		if r == hangs {
			return nil
		}
		return w.do(ctx, comms[r])
	}) {
		var e *protocol.PeerError
		if r != hangs && (!errors.Is(err, protocol.ErrTimeout) || !errors.As(err, &e) || fmt.Sprint(e.Missing) != "[4]") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestSlow: a transfer that takes longer than the timeout is no hang while it moves, on
// either side.
func TestSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three seconds, so as to be slower than a timeout that is long enough for a busy machine")
	}
	conns, waiters := mesh(t, 2, 100, nil)
	comms := world(t, conns, waiters, Options{Timeout: 1500 * time.Millisecond})
	var turns atomic.Int32 // of reading 100 bytes
	conns[1][0].(*fake).turns = &turns
	done := make(chan struct{})
	var pacing sync.WaitGroup
	pacing.Go(func() {
		pace := time.NewTicker(30 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-done:
				return
			case <-pace.C:
				turns.Store(1)
				waiters[1].Wake()
			}
		}
	})
	each(t, 2, func(ctx context.Context, r int) error {
		call, b := protocol.Call{Seq: 1, DType: element.U8, Count: 10_000}, make([]byte, 10_000)
		if r == 0 {
			return comms[0].Send(ctx, call, 1, b)
		}
		return comms[1].Recv(ctx, call, 0, b)
	})
	close(done)
	pacing.Wait()
}

// TestContext: one rank's context ends; the others learn that it gave up.
func TestContext(t *testing.T) {
	w := calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}
	for name, end := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		},
	} {
		comms := fakeWorld(t, 3, Options{})
		errs := all(t, 3, func(ctx context.Context, r int) error {
			switch r {
			case 0:
				ctx, cancel := end(ctx)
				defer cancel()
				return w.do(ctx, comms[0])
			case 1:
				return nil
			}
			return w.do(ctx, comms[2])
		})
		var e *protocol.PeerError
		if name == "cancel" {
			if !errors.Is(errs[0], context.Canceled) {
				t.Errorf("%s: rank 0: %v", name, errs[0])
			}
			if !errors.Is(errs[2], protocol.ErrAborted) || !errors.As(errs[2], &e) || e.Rank != 0 || !strings.Contains(e.Error(), "context canceled") {
				t.Errorf("%s: rank 2: %v", name, errs[2])
			}
			continue
		}
		if !errors.Is(errs[0], protocol.ErrTimeout) || !errors.Is(errs[0], os.ErrDeadlineExceeded) || !errors.Is(errs[2], protocol.ErrTimeout) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestAbortAfterLoss: a rank that gives up because another died says so, and is not taken
// for the dead one.
func TestAbortAfterLoss(t *testing.T) {
	for _, why := range []error{protocol.ErrPeerLost, protocol.ErrTimeout, protocol.ErrMismatch} {
		comms := fakeWorld(t, 3, Options{})
		comms[1].Abort(fmt.Errorf("rank 0: %w", why))
		for _, r := range []int{0, 2} {
			err := calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.do(t.Context(), comms[r])
			if !errors.Is(err, protocol.ErrAborted) || errors.Is(err, why) || !strings.Contains(err.Error(), "rank 0") {
				t.Errorf("rank %d after an abort for %v: %v", r, why, err)
			}
		}
	}
}

// TestAbort: from another goroutine while a call waits, and heard of by the next call
// where none does.
func TestAbort(t *testing.T) {
	comms := fakeWorld(t, 3, Options{})
	why := errors.New("out of patience")
	began := make(chan struct{}, 2)
	errs := all(t, 3, func(ctx context.Context, r int) error {
		if r == 2 {
			<-began
			<-began
			comms[2].Abort(why)
			return comms[2].Err()
		}
		began <- struct{}{}
		return calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.do(ctx, comms[r])
	})
	for r, err := range errs {
		var e *protocol.PeerError
		if !errors.Is(err, protocol.ErrAborted) || !errors.As(err, &e) || e.Rank != 2 || !strings.Contains(err.Error(), why.Error()) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if !errors.Is(errs[2], why) {
		t.Errorf("where it was aborted: %v", errs[2])
	}
	comms = fakeWorld(t, 2, Options{})
	if err := comms[0].Err(); err != nil {
		t.Errorf("all is well: %v", err)
	}
	comms[1].Abort(why)
	err := calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.do(t.Context(), comms[0])
	if !errors.Is(err, protocol.ErrAborted) || comms[0].Err() != err {
		t.Errorf("the next call: %v", err)
	}
}

// TestCloseDuringCall: the call returns.
func TestCloseDuringCall(t *testing.T) {
	comms := fakeWorld(t, 2, Options{})
	began := make(chan struct{})
	errs := all(t, 2, func(ctx context.Context, r int) error {
		if r == 1 {
			<-began
			return comms[0].Close()
		}
		close(began)
		return calling{call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.do(ctx, comms[0])
	})
	if !errors.Is(errs[0], protocol.ErrAborted) || errs[1] != nil {
		t.Error(errs)
	}
}
