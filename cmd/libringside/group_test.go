package main

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

const patience = time.Minute // only against hangs

// opened makes a group of n ranks as callers of the library do: step by step, each
// carrying the values of all to its own.
func opened(t *testing.T, n int, interrupted func() bool) []*group {
	t.Helper()
	openings := make([]*opening, n)
	for rank := range openings {
		var err error
		if openings[rank], err = begin(rank, n, 0, "test", []byte("a secret of these ranks"), interrupted); err != nil {
			t.Fatal(err)
		}
	}
	groups := make([]*group, n)
	for {
		var values []byte
		lengths := make([]int, n)
		for rank, o := range openings {
			s, v, g, err := o.step(patience)
			if err != nil || s == pending {
				t.Fatalf("rank %d: state %d, %v", rank, s, err)
			}
			if s == done {
				groups[rank] = g
			}
			lengths[rank], values = len(v), append(values, v...)
		}
		if groups[0] != nil {
			return groups
		}
		for rank, o := range openings {
			if err := o.give(values, lengths); err != nil {
				t.Fatalf("rank %d: %v", rank, err)
			}
		}
	}
}

// closed closes all ranks of a group at once, so that none waits for another.
func closed(groups []*group) {
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() { g.close() })
	}
	wg.Wait()
}

// TestMemory: calls on memory of the group copy nothing, and it can be given back once.
func TestMemory(t *testing.T) {
	groups := opened(t, 2, func() bool { return false })
	defer closed(groups)
	const n = 1 << 20
	var wg sync.WaitGroup
	for rank, g := range groups {
		wg.Go(func() {
			first, err := g.lend(n)
			if err != nil {
				t.Error(err)
				return
			}
			b := g.lent[first].bytes
			b[n-1] = byte(rank + 1)
			r, err := g.request(int(protocol.AllReduce), int(element.Sum), int(element.U8), 0, b, b, nil, nil)
			if err == nil {
				err = g.call(r)
			}
			if staged, direct := g.Copied(); err != nil || b[n-1] != 3 || staged != 0 || direct != 1 {
				t.Errorf("rank %d: %v, sum %d, %d calls copied and %d in place, expected 3, none and 1", rank, err, b[n-1], staged, direct)
			}
			if err := g.takeBack(first); err != nil {
				t.Error(err)
			}
			if err := g.takeBack(first); !errors.Is(err, errArgument) {
				t.Errorf("taken back twice: %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := groups[0].lend(0); !errors.Is(err, errArgument) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := groups[0].lend(n); err != nil { // closed with the group
		t.Error(err)
	}
}

// TestCalls: calls by number do what their constants say, at once and started.
func TestCalls(t *testing.T) {
	groups := opened(t, 2, func() bool { return false })
	defer closed(groups)
	var wg sync.WaitGroup
	for rank, g := range groups {
		wg.Go(func() {
			mine := []byte{byte(rank + 1), 10}
			for _, started := range []bool{false, true} {
				sum := make([]byte, 2)
				r, err := g.request(int(protocol.AllReduce), int(element.Sum), int(element.U8), 0, sum, mine, nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
				s := done
				if started {
					s, err = wait(g.start(r), patience)
				} else {
					err = g.call(r)
				}
				if err != nil || s != done || !slices.Equal(sum, []byte{3, 20}) {
					t.Errorf("rank %d, started %v: %v, state %d, %v", rank, started, sum, s, err)
				}
				meet, err := g.request(int(protocol.Barrier), 0, 0, 0, nil, nil, nil, nil)
				if err == nil {
					err = g.call(meet)
				}
				if err != nil {
					t.Errorf("rank %d: barrier: %v", rank, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestRefused: numbers that do not fit are refused, never cut.
// TestPairs: sends and receives have a tag, and do not wait for each other.
func TestPairs(t *testing.T) {
	groups := opened(t, 2, func() bool { return false })
	defer closed(groups)
	pair := func(rank int, kind protocol.Kind, tag, peer int, b []byte) *collective.Raw {
		r, err := groups[rank].request(int(kind), tag, int(element.U8), peer, b, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := []byte{0}, []byte{0}
	late := groups[0].start(pair(0, protocol.Recv, 5, -1, a))
	if s, err := wait(late, 0); s != pending || err != nil {
		t.Errorf("a receive without a send: %v %v", s, err)
	}
	if err := groups[1].call(pair(1, protocol.Send, 6, 0, []byte{6})); err != nil {
		t.Error(err)
	}
	if err := groups[0].call(pair(0, protocol.Recv, 6, 1, b)); err != nil || b[0] != 6 {
		t.Errorf("%d: %v", b[0], err)
	}
	if err := groups[1].call(pair(1, protocol.Send, 5, 0, []byte{5})); err != nil {
		t.Error(err)
	}
	if s, err := wait(late, patience); s != done || err != nil || a[0] != 5 || late.From() != 1 {
		t.Errorf("from any rank: %v %v, %d from %d", s, err, a[0], late.From())
	}
	if _, err := groups[0].request(int(protocol.Send), -1, int(element.U8), 1, a, nil, nil, nil); !errors.Is(err, errArgument) {
		t.Errorf("a negative tag: %v", err)
	}
}

func TestRefused(t *testing.T) {
	g := opened(t, 1, func() bool { return false })[0]
	defer g.close()
	for what, n := range map[string][3]int{
		"kind": {256 + int(protocol.AllReduce), 1, 1}, "op": {1, -1, 1}, "dtype": {1, 1, 257}, "mean of integers": {1, int(element.Mean), int(element.I32)},
	} {
		if _, err := g.request(n[0], n[1], n[2], 0, nil, nil, nil, nil); !errors.Is(err, errArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := begin(2, 2, 0, "", nil, nil); !errors.Is(err, errArgument) {
		t.Errorf("rank 2 of 2: %v", err)
	}
}

// TestGiveRefused: values that no step asked for, or too few, are refused, and an opening
// that is given up ends.
func TestGiveRefused(t *testing.T) {
	o, err := begin(0, 2, 0, "test", []byte("a secret of these ranks"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.give(nil, []int{0, 0}); !errors.Is(err, errArgument) {
		t.Errorf("before a step: %v", err)
	}
	if s, _, _, err := o.step(patience); s != exchange || err != nil {
		t.Fatalf("state %d, %v", s, err)
	}
	for _, lengths := range [][]int{{1}, {1, 5}, {-1, 2}} {
		if err := o.give([]byte{1, 2}, lengths); !errors.Is(err, errArgument) {
			t.Errorf("lengths %v: %v", lengths, err)
		}
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// TestInterrupted: a call that waits for another rank ends when the caller's language
// says so, and the group with it.
func TestInterrupted(t *testing.T) {
	var signal atomic.Bool
	asked := make(chan struct{})
	var once sync.Once
	groups := opened(t, 2, func() bool {
		once.Do(func() { close(asked) })
		return signal.Load()
	})
	defer closed(groups)
	go func() {
		<-asked
		signal.Store(true)
	}()
	r, err := groups[0].request(int(protocol.Barrier), 0, 0, 0, nil, nil, nil, nil)
	if err == nil {
		err = groups[0].call(r)
	}
	var failed *collective.Error
	if !errors.Is(err, errInterrupted) || !errors.As(err, &failed) {
		t.Errorf("%v, expected %v", err, errInterrupted)
	}
}

// TestHandles: a handle is refused once it is dropped, and where another kind is
// expected.
func TestHandles(t *testing.T) {
	var h handles
	a, b := h.put("a"), h.put(7)
	if x, err := get[string](&h, a); x != "a" || err != nil {
		t.Errorf("%q, %v", x, err)
	}
	if _, err := get[string](&h, b); !errors.Is(err, errHandle) {
		t.Errorf("of another kind: %v", err)
	}
	h.drop(a)
	for _, handle := range []uint64{0, a, b + 1} {
		if _, err := get[string](&h, handle); !errors.Is(err, errHandle) {
			t.Errorf("handle %d: %v", handle, err)
		}
	}
	if c := h.put("c"); c == a {
		t.Error("a handle is used twice")
	}
}

// TestHeader compares the numbers of ringside.h with those of the packages.
func TestHeader(t *testing.T) {
	text, err := os.ReadFile("ringside.h")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, m := range regexp.MustCompile(`RINGSIDE_(\w+) = (\d+)`).FindAllStringSubmatch(string(text), -1) {
		got[m[1]], _ = strconv.Atoi(m[2])
	}
	want := map[string]int{
		"PENDING": int(pending), "EXCHANGE": int(exchange), "DONE": int(done),
		"ALL_REDUCE": int(protocol.AllReduce), "REDUCE": int(protocol.Reduce), "REDUCE_SCATTER": int(protocol.ReduceScatter),
		"ALL_GATHER": int(protocol.AllGather), "BROADCAST": int(protocol.Broadcast), "SCATTER": int(protocol.Scatter),
		"GATHER": int(protocol.Gather), "ALL_TO_ALL": int(protocol.AllToAll), "BARRIER": int(protocol.Barrier),
		"SEND": int(protocol.Send), "RECV": int(protocol.Recv),
		"SUM": int(element.Sum), "PROD": int(element.Prod), "MIN": int(element.Min), "MAX": int(element.Max),
		"AND": int(element.And), "OR": int(element.Or), "XOR": int(element.Xor), "MEAN": int(element.Mean),
		"GRADIENT": 1, "SET_GRADIENT": 2, "DETACH": 3, "REQUIRE_GRAD": 4, "ASSIGN": 5, "ASSIGN_VALUE": 6, "SET_SIGNAL": 7,
		"LINE": callLine, "GRADIENTS": callGradients, "STEP": callStep,
		"F32": int(element.F32), "F64": int(element.F64), "I32": int(element.I32), "I64": int(element.I64),
		"U8": int(element.U8), "BOOL": int(element.Bool), "F16": int(element.F16), "BF16": int(element.BF16),
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("RINGSIDE_%s is %d, expected %d", name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d numbers in ringside.h, expected %d", len(got), len(want))
	}
}
