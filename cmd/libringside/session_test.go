package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// noLine is the line of callers that have none.
func noLine() string { return "" }

// here opens a session in this process.
func here(t *testing.T) *session {
	t.Helper()
	s, err := openSession(`{"here": true, "seed": 1}`, func() bool { return false }, noLine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s
}

// floats makes a vector.
func (s *session) floats(t *testing.T, x ...float32) int64 {
	t.Helper()
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	id, err := s.upload(0, int(tensor.F32), b, []int{len(x)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// call records an operation of tensors.
func (s *session) call(t *testing.T, op tensor.Op, ints []int64, args ...int64) int64 {
	t.Helper()
	id, err := s.apply(callHead{op: op, args: len(args), ints: len(ints)}, append(args, ints...))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// first reads the first element of a tensor.
func (s *session) first(t *testing.T, id int64, n int) float32 {
	t.Helper()
	b := make([]byte, 4*n)
	if err := s.read(id, b); err != nil {
		t.Fatal(err)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

// TestApply: calls of words do what their op says, with numbers in the place of tensors.
func TestApply(t *testing.T) {
	s := here(t)
	x := s.floats(t, 2, 3)
	if y := s.first(t, s.call(t, tensor.OpMul, nil, x, x), 2); y != 4 {
		t.Errorf("2*2 = %g", y)
	}
	h := parseHead(uint64(tensor.OpSub) | 2<<opBits | 1<<scalarsFrom)
	id, err := s.apply(h, []int64{int64(math.Float64bits(10)), x})
	if err != nil || s.first(t, id, 2) != 8 {
		t.Errorf("10-2: %v", err)
	}
	d, err := s.describe(s.call(t, tensor.OpReshape, []int64{2, 1}, x))
	if err != nil || d[0] != int64(tensor.F32) || d[2] != 2 || d[3] != 2 || d[4] != 1 {
		t.Errorf("%v, %v", d, err)
	}
}

// TestApplyRefused: words that do not fit are refused, and the session goes on.
func TestApplyRefused(t *testing.T) {
	s := here(t)
	x := s.floats(t, 1)
	for what, c := range map[string]struct {
		callHead
		words []int64
	}{
		"no operation":        {callHead{op: 4000}, nil},
		"too few words":       {callHead{op: tensor.OpAdd, args: 2}, []int64{x}},
		"an unknown tensor":   {callHead{op: tensor.OpNeg, args: 1}, []int64{1 << 40}},
		"a dtype of 300":      {callHead{op: tensor.OpRand, ints: 1}, []int64{300}},
		"dropout of nothing":  {callHead{op: tensor.OpDropout}, nil},
		"a shape that is bad": {callHead{op: tensor.OpReshape, args: 1, ints: 1}, []int64{x, 7}},
	} {
		if id, err := s.apply(c.callHead, c.words); err == nil {
			t.Errorf("%s: tensor %d", what, id)
		}
	}
	if y := s.first(t, s.call(t, tensor.OpNeg, nil, x), 1); y != -1 {
		t.Errorf("afterwards -1 is %g", y)
	}
	if _, err := s.upload(0, 99, nil, nil); err == nil {
		t.Error("dtype 99 was uploaded")
	}
}

// TestGraphClaims: the values that gradients need stay, though the caller drops its
// intermediates, until the gradients were computed.
func TestGraphClaims(t *testing.T) {
	s := here(t)
	x := s.floats(t, 3)
	if err := s.requireGrad(x); err != nil {
		t.Fatal(err)
	}
	y := s.call(t, tensor.OpExp, nil, x)
	z := s.call(t, tensor.OpMul, nil, y, y)
	loss := s.call(t, tensor.OpSum, []int64{0}, z)
	middle := s.tensors[y]
	s.drop([]int64{y, z, 12345})
	if err := s.flush(true); err != nil {
		t.Fatal(err)
	}
	if middle.claims == 0 {
		t.Fatal("a value that the graph needs was freed")
	}
	gs, err := gradients(s, loss, gradRetain, x)
	if err != nil {
		t.Fatal(err)
	}
	if g, want := s.first(t, gs[0], 1), float32(2*math.Exp(6)); math.Abs(float64(g-want)) > 1e-2 {
		t.Errorf("gradient %g, expected %g", g, want)
	}
	if middle.claims == 0 {
		t.Error("the graph was to be retained")
	}
	if _, err := gradients(s, loss, 0, x); err != nil {
		t.Error(err)
	}
	if middle.claims != 0 {
		t.Errorf("%d claims of a graph whose gradients were computed", middle.claims)
	}
	if _, err := gradients(s, loss, 0, x); !errors.Is(err, tensor.ErrReleased) {
		t.Errorf("once more: %v", err)
	}
}

// TestAssignKeepsGraph: a value that a graph needs outlives the assignment of another.
func TestAssignKeepsGraph(t *testing.T) {
	s := here(t)
	x := s.floats(t, 3)
	if err := s.requireGrad(x); err != nil {
		t.Fatal(err)
	}
	y := s.call(t, tensor.OpMul, nil, x, s.floats(t, 2))
	loss := s.call(t, tensor.OpSum, []int64{0}, s.call(t, tensor.OpSquare, nil, y))
	if err := s.assign(y, s.floats(t, 100), true); err != nil {
		t.Fatal(err)
	}
	gs, err := gradients(s, loss, 0, x)
	if err != nil {
		t.Fatal(err)
	}
	if g := s.first(t, gs[0], 1); g != 24 {
		t.Errorf("gradient %g, expected that of the old value, 24", g)
	}
	if v := s.first(t, y, 1); v != 100 {
		t.Errorf("y is %g, expected 100", v)
	}
}

// TestAssignInGraph: x += y leaves nothing behind once x is dropped, nor once gradients
// were computed, which are those of all values that x had.
func TestAssignInGraph(t *testing.T) {
	s := here(t)
	x := s.floats(t, 3)
	if err := s.requireGrad(x); err != nil {
		t.Fatal(err)
	}
	add := func() (total, first, second int64) {
		total = s.floats(t, 0)
		for _, to := range []*int64{&first, &second} {
			y := s.call(t, tensor.OpSquare, nil, x)
			sum := s.call(t, tensor.OpAdd, nil, total, y)
			if err := s.assign(total, sum, false); err != nil {
				t.Fatal(err)
			}
			s.drop([]int64{y, sum})
			*to = s.call(t, tensor.OpSquare, nil, total)
		}
		return total, first, second
	}
	total, first, second := add()
	for _, want := range []struct {
		loss int64
		g    float32
	}{{first, 2 * 9 * 6}, {second, 2 * 18 * 12}, {total, 12}} {
		gs, err := gradients(s, want.loss, 0, x)
		if err != nil {
			t.Fatal(err)
		}
		if g := s.first(t, gs[0], 1); g != want.g {
			t.Errorf("gradient %g, expected %g", g, want.g)
		}
		s.drop(append(gs, want.loss))
	}
	live := func() int {
		if err := s.flush(true); err != nil {
			t.Fatal(err)
		}
		return s.s.Stats().Live
	}
	before := live()
	total, first, second = add()
	s.drop([]int64{first, second, total})
	if n := live(); n != before || len(s.tensors) != 1 || s.tensors[x].claims != 1 {
		t.Errorf("%d values, expected %d; %d tensors; %d claims of the leaf", n, before, len(s.tensors), s.tensors[x].claims)
	}
}

// TestView: a view keeps its bytes, though the tensor is dropped, until it is released.
func TestView(t *testing.T) {
	s := here(t)
	x := s.floats(t, 1, 2, 3, 4)
	y := s.call(t, tensor.OpNeg, nil, x)
	b, release, err := s.view(y)
	if err != nil {
		t.Fatal(err)
	}
	s.drop([]int64{x, y})
	for range 3 {
		s.drop([]int64{s.call(t, tensor.OpExp, nil, s.floats(t, 9, 9, 9, 9))})
		if err := s.flush(true); err != nil {
			t.Fatal(err)
		}
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(b[12:])); len(b) != 16 || v != -4 {
		t.Errorf("%d bytes, the last number %g", len(b), v)
	}
	release()
}

// TestViewOutlivesSession: a view of a worker's memory stays as it is after the session
// is closed, while another one uses the worker; the session ends with its last view.
func TestViewOutlivesSession(t *testing.T) {
	c, err := cluster.Start(t.Context(), &cluster.Options{InProcess: true, Addr: filepath.Join(t.TempDir(), "d")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	open := func() *session {
		s, err := openSession(fmt.Sprintf(`{"addr": %q}`, c.Addr()), func() bool { return false }, noLine)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const n = 10_000
	ones := slices.Repeat([]float32{1}, n)
	s := open()
	id := s.call(t, tensor.OpNeg, nil, s.floats(t, ones...))
	var views [][]byte
	var releases []func()
	for range 2 {
		b, release, err := s.view(id)
		if err != nil {
			t.Fatal(err)
		}
		views, releases = append(views, b), append(releases, release)
	}
	releases[0]()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.view(id); err == nil {
		t.Error("a closed session gives another view")
	}
	other := open()
	for range 20 {
		x := other.floats(t, ones...)
		if got := other.first(t, other.call(t, tensor.OpExp, nil, x), n); got < 2.7 {
			t.Errorf("exp is %g", got)
		}
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(views[1][4*i:])); v != -1 {
			t.Fatalf("element %d became %g, expected -1", i, v)
		}
	}
	sessions := func() uint64 {
		status, err := client.Status(t.Context(), nil, c.Addr())
		if err != nil {
			t.Fatal(err)
		}
		return status.Get(metrics.Sessions)
	}
	// The dispatcher hears of a close later.
	for end := time.Now().Add(patience); sessions() > 1; {
		if time.Now().After(end) {
			t.Fatal("the other session has not ended")
		}
	}
	if got := sessions(); got != 1 {
		t.Errorf("%d sessions beside a view, expected 1", got)
	}
	releases[1]()
	for end := time.Now().Add(patience); sessions() > 0; {
		if time.Now().After(end) {
			t.Fatal("the session has not ended with its last view")
		}
	}
}

// TestScope: a scope drops what was made in it, but what is kept.
func TestScope(t *testing.T) {
	s := here(t)
	before := s.floats(t, 1)
	mark := s.scope(0, nil)
	gone, kept := s.floats(t, 2), s.floats(t, 3)
	s.scope(mark, []int64{kept})
	for id, there := range map[int64]bool{before: true, gone: false, kept: true} {
		if _, err := s.get(id); (err == nil) != there {
			t.Errorf("tensor %d: %v", id, err)
		}
	}
}

// TestOptimizer: an optimizer updates its parameters, clips, and goes on from a state.
func TestOptimizer(t *testing.T) {
	s := here(t)
	p, g := s.floats(t, 1, 1), s.floats(t, 3, 4)
	o, err := s.newOptimizer(`{"kind": "sgd", "names": ["p"], "lr": 1, "momentum": 0.5}`, []int64{p})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.step(1, 1, []int64{g}); err != nil { // clipped to 0.6, 0.8
		t.Fatal(err)
	}
	if v := s.first(t, p, 2); math.Abs(float64(v)-0.4) > 1e-5 {
		t.Errorf("p is %g, expected 0.4", v)
	}
	state, err := o.state()
	if err != nil || len(state) != 1 {
		t.Fatalf("%v, %v", state, err)
	}
	again, err := s.newOptimizer(`{"kind": "sgd", "names": ["p"], "lr": 1, "momentum": 0.5}`, []int64{p})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.restore(1, state); err != nil {
		t.Fatal(err)
	}
	restored, err := again.state()
	if err != nil || again.Steps() != 1 || s.first(t, restored[0], 2) != s.first(t, state[0], 2) {
		t.Error("the state was not restored")
	}
	for _, bad := range []string{`{"kind": "sgd", "names": []}`, `{"kind": "x", "names": ["p"]}`, `{"what": 1}`, `{`} {
		if _, err := s.newOptimizer(bad, []int64{p}); !errors.Is(err, errArgument) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := o.step(math.NaN(), 0, nil); !errors.Is(err, errArgument) {
		t.Errorf("a learning rate of NaN: %v", err)
	}
	if o.close() != nil || again.close() != nil || s.tensors[p].claims != 1 {
		t.Errorf("%d claims of the parameter", s.tensors[p].claims)
	}
}

// TestSessionInterrupted: a thread that waits for another's call is interrupted by its
// language, and the session goes on.
func TestSessionInterrupted(t *testing.T) {
	var signal atomic.Bool
	s, err := openSession(`{"here": true}`, signal.Load, noLine)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	signal.Store(true)
	if err := s.enter(); !errors.Is(err, errInterrupted) {
		t.Errorf("%v, expected %v", err, errInterrupted)
	}
	if s.tryEnter() {
		t.Error("two calls are under way")
	}
	s.leave()
	signal.Store(false)
	if err := s.enter(); err != nil {
		t.Error(err)
	}
	s.leave()
}

// TestLeftBehind: a signal ends the wait for a program, which goes on; calls wait for its
// end, those waits are interrupted alike, and its error is that of the next wait.
func TestLeftBehind(t *testing.T) {
	var signal atomic.Bool
	s, err := openSession(`{"here": true}`, signal.Load, noLine)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	x := s.floats(t, 2)
	bad := s.call(t, tensor.OpGather, []int64{0}, x, s.call(t, tensor.OpCast, []int64{int64(tensor.I32)}, x))
	signal.Store(true)
	going := make(chan struct{})
	if err := beside(s, func() error { <-going; return s.s.Flush() }); !errors.Is(err, errInterrupted) {
		t.Errorf("%v, expected %v", err, errInterrupted)
	}
	s.leave()
	if err := s.enter(); !errors.Is(err, errInterrupted) {
		t.Errorf("a call while the program runs: %v, expected %v", err, errInterrupted)
	}
	signal.Store(false)
	close(going)
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	defer s.leave()
	if err := s.read(bad, make([]byte, 4)); !errors.Is(err, tensor.ErrIndex) {
		t.Errorf("%v, expected %v", err, tensor.ErrIndex)
	}
	if y := s.first(t, x, 1); y != 2 {
		t.Errorf("2 is %g", y)
	}
}

// TestInterruptedAtTheEnd: a wait that ends well after a signal's handler raised is
// interrupted, so that the exception is raised, and the next call is not.
func TestInterruptedAtTheEnd(t *testing.T) {
	var signal atomic.Bool
	s, err := openSession(`{"here": true}`, signal.Load, noLine)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, work := range []float64{0, 2 * longWork} {
		if err := s.enter(); err != nil {
			t.Fatal(err)
		}
		s.work = work
		signal.Store(true)
		err := s.wait(func() error {
			for s.pulse.Err() == nil {
			}
			return nil
		})
		signal.Store(false)
		s.leave()
		if !errors.Is(err, errInterrupted) {
			t.Errorf("work of %g: %v, expected %v", work, err, errInterrupted)
		}
		if err := s.enter(); err != nil {
			t.Fatal(err)
		}
		if y := s.first(t, s.call(t, tensor.OpNeg, nil, s.floats(t, 2)), 1); y != -2 {
			t.Errorf("-2 is %g", y)
		}
		s.leave()
	}
}

// TestCloseWithin: an optimizer that is closed while a call is under way, as by a handler
// of a signal, does not wait for it, and lets go of its parameters as the call ends.
func TestCloseWithin(t *testing.T) {
	s := here(t)
	p := s.floats(t, 1)
	o, err := s.newOptimizer(`{"kind": "sgd", "lr": 0.1, "names": ["p"]}`, []int64{p})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	if err := o.close(); err != nil || s.tensors[p].claims != 2 {
		t.Errorf("%d claims within a call, %v", s.tensors[p].claims, err)
	}
	s.leave()
	if s.tensors[p].claims != 1 || !s.tryEnter() {
		t.Errorf("%d claims after the call", s.tensors[p].claims)
	}
}

// TestRenew: after an interruption a context serves the next call.
func TestRenew(t *testing.T) {
	p := newPulse(func() bool { return true })
	for range 2 {
		for start := time.Now(); p.Err() == nil && time.Since(start) < patience; {
		}
		if err := p.cause(p.Err()); !errors.Is(err, errInterrupted) {
			t.Fatalf("%v, expected %v", err, errInterrupted)
		}
		p.renew()
		if p.Err() != nil {
			t.Fatal("renewed, and ended")
		}
	}
}

// TestPulseAsks: a wait asks after a sleep, and not at its beginning.
func TestPulseAsks(t *testing.T) {
	asked := 0
	p := newPulse(func() bool { asked++; return false })
	p.next.Store(0)
	_ = p.Err()
	p.next.Store(math.MaxInt64) // which does not come
	p.looked.Store(math.MaxInt64)
	if _ = p.Err(); asked != 0 {
		t.Fatalf("asked %d times without a sleep", asked)
	}
	p.next.Store(math.MaxInt64)
	p.looked.Store(-int64(pulseSleep))
	if _ = p.Err(); asked != 1 {
		t.Errorf("asked %d times after a sleep, expected once", asked)
	}
}

// TestThreads: threads that share a session get the results of their own calls.
func TestThreads(t *testing.T) {
	s := here(t)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for range 50 {
				if s.enter() != nil {
					t.Error("no session")
					return
				}
				y := s.first(t, s.call(t, tensor.OpNeg, nil, s.floats(t, float32(k))), 1)
				s.leave()
				if y != -float32(k) {
					t.Errorf("-%d is %g", k, y)
				}
			}
		})
	}
	wg.Wait()
}

// TestOptions: an option of another type, or that there is not, is named.
func TestOptions(t *testing.T) {
	for text, want := range map[string]string{`{"lr": "a"}`: "lr is a string, expected float64", `{"lrr": 1}`: "lrr"} {
		if err := fromJSON(text, &optimizerOptions{}); !errors.Is(err, errArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected an error with %q", text, err, want)
		}
	}
}

// TestFailureKinds: what callers tell apart has a kind before its text.
func TestFailureKinds(t *testing.T) {
	if f := string(failureOf(tensor.ErrShape)); !strings.HasPrefix(f, "shape\n") {
		t.Error(f)
	}
	_, gone := os.Stat(t.TempDir() + "/gone")
	for kind, err := range map[string]error{"missing": gone, "refused": ipc.ErrNoListener, "lost": fmt.Errorf("%w: %w", tensor.ErrLost, gone)} {
		if f := string(failureOf(err)); !strings.HasPrefix(f, kind+"\n") {
			t.Errorf("%q, expected the kind %s", f, kind)
		}
	}
	if f := string(failureOf(errors.New("x"))); f != "\nx" {
		t.Error(f)
	}
}
