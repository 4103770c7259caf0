package collective

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// TestEvents: each call of each rank is in its file, of sub-groups, calls made once and
// messages with a tag too, and a call that fails says so although the group is not closed
// by then.
func TestEvents(t *testing.T) {
	ctx, dir := hangGuard(t), filepath.Join(t.TempDir(), "events[1]")
	const n = 2
	board := newForum(n)
	groups := make([]*Group, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			ranks := &Ranks{Rank: rank, Size: n, Secret: []byte("of these two ranks"), Exchange: board.exchange(rank)}
			g, err := InitOver(ctx, ranks, &Options{Events: dir})
			if groups[rank] = g; err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	if wg.Wait(); t.Failed() {
		return
	}
	all(t, groups, func(g *Group) error {
		x := []float32{1, 2, 3}
		again, err := AllReduceInit(g, x, x, Max)
		errs := []error{err, AllReduce(ctx, g, x, x, Mean), again.Run(ctx)}
		half, err := g.Split(ctx, 0, g.Rank())
		errs = append(errs, err, half.Barrier(ctx), half.Close())
		if g.Rank() == 0 {
			return errors.Join(append(errs, SendTag(ctx, g, []int64{7, 8}, 1, 9))...)
		}
		_, err = RecvTag(ctx, g, make([]int64, 2), AnyRank, 9)
		return errors.Join(append(errs, err)...)
	})
	all(t, groups, func(g *Group) error {
		if err := Broadcast(ctx, g, make([]uint8, 1+g.Rank()), 0); !errors.Is(err, ErrMismatch) && g.Rank() == 1 {
			t.Errorf("lengths that differ: %v", err)
		}
		return nil
	})
	ranks, err := ReadEvents(dir) // before any rank closes
	if err != nil || len(ranks) != n {
		t.Fatalf("%d ranks, %v", len(ranks), err)
	}
	if last := ranks[1].Events; !last[len(last)-1].Failed {
		t.Error("the broadcast with another length is not said to have failed")
	}
	all(t, groups, func(g *Group) error { return g.Close() })
	if ranks, err = ReadEvents(dir); err != nil {
		t.Fatal(err)
	}
	for i, r := range ranks {
		if r.Rank != i || r.Size != n || r.PID != uint64(os.Getpid()) || r.Dropped != 0 || len(r.Groups) != 2 ||
			r.Groups[0] != (EventGroup{"world", i, n, "shared memory"}) || r.Groups[1].Name != "world/1.0" {
			t.Errorf("rank %d: %+v", i, r)
		}
		var kinds []protocol.Kind
		for _, e := range r.Events {
			kinds = append(kinds, e.Call.Kind)
			if e.Took < 0 || e.Began <= 0 || e.Failed != (e.Call.Kind == protocol.Broadcast && e.Failed) {
				t.Errorf("rank %d: %+v", i, e)
			}
			if e.Tagged && (e.Tag != 9 || e.Peer != 1-i || e.Call.Count != 2) {
				t.Errorf("rank %d: %+v", i, e)
			}
		}
		pair := []protocol.Kind{protocol.Send, protocol.Recv}[i]
		want := []protocol.Kind{protocol.Barrier, protocol.AllReduce, protocol.AllReduce, protocol.AllGather, protocol.Barrier, pair, protocol.Broadcast}
		if !slices.Equal(kinds, want) {
			t.Errorf("rank %d: %v, expected %v", i, kinds, want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, filesIn(t, dir)[0])); err != nil || len(b)%eventBytes != 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(err, len(entries))
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestEventsFull: events without room are counted, and the file stays within its bound.
func TestEventsFull(t *testing.T) {
	r, err := newRecorder(t.TempDir(), 0, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	r.wrote = eventsBytes - 4*eventBytes // header, group and two calls have room
	g := &Group{size: 1, options: Options{name: "alone"}}
	tape := r.begin(g)
	for range 5 {
		tape.call(recordCall, r.born, protocol.Call{Kind: protocol.Barrier}, 0, 0, nil)
	}
	if err := tape.close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(r.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	e, err := parseEvents(b)
	if err != nil || len(e.Events) != 2 || e.Dropped != 3 || e.Attempt != 3 || e.Groups[0].Name != "alone" {
		t.Errorf("%+v, %v; expected two events and three dropped", e, err)
	}
}

// TestEventsOfNoPeer: a receive from any rank that took no message is of no rank. The
// error of a file that can't be read says why.
func TestEventsOfNoPeer(t *testing.T) {
	dir := t.TempDir()
	r, err := newRecorder(dir, 0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	tape := r.begin(&Group{size: 1, options: Options{name: "alone"}})
	call := protocol.Call{Kind: protocol.Recv, DType: element.U8, Count: 1}
	tape.call(recordTagged, r.born, call, AnyRank, 7, ErrTimeout)
	tape.call(recordTagged, r.born, call, 3, 7, nil)
	if err := tape.close(); err != nil {
		t.Fatal(err)
	}
	all, err := ReadEvents(dir)
	if err != nil || len(all) != 1 || len(all[0].Events) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if e := all[0].Events; e[0].Peer != AnyRank || !e[0].Failed || e[1].Peer != 3 || e[1].Failed {
		t.Errorf("%+v", e)
	}
	b, err := os.ReadFile(r.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for want, changes := range map[string]map[int]byte{
		"group 1, expected one of 1":      {4: 1},
		"nothing negative":                {8 + 7: 0x80},
		"nothing negative, nor their sum": {8 + 7: 0x7f, 16 + 7: 0x7f},
	} {
		c := slices.Clone(b)
		for at, x := range changes {
			c[2*eventBytes+at] = x // of the first call
		}
		if _, err := parseEvents(c); !errors.Is(err, ErrEvents) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// FuzzEvents: any file is refused, or has events that are safe to print.
func FuzzEvents(f *testing.F) {
	head := append([]byte(eventsMagic), make([]byte, eventBytes-8)...)
	group := append([]byte{recordGroup}, make([]byte, eventBytes-1)...)
	call := append([]byte{recordTagged}, make([]byte, eventBytes-1)...)
	f.Add(head)
	f.Add(bytes.Join([][]byte{head, group, call}, nil))
	f.Add(bytes.Join([][]byte{head, call}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEvents(b)
		if err != nil {
			if !errors.Is(err, ErrEvents) {
				t.Error(err)
			}
			return
		}
		for _, x := range e.Events {
			if _ = x.Call.String(); x.Group >= len(e.Groups) || x.Took < 0 {
				t.Errorf("%+v", x)
			}
		}
	})
}

// BenchmarkEvents compares a small call with its events written and without.
func BenchmarkEvents(b *testing.B) {
	for _, traced := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[traced], func(b *testing.B) {
			groups, err := Local(1, nil)
			if err != nil {
				b.Fatal(err)
			}
			g, ctx := groups[0], b.Context()
			defer g.Close()
			if traced {
				r, err := newRecorder(b.TempDir(), 0, 1, 0)
				if err != nil {
					b.Fatal(err)
				}
				g.options.tape = r.begin(g)
			}
			x := make([]float32, 16)
			for b.Loop() {
				if err := AllReduce(ctx, g, x, x, Sum); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
