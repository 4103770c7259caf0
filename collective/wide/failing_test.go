package wide

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

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// fakeWorld is a world of n ranks over fakes.
func fakeWorld(t testing.TB, n int, o Options) []*Comm {
	t.Helper()
	conns, waiters := mesh(t, n, 1000, nil)
	return world(t, conns, waiters, o)
}

// calling is what one rank does in a test, with the call that it says it is in.
type calling struct {
	call plan.Call
	root int
}

func (w calling) do(ctx context.Context, c *Comm) error {
	n := int(w.call.Count) * w.call.DType.Size()
	counts := make([]int, c.Size())
	for r := range counts {
		counts[r] = n
	}
	scale := w.call.Scale
	if scale == 0 {
		scale = 1
	}
	w.call.Root = int32(w.root)
	switch w.call.Kind {
	case plan.AllReduce:
		return c.AllReduce(ctx, w.call, scale, make([]byte, n), make([]byte, n))
	case plan.Reduce:
		return c.Reduce(ctx, w.call, scale, make([]byte, n), make([]byte, n), w.root)
	case plan.Broadcast:
		return c.Broadcast(ctx, w.call, make([]byte, n), w.root)
	case plan.AllGather:
		return c.AllGather(ctx, w.call, make([]byte, n*c.Size()), make([]byte, n), counts)
	case plan.Barrier:
		return c.Barrier(ctx, w.call)
	}
	panic(w.call.Kind)
}

// TestMismatch: whatever two ranks do not agree about, every rank learns who wanted what.
func TestMismatch(t *testing.T) {
	sum := plan.Call{Seq: 1, Kind: plan.AllReduce, Op: plan.Sum, DType: plan.F32, Count: 10}
	change := func(f func(*plan.Call)) calling {
		c := sum
		f(&c)
		return calling{call: c}
	}
	kind := func(k plan.Kind, root int) calling {
		w := change(func(c *plan.Call) { c.Kind, c.Op = k, plan.NoOp })
		if k == plan.Barrier {
			w.call.DType, w.call.Count = plan.NoDType, 0
		}
		if k == plan.Reduce {
			w.call.Op = plan.Sum
		}
		w.root = root
		return w
	}
	for name, c := range map[string]struct{ most, odd calling }{
		"op":               {calling{call: sum}, change(func(c *plan.Call) { c.Op = plan.Max })},
		"dtype":            {calling{call: sum}, change(func(c *plan.Call) { c.DType = plan.I32 })},
		"count":            {calling{call: sum}, change(func(c *plan.Call) { c.Count = 11 })},
		"scale":            {calling{call: sum}, change(func(c *plan.Call) { c.Scale = 0.5 })},
		"order":            {calling{call: sum}, change(func(c *plan.Call) { c.Seq = 2 })},
		"kind":             {calling{call: sum}, kind(plan.Barrier, 0)},
		"kinds":            {kind(plan.AllGather, 0), kind(plan.Broadcast, 0)},
		"root":             {kind(plan.Broadcast, 0), kind(plan.Broadcast, 1)},
		"where to":         {kind(plan.Reduce, 1), kind(plan.Reduce, 0)},
		"nobody sends":     {kind(plan.Broadcast, 1), kind(plan.Broadcast, 0)},
		"who only sends":   {kind(plan.Barrier, 0), kind(plan.Reduce, 1)},
		"large":            {change(func(c *plan.Call) { c.Count = 1 << 20 }), change(func(c *plan.Call) { c.Count = 1<<20 + 1 })},
		"large and little": {change(func(c *plan.Call) { c.Count = 1 << 20 }), calling{call: sum}},
	} {
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprint(name, " of ", n), func(t *testing.T) {
				comms := fakeWorld(t, n, Options{Timeout: 8 * time.Second})
				odd := 0
				if name == "nobody sends" || name == "who only sends" {
					odd = 1
				}
				var finished sync.WaitGroup
				finished.Add(n)
				for r, err := range all(t, n, func(ctx context.Context, r int) error {
					defer func() { finished.Done(); finished.Wait() }()
					w := c.most
					if r == odd {
						w = c.odd
					}
					err := w.do(ctx, comms[r])
					if err == nil { // its part was done before anybody noticed: the next call fails
						err = calling{call: plan.Call{Seq: 9, Kind: plan.Barrier}}.do(ctx, comms[r])
					}
					return err
				}) {
					var m *plan.MismatchError
					var e *plan.PeerError
					if !errors.As(err, &m) || !errors.As(err, &e) || !errors.Is(err, plan.ErrMismatch) {
						t.Errorf("rank %d: %v", r, err)
						continue
					}
					if m.Theirs.Kind == plan.NoKind || m.Ours.Word() == m.Theirs.Word() || (r != odd) != (e.Rank == odd) {
						t.Errorf("rank %d: rank %d: %v", r, e.Rank, err)
					}
				}
			})
		}
	}
}

// TestMismatchIdle: a rank that was elsewhere when the others found out says what it wants when it comes.
func TestMismatchIdle(t *testing.T) {
	comms := fakeWorld(t, 3, Options{})
	sum := calling{call: plan.Call{Seq: 1, Kind: plan.AllReduce, Op: plan.Sum, DType: plan.F32, Count: 10}}
	told := make(chan struct{})
	errs := all(t, 3, func(ctx context.Context, r int) error {
		switch r {
		case 0:
			err := calling{call: plan.Call{Seq: 1, Kind: plan.Barrier}}.do(ctx, comms[0])
			close(told)
			return err
		case 1:
			return sum.do(ctx, comms[1])
		}
		<-told
		if err := comms[2].Poll(); err != nil {
			return fmt.Errorf("Poll: %w", err)
		}
		return sum.do(ctx, comms[2])
	})
	for r, err := range errs {
		var m *plan.MismatchError
		if !errors.As(err, &m) || m.Theirs.Kind == plan.NoKind {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// crash is what the kernel does when a process dies: its ends close and nobody says why.
func crash(c *Comm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.links {
		if p != c.rank {
			c.links[p].conn.Close()
		}
	}
}

// TestDeath: a rank dies before a call, while others wait for it directly or through a third.
func TestDeath(t *testing.T) {
	for _, c := range []struct {
		name string
		dies int
		w    calling
	}{
		{"all-reduce", 2, calling{call: plan.Call{Seq: 1, Kind: plan.AllReduce, Op: plan.Sum, DType: plan.F32, Count: 10}}},
		{"large all-reduce", 0, calling{call: plan.Call{Seq: 1, Kind: plan.AllReduce, Op: plan.Sum, DType: plan.F32, Count: 100_000}}},
		{"tree", 4, calling{call: plan.Call{Seq: 1, Kind: plan.Broadcast, DType: plan.F32, Count: 10}, root: 4}},
		{"barrier", 3, calling{call: plan.Call{Seq: 1, Kind: plan.Barrier}}},
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
				var e *plan.PeerError
				if !errors.Is(err, plan.ErrPeerLost) || !errors.As(err, &e) || e.Rank != c.dies {
					t.Errorf("rank %d: %v", r, err)
				}
				if again := comms[r].Barrier(t.Context(), plan.Call{Seq: 2, Kind: plan.Barrier}); again != err {
					t.Errorf("rank %d: the next call returns %v", r, again)
				}
			}
		})
	}
}

// TestDeathMidway: a rank dies at a random moment of a series of calls; the others all learn of it, and of nothing else.
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
				moves := &comms[r].stats.recvPieces
				go func() {
					defer cancel()
					for moves.Load() < uint64(after) && ctx.Err() == nil {
						waiters[r].Wake() // there is nothing to wait for: look again and again
					}
					comms[r].dead.CompareAndSwap(nil, &plan.PeerError{Err: errors.New("killed")}) // it says no more
					for p, conn := range conns[r] {
						if p != r {
							conn.Close()
						}
					}
				}()
			}
			for s := uint64(0); ; s++ {
				if _, err := script(ctx, comms[r], nil, seed+s, 50, []plan.DType{plan.F32}); err != nil {
					return err
				}
			}
		})
		for r, err := range errs {
			var e *plan.PeerError
			if r != dies && (!errors.Is(err, plan.ErrPeerLost) || !errors.As(err, &e) || e.Rank != dies) {
				t.Fatalf("round %d, rank %d, when %d died: %v", round, r, dies, err)
			}
		}
	}
}

// TestLeaving: who is done may go, while others are still at it.
func TestLeaving(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		const n = 5
		conns, waiters := mesh(t, n, 100, rng)
		comms := world(t, conns, waiters, Options{OneShot: 1 << 20})
		w := calling{call: plan.Call{Seq: 1, Kind: plan.Broadcast, DType: plan.U8, Count: 500}, root: rng.IntN(n)}
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
	err := calling{call: plan.Call{Seq: 1, Kind: plan.Barrier}}.do(t.Context(), comms[0])
	if !errors.Is(err, plan.ErrPeerLost) {
		t.Errorf("a rank left before the call: %v", err)
	}
	if err := comms[1].Barrier(t.Context(), plan.Call{Seq: 1, Kind: plan.Barrier}); !errors.Is(err, plan.ErrAborted) {
		t.Errorf("a call after Close: %v", err)
	}
}

// TestTimeout: ranks that do not come are named, on all that wait.
func TestTimeout(t *testing.T) {
	comms := fakeWorld(t, 5, Options{Timeout: 40 * time.Millisecond})
	w := calling{call: plan.Call{Seq: 7, Kind: plan.AllReduce, Op: plan.Sum, DType: plan.I64, Count: 3}}
	for r, err := range all(t, 5, func(ctx context.Context, r int) error {
		if r == 1 || r == 3 {
			return nil
		}
		return w.do(ctx, comms[r])
	}) {
		if r == 1 || r == 3 {
			continue
		}
		var e *plan.PeerError
		if !errors.Is(err, plan.ErrTimeout) || !errors.As(err, &e) || fmt.Sprint(e.Missing) != "[1 3]" || e.Rank != 1 || e.Call.Seq != 7 {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	err := w.do(t.Context(), comms[1])
	if !errors.Is(err, plan.ErrTimeout) || !strings.Contains(err.Error(), "waited") {
		t.Errorf("the rank that came late: %v", err)
	}
}

// TestHang: who waits for a rank that waits itself does not name that one.
func TestHang(t *testing.T) {
	const n, hangs = 7, 4
	comms := fakeWorld(t, n, Options{Timeout: time.Second})
	w := calling{call: plan.Call{Seq: 1, Kind: plan.Broadcast, DType: plan.F32, Count: 10}, root: hangs}
	for r, err := range all(t, n, func(ctx context.Context, r int) error {
		if r == hangs {
			return nil
		}
		return w.do(ctx, comms[r])
	}) {
		var e *plan.PeerError
		if r != hangs && (!errors.Is(err, plan.ErrTimeout) || !errors.As(err, &e) || fmt.Sprint(e.Missing) != "[4]") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestSlow: a transfer that takes longer than the timeout is no hang while it moves, on either side.
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
		call, b := plan.Call{Seq: 1, DType: plan.U8, Count: 10_000}, make([]byte, 10_000)
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
	w := calling{call: plan.Call{Seq: 1, Kind: plan.Barrier}}
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
		var e *plan.PeerError
		if name == "cancel" {
			if !errors.Is(errs[0], context.Canceled) {
				t.Errorf("%s: rank 0: %v", name, errs[0])
			}
			if !errors.Is(errs[2], plan.ErrAborted) || !errors.As(errs[2], &e) || e.Rank != 0 || !strings.Contains(e.Error(), "context canceled") {
				t.Errorf("%s: rank 2: %v", name, errs[2])
			}
			continue
		}
		if !errors.Is(errs[0], plan.ErrTimeout) || !errors.Is(errs[0], os.ErrDeadlineExceeded) || !errors.Is(errs[2], plan.ErrTimeout) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestAbort: from another goroutine while a call waits, and heard of by Poll where none does.
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
		return calling{call: plan.Call{Seq: 1, Kind: plan.Barrier}}.do(ctx, comms[r])
	})
	for r, err := range errs {
		var e *plan.PeerError
		if !errors.Is(err, plan.ErrAborted) || !errors.As(err, &e) || e.Rank != 2 || !strings.Contains(err.Error(), why.Error()) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if !errors.Is(errs[2], why) {
		t.Errorf("where it was aborted: %v", errs[2])
	}
	comms = fakeWorld(t, 2, Options{})
	if err := comms[0].Poll(); err != nil {
		t.Errorf("Poll while all is well: %v", err)
	}
	comms[1].Abort(why)
	if err := comms[0].Poll(); !errors.Is(err, plan.ErrAborted) || comms[0].Err() != err {
		t.Errorf("Poll: %v", err)
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
		return calling{call: plan.Call{Seq: 1, Kind: plan.Barrier}}.do(ctx, comms[0])
	})
	if !errors.Is(errs[0], plan.ErrAborted) || errs[1] != nil {
		t.Error(errs)
	}
}

// TestNew: options that differ, conns that are someone else's, arguments that cannot be.
func TestNew(t *testing.T) {
	for name, change := range map[string]func(r int, o *Options, conns []ipc.Conn){
		"OneShot": func(r int, o *Options, _ []ipc.Conn) { o.OneShot = 1000 + r },
		"Fold": func(r int, o *Options, _ []ipc.Conn) {
			if r == 2 {
				o.Fold = plan.Fold{1, 2}
			}
		},
		"order of ranks": func(r int, o *Options, conns []ipc.Conn) {
			if r == 0 {
				conns[1], conns[2] = conns[2], conns[1]
			}
		},
	} {
		conns, waiters := mesh(t, 3, 1000, nil)
		errs := all(t, 3, func(ctx context.Context, r int) error {
			o := Options{Waiter: waiters[r]}
			change(r, &o, conns[r])
			c, err := New(ctx, r, conns[r], &o)
			if err == nil { // it need not be one of those that differ
				_ = c.Barrier(ctx, plan.Call{Seq: 1, Kind: plan.Barrier})
				err = c.Err()
				c.Close()
			}
			return err
		})
		named := 0
		for r, err := range errs {
			if err == nil {
				t.Errorf("%s: rank %d: no error", name, r)
			}
			if errors.Is(err, plan.ErrMismatch) {
				named++
			}
		}
		if named < 2 {
			t.Errorf("%s: %v", name, errs)
		}
	}

	w := ipc.NewWaiter()
	for name, f := range map[string]func() (*Comm, error){
		"no waiter":    func() (*Comm, error) { return New(t.Context(), 0, make([]ipc.Conn, 1), nil) },
		"rank":         func() (*Comm, error) { return New(t.Context(), 1, make([]ipc.Conn, 1), &Options{Waiter: w}) },
		"missing conn": func() (*Comm, error) { return New(t.Context(), 0, make([]ipc.Conn, 2), &Options{Waiter: w}) },
		"chunk": func() (*Comm, error) {
			return New(t.Context(), 0, make([]ipc.Conn, 1), &Options{Waiter: w, Chunk: 100})
		},
		"timeout": func() (*Comm, error) {
			return New(t.Context(), 0, make([]ipc.Conn, 1), &Options{Waiter: w, Timeout: -1})
		},
		"fold": func() (*Comm, error) {
			return New(t.Context(), 0, make([]ipc.Conn, 1), &Options{Waiter: w, Fold: plan.Fold{2}})
		},
		"messages only": func() (*Comm, error) {
			conns, _ := mesh(t, 2, 10, nil)
			return New(t.Context(), 0, []ipc.Conn{nil, conns[0][1].(*fake).Conn}, &Options{Waiter: w})
		},
	} {
		if c, err := f(); !errors.Is(err, plan.ErrBadCall) || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

// TestBadCalls: refused before anything is sent; the comm goes on.
func TestBadCalls(t *testing.T) {
	comms := fakeWorld(t, 2, Options{})
	c, ctx := comms[0], t.Context()
	call := plan.Call{Seq: 1, Kind: plan.AllReduce, Op: plan.Sum, DType: plan.F32, Count: 2}
	and, scaled := call, call
	and.Op, scaled.DType = plan.And, plan.I32
	b8, b4, counts := make([]byte, 8), make([]byte, 4), []int{4, 4}
	for name, err := range map[string]error{
		"lengths":       c.AllReduce(ctx, call, 1, b8, b4),
		"no elements":   c.AllReduce(ctx, call, 1, make([]byte, 6), make([]byte, 6)),
		"op":            c.AllReduce(ctx, and, 1, b8, b8),
		"scale":         c.AllReduce(ctx, scaled, 0.5, b8, b8),
		"root":          c.Reduce(ctx, call, 1, b8, b8, 2),
		"reduce":        c.Reduce(ctx, call, 1, b4, b8, 0),
		"counts":        c.ReduceScatter(ctx, call, 1, b4, b8, []int{8}),
		"part":          c.ReduceScatter(ctx, call, 1, b8, b8, counts),
		"parts":         c.ReduceScatter(ctx, call, 1, b4, b4, counts),
		"halves":        c.ReduceScatter(ctx, call, 1, b8[:2], b4, []int{2, 2}),
		"gathered":      c.AllGather(ctx, call, b4, b4, counts),
		"negative":      c.AllGather(ctx, call, b4, nil, []int{-4, 8}),
		"broadcast":     c.Broadcast(ctx, call, b4, -1),
		"scatter":       c.Scatter(ctx, call, b4, b4, counts, 0),
		"gather":        c.Gather(ctx, call, b4, b4, counts, 0),
		"all-to-all":    c.AllToAll(ctx, call, b8, b8, []int{4, 4}, []int{5, 3}),
		"to all":        c.AllToAll(ctx, call, b8, b4, counts, counts),
		"self":          c.Send(ctx, call, 0, b4),
		"nobody":        c.Recv(ctx, call, 2, b4),
		"gather's root": c.Gather(ctx, call, b8, b4, counts, 5),
	} {
		if !errors.Is(err, plan.ErrBadCall) {
			t.Errorf("%s: %v", name, err)
		}
	}
	each(t, 2, func(ctx context.Context, r int) error { return calling{call: call}.do(ctx, comms[r]) })
}
