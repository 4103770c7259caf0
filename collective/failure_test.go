package collective

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
)

// asError is err as the group's error; the test fails if it is another.
func asError(t *testing.T, rank int, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("rank %d: %v, expected an *Error", rank, err)
	}
	return e
}

// checkWords: an error says once what it is, and what another rank says of itself is not
// said of this one.
func checkWords(t *testing.T, rank int, e *Error) {
	t.Helper()
	text := e.Error()
	if strings.Count(text, "collective: ") != 1 || e.By != rank && (strings.Contains(text, "this rank") || !strings.HasSuffix(text, fmt.Sprintf("(says rank %d)", e.By))) {
		t.Errorf("rank %d says, found by %d: %s", rank, e.By, text)
	}
}

func TestMismatch(t *testing.T) {
	f, h, b := make([]float32, 1000), make([]Float16, 1000), make([]uint8, 1000)
	normal := func(ctx context.Context, g *Group) error { return AllReduce(ctx, g, slices.Clone(f), f, Sum) }
	for name, other := range map[string]func(ctx context.Context, g *Group) error{
		"op":        func(ctx context.Context, g *Group) error { return AllReduce(ctx, g, slices.Clone(f), f, Max) },
		"mean":      func(ctx context.Context, g *Group) error { return AllReduce(ctx, g, slices.Clone(f), f, Mean) },
		"dtype":     func(ctx context.Context, g *Group) error { return AllReduce(ctx, g, slices.Clone(h), h, Sum) },
		"count":     func(ctx context.Context, g *Group) error { return AllReduce(ctx, g, f[:10], slices.Clone(f[:10]), Sum) },
		"primitive": func(ctx context.Context, g *Group) error { return Broadcast(ctx, g, b, 0) },
		"barrier":   func(ctx context.Context, g *Group) error { return g.Barrier(ctx) },
		"order": func(ctx context.Context, g *Group) error {
			return errors.Join(Reduce(ctx, g, slices.Clone(f), f, Sum, 1), normal(ctx, g))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, nil, func(t *testing.T, groups []*Group) {
				ctx := hangGuard(t)
				for r, err := range each(groups, func(g *Group) error {
					if g.Rank() != 2 {
						return normal(ctx, g)
					}
					if err := inCalls(ctx, groups[0], groups[1], groups[3]); err != nil {
						return err
					}
					return other(ctx, g)
				}) {
					e := asError(t, r, err)
					if !errors.Is(err, ErrMismatch) || r != 2 && !strings.Contains(e.Call, "all-reduce #1") || e.Host == "" {
						t.Errorf("rank %d: %v", r, err)
					}
					if text := err.Error(); e.Rank != 2 || !strings.Contains(text, "ranks 0, 1, 3 are in all-reduce #1 sum f32 x 1000") || !strings.Contains(text, "rank 2 is in ") {
						t.Errorf("rank %d names %d, expected the odd one and both sides: %v", r, e.Rank, err)
					}
					checkWords(t, r, e)
				}
				if err := groups[0].Barrier(ctx); !errors.Is(err, ErrMismatch) {
					t.Errorf("a call afterwards: %v", err)
				}
			})
		})
	}
}

// inCalls waits until each of the groups has come to a call. An error about calls that do
// not match names the ranks that are in one by then.
func inCalls(ctx context.Context, groups ...*Group) error {
	for _, g := range groups {
		if err := g.control.await(ctx, g.inCall); err != nil {
			return err
		}
	}
	return nil
}

// TestMismatchOfHalves: no side is the wrong one, and both are named. Of the second, the
// mismatch may be found before both of its ranks have come.
func TestMismatchOfHalves(t *testing.T) {
	both := regexp.MustCompile(`ranks 0, 2 are in all-reduce #1 sum f32 x 10, (rank 1 is|rank 3 is|ranks 1, 3 are) in all-reduce #1 sum f32 x 20`)
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		for r, err := range each(groups, func(g *Group) error {
			n := 10 + g.Rank()%2*10
			if n > 10 {
				if err := inCalls(ctx, groups[0], groups[2]); err != nil {
					return err
				}
			}
			return AllReduce(ctx, g, make([]float32, n), make([]float32, n), Sum)
		}) {
			asError(t, r, err)
			if !both.MatchString(err.Error()) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

// TestTimeout: one rank does not come, and all others say that it was that one.
func TestTimeout(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			groups, err := openWorld(transport, []int{0, 0, 1, 1}, &Options{Timeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, groups)
			testTimeout(t, groups)
		})
	}
}

func testTimeout(t *testing.T, groups []*Group) {
	ctx := hangGuard(t)
	x := make([]float32, 5000)
	for r, err := range each(groups, func(g *Group) error {
		if g.Rank() == 3 {
			return nil
		}
		return AllReduce(ctx, g, slices.Clone(x), x, Sum)
	}) {
		if r == 3 {
			continue
		}
		e := asError(t, r, err)
		if e.Rank != 3 || !errors.Is(err, ErrTimeout) {
			t.Errorf("rank %d: %v (rank %d)", r, err, e.Rank)
		}
		checkWords(t, r, e)
	}
	// The late one hears of it.
	if err := groups[3].control.await(ctx, func() bool { return groups[3].Err() != nil }); err != nil {
		t.Fatal(err)
	}
	if err := groups[3].Barrier(ctx); !errors.Is(err, ErrTimeout) {
		t.Errorf("rank 3: %v", err)
	}
}

// TestBlame: a rank that waits in an earlier call is not the one that is late.
func TestBlame(t *testing.T) {
	groups, err := openWorld("local", []int{0, 0, 0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx := hangGuard(t)
	first := groups[0].BarrierAsync(ctx)
	if err := groups[0].control.await(ctx, groups[0].inCall); err != nil {
		t.Fatal(err)
	}
	f := &failure{Rank: 0}
	barrier := protocol.Call{Kind: protocol.Barrier, Seq: 2}
	(&inquiry{g: groups[1], call: barrier, f: f}).late(&protocol.PeerError{})
	if f.Rank != 2 || !errors.Is(f.err, ErrTimeout) || !strings.HasSuffix(f.err.Error(), "rank 2 is not in this call") {
		t.Errorf("rank 1 blames %d: %v", f.Rank, f.err)
	}
	if err := errors.Join(each(groups[1:], func(g *Group) error { return g.Barrier(ctx) })...); err != nil {
		t.Error(err)
	}
	if err := first.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// TestBlamePairs: of ranks that wait for each other in a send or receive and in a call of
// all both are named, by the rank that finds out first. Of several that wait in a row,
// the one that waits in no pair is named.
func TestBlamePairs(t *testing.T) {
	groups, err := openWorld("local", []int{0, 0, 0}, &Options{Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := hangGuard(t)
	works := []*Work{RecvAsync(ctx, groups[0], []int64{0}, 1), groups[1].BarrierAsync(ctx), RecvAsync(ctx, groups[2], []int64{0}, 0)}
	recv := protocol.Call{Kind: protocol.Recv, Seq: 1}
	requests := []protocol.Request{ // as their goroutines have numbered them
		{Call: recv, Peer: 1}, {Call: protocol.Call{Kind: protocol.Barrier, Seq: 1}}, {Call: recv, Peer: 0},
	}
	for _, g := range groups {
		if err := g.control.await(ctx, func() bool { return g.inCall() && (g.rank == 1 || g.pairing.Load() != 0) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		rank, blamed int
		says         string
	}{
		{0, 1, "it is in call #1 of all ranks, rank 0 in recv #1 from 1"},
		{1, 0, "it is in recv #1 from 1, rank 1 in barrier #1"},
		{2, 1, "it is in call #1 of all ranks, rank 0 in recv #1 from 1"},
	} {
		f := &failure{Rank: c.rank}
		(&inquiry{g: groups[c.rank], call: requests[c.rank].Call, pair: pairingOf(&requests[c.rank]), f: f}).late(&protocol.PeerError{Err: ErrTimeout})
		if f.Rank != c.blamed || !errors.Is(f.err, ErrMismatch) || !strings.HasSuffix(fmt.Sprint(f.err), ": "+c.says) {
			t.Errorf("rank %d blames %d: %v; expected %d: %s", c.rank, f.Rank, f.err, c.blamed, c.says)
		}
	}
	for r, g := range groups {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := works[r].Wait(ctx); err == nil {
			t.Errorf("rank %d: no error", r)
		}
	}
}

// TestBlameRow: of ranks that wait in a row the last one waits in a call of all ranks,
// for one that has stopped. That one is named, where the others all answer the last one.
func TestBlameRow(t *testing.T) {
	groups, err := Local(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	recv := func(number uint64, from int) pairing {
		return pairingOf(&protocol.Request{Call: protocol.Call{Kind: protocol.Recv, Seq: number}, Peer: from})
	}
	row := []*answer{{Calls: 5, InCall: true, Pair: recv(2, 3)}, {Calls: 5, InCall: true}, nil, {Calls: 5, InCall: true}}
	for _, c := range []struct {
		of2    *answer
		blamed int
		says   string
	}{
		{nil, 2, "rank 2 is not answering, rank 3 is in call #5, rank 0 in recv #2 from 3"},
		{&answer{Calls: 5, InCall: true}, 3, "rank 3 is in call #5, rank 0 in recv #2 from 3"},
	} {
		f := &failure{Rank: 0}
		row[2] = c.of2
		(&inquiry{g: groups[1], f: f, answers: row}).latePair(1, recv(7, 0), 5, nil)
		if f.Rank != c.blamed || !errors.Is(f.err, ErrTimeout) || !strings.HasSuffix(f.err.Error(), ": "+c.says) {
			t.Errorf("rank 1 blames %d: %v; expected %d: %s", f.Rank, f.err, c.blamed, c.says)
		}
	}
}

func TestCancelled(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		cancelled, cancel := context.WithCancel(hangGuard(t))
		errs := each(groups, func(g *Group) error {
			ctx := context.Background()
			switch g.Rank() {
			case 0:
				return nil // never comes, so that rank 1 is sure to wait
			case 1:
				w := g.BarrierAsync(cancelled)
				cancel()
				return w.Wait(ctx)
			}
			return g.Barrier(ctx)
		})
		if !errors.Is(errs[1], context.Canceled) {
			t.Errorf("rank 1: %v", errs[1])
		}
		for _, r := range []int{2, 3} {
			if e := asError(t, r, errs[r]); !errors.Is(e, ErrAborted) || e.Rank != 1 {
				t.Errorf("rank %d: %v", r, errs[r])
			}
		}
	})
}

// TestLeft: a rank that closes in an orderly way, having made all calls, hurts only those
// that call it again.
func TestLeft(t *testing.T) {
	onEach(t, &Options{Linger: -1}, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		for r, err := range each(groups, func(g *Group) error {
			x := []int32{1}
			if err := AllReduce(ctx, g, x, x, Sum); err != nil || x[0] != 4 {
				return fmt.Errorf("before: %d, %w", x[0], err)
			}
			if g.Rank() == 1 {
				return g.Close()
			}
			return g.Barrier(ctx)
		}) {
			if r == 1 {
				if err != nil {
					t.Errorf("the one that leaves: %v", err)
				}
				continue
			}
			if e := asError(t, r, err); e.Rank != 1 || !errors.Is(err, ErrPeerLost) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

// TestCloseInCall: Close ends the call under way.
func TestCloseInCall(t *testing.T) {
	onEach(t, &Options{Linger: -1}, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		w := groups[0].BarrierAsync(ctx)
		if err := groups[0].Close(); err != nil {
			t.Error(err)
		}
		<-w.Done()
		if w.Err() == nil {
			t.Error("a barrier of one rank succeeded")
		}
	})
}

// TestLostConn: a rank whose conns break, as when its process dies, is lost to all, also
// to those that wait for another.
func TestLostConn(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		for r, err := range each(groups, func(g *Group) error {
			if g.Rank() == 3 {
				g.control.mu.Lock() // the dead do not say which of their conns went first
				defer g.control.mu.Unlock()
				for _, tap := range g.control.taps {
					if tap != nil {
						tap.Conn.Close()
					}
				}
				return nil
			}
			x := make([]float32, 100000)
			for {
				if err := AllReduce(ctx, g, x, x, Sum); err != nil {
					return err
				}
			}
		}) {
			if r == 3 {
				continue
			}
			if e := asError(t, r, err); e.Rank != 3 || !errors.Is(err, ErrPeerLost) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		// The survivors go on.
		for r, err := range each(groups[:3], func(g *Group) error {
			s, err := g.Shrink(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			if s.Size() != 3 || s.Rank() != g.Rank() {
				return fmt.Errorf("%v", s)
			}
			x := []int64{int64(s.Rank())}
			if err := AllReduce(ctx, s, x, x, Sum); err != nil || x[0] != 3 {
				return fmt.Errorf("sum %d, %w", x[0], err)
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

func TestShrinkExcludes(t *testing.T) {
	t.Parallel() // it waits most of the time
	groups, err := openWorld("tcp", []int{0, 0, 0}, &Options{Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx := hangGuard(t)
	// Ranks 0 and 2 shrink; 1 is alive and does not, until they are done.
	for r, err := range each([]*Group{groups[0], groups[2]}, func(g *Group) error {
		s, err := g.Shrink(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Barrier(ctx)
	}) {
		if err != nil {
			t.Errorf("%d: %v", r, err)
		}
	}
	if _, err := groups[1].Shrink(ctx); !errors.Is(err, ErrExcluded) {
		t.Errorf("the third: %v", err)
	}
}

// TestShrinkCanceled: the error is the context's, also where no rank has to be waited
// for.
func TestShrinkCanceled(t *testing.T) {
	groups, err := Local(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := groups[0].Shrink(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, expected %v", err, context.Canceled)
	}
}

// TestMismatchedPair: a send that the receiver expects otherwise.
func TestMismatchedPair(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		for r, err := range each(groups, func(g *Group) error {
			switch g.Rank() {
			case 1:
				return errors.Join(Send(ctx, g, make([]float32, 5000), 2), g.Barrier(ctx))
			case 2:
				return errors.Join(Recv(ctx, g, make([]float32, 4000), 1), g.Barrier(ctx))
			}
			return g.Barrier(ctx)
		}) {
			if e := asError(t, r, err); !errors.Is(err, ErrMismatch) || e.Rank != 1 && e.Rank != 2 {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

// TestDoneContext: a call whose context is done before it begins ends the group as one
// that is cancelled in it.
func TestDoneContext(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		done, cancel := context.WithCancelCause(ctx)
		why := errors.New("no time")
		cancel(why)
		for r, err := range each(groups, func(g *Group) error {
			if g.Rank() == 0 {
				return g.Barrier(done)
			}
			return g.Barrier(ctx)
		}) {
			want := ErrAborted
			if r == 0 {
				want = why
			}
			if e := asError(t, r, err); e.Rank != 0 || !errors.Is(err, want) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

// panicking is a context whose state cannot be asked for.
type panicking struct{ context.Context }

func (panicking) Err() error { panic("a context's own") }

// panics says whether f does.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// closes closes a group, which does not take for ever.
func closes(t *testing.T, g *Group) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- g.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("rank %d: close: %v", g.Rank(), err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("rank %d: Close does not end", g.Rank())
	}
}

// TestPanicInCall: a panic that ends a call before it began leaves the group as it was;
// one that ends it later ends the group, of which the others learn why, and Close closes
// it.
func TestPanicInCall(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		x := make([]float32, 4)
		if !panics(func() { _ = groups[0].Barrier(panicking{ctx}) }) || !panics(func() { _ = AllReduce(panicking{ctx}, groups[0], x, x, Sum) }) ||
			!panics(func() { _ = Broadcast(panicking{ctx}, groups[0], x, 0) }) {
			t.Fatal("a call does not ask for its context's state")
		}
		all(t, groups, func(g *Group) error { return g.Barrier(ctx) })
		errs := each(groups, func(g *Group) error {
			y := make([]float32, 4)
			if g.Rank() > 0 {
				if err := Reduce(ctx, g, y, y, Sum, 1); err != nil {
					return err
				}
				// between hosts a rank may be done with a reduce before all have come
				return g.Barrier(ctx)
			}
			if !panics(func() { _ = Reduce(panickingLater{ctx, new(int)}, g, y, y, Sum, 1) }) {
				return errors.New("a reduce does not ask again for its context's state")
			}
			return g.Barrier(ctx)
		})
		for r, err := range errs {
			if e := asError(t, r, err); e.Rank != 0 || !errors.Is(e, ErrAborted) || !strings.Contains(e.Error(), "a panic ended its call") {
				t.Errorf("rank %d: %v", r, e)
			}
		}
		closes(t, groups[0])
	})
}

// panickingLater panics when it is asked the second time: while a call runs, and not
// before.
type panickingLater struct {
	context.Context
	asked *int
}

func (c panickingLater) ask() {
	if *c.asked++; *c.asked > 1 {
		panic("asked again")
	}
}

func (c panickingLater) Err() error {
	c.ask()
	return c.Context.Err()
}

func (c panickingLater) Done() <-chan struct{} {
	c.ask()
	return c.Context.Done()
}

// TestPanicWhileWaiting: a panic in a call that was prepared, and waits, fails the group
// for the others and leaves it to be closed.
func TestPanicWhileWaiting(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, g *Group) error{
		"barrier": func(ctx context.Context, g *Group) error { return g.Barrier(ctx) },
		"sum": func(ctx context.Context, g *Group) error {
			x := make([]float32, 1)
			return AllReduce(ctx, g, x, x, Sum)
		},
		"large sum": func(ctx context.Context, g *Group) error {
			x := make([]float32, 9000)
			return AllReduce(ctx, g, x, x, Sum)
		},
	} {
		t.Run(what, func(t *testing.T) {
			groups, err := Local(2, &Options{Linger: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { all(t, groups, (*Group).Close) })
			if !panics(func() { _ = call(panickingLater{hangGuard(t), new(int)}, groups[0]) }) {
				t.Fatal("a call to which nobody comes does not ask for its context's state")
			}
			err = call(hangGuard(t), groups[1])
			if err == nil { // the other had come, and given what it had to
				err = call(hangGuard(t), groups[1])
			}
			e := asError(t, 1, err)
			if e.Rank != 0 || !errors.Is(e, ErrAborted) || !strings.Contains(e.Error(), "a panic ended its call") {
				t.Errorf("rank 1: %v", e)
			}
			closes(t, groups[0])
		})
	}
}

// TestLeftBehind: a rank that has closed its group takes nothing back. The others make
// the calls that it made, plain and persistent, and receive what it sent; the next call
// fails, as does a send to it.
func TestLeftBehind(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		x := make([][]int64, len(groups))
		kept := make([]*Persistent, len(groups))
		for r, g := range groups {
			x[r] = []int64{int64(10 * (1 - min(r, 1)))} // 10 at rank 0
			var err error
			if kept[r], err = BroadcastInit(g, x[r], 0); err != nil {
				t.Fatal(err)
			}
		}
		var through sync.WaitGroup // the first failure ends all ranks' calls
		through.Add(len(groups) - 1)
		all(t, groups, func(g *Group) error {
			mine := x[g.Rank()]
			if g.Rank() == 0 {
				return errors.Join(Broadcast(ctx, g, mine, 0), Send(ctx, g, mine, 1), kept[0].Run(ctx), g.Close())
			}
			err := g.control.await(ctx, func() bool { return g.left.Load() != nil })
			for what, call := range []func() error{
				func() error { return Broadcast(ctx, g, mine, 0) },
				func() error {
					if g.Rank() > 1 {
						return nil
					}
					mine[0] = 0
					return Recv(ctx, g, mine, 0)
				},
				func() error { mine[0] = 0; return kept[g.Rank()].Run(ctx) },
			} {
				if err = errors.Join(err, call()); err != nil || mine[0] != 10 {
					t.Errorf("rank %d, call %d: %d, %v", g.Rank(), what, mine[0], err)
				}
			}
			through.Done()
			through.Wait()
			next := g.Barrier
			if g.Rank() == 2 {
				next = func(ctx context.Context) error { return Send(ctx, g, mine, 0) }
			}
			if err := next(ctx); !errors.Is(err, ErrPeerLost) || !strings.Contains(err.Error(), "rank 0 ") {
				return fmt.Errorf("a call that rank 0 did not make: %w", err)
			}
			return nil
		})
	})
}
