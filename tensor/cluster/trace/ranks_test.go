package trace_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// TestWriteRanks: the calls of two ranks are one timeline and one log, in the order of
// their beginning, of which the summary tells waiting from computing.
func TestWriteRanks(t *testing.T) {
	reduce := protocol.Call{Seq: 2, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 100, Scale: 0.5}
	send := protocol.Call{Kind: protocol.Send, DType: element.I64, Count: 3}
	var ranks []*collective.RankEvents
	for r := range 2 {
		began := int64(1e18) + int64(r)*1000
		ranks = append(ranks, &collective.RankEvents{Rank: r, Size: 2, PID: uint64(10 + r), Attempt: uint64(r), Dropped: uint64(r),
			Groups: []collective.EventGroup{{Name: "world", Rank: r, Size: 2, Path: "shared memory"}},
			Events: []collective.Event{
				{Call: reduce, Began: began, Took: 4000},
				{Call: send, Began: began + 2000, Took: 9000, Tagged: true, Tag: 7, Peer: 1 - r},
				{Call: reduce, Began: began + 10000, Took: 2000, Failed: r == 1},
				{Call: send, Began: began + 20000, Took: 1000, Tagged: true, Peer: collective.AnyRank, Failed: true},
			}})
	}
	var file, log bytes.Buffer
	n, dropped, err := trace.WriteRanks(ranks, &trace.Options{Trace: &file, Log: &log})
	if err != nil || n != 4+4+8 || dropped != 1 { // names, calls, both ends of messages
		t.Errorf("%d events, %d dropped, %v", n, dropped, err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	const first = `0 0.000 "call" "rank 0 (process 10)" "all-reduce" "f32[100]" 400 4.000 call=2 reduction="mean" path="shared memory"`
	if len(lines) != 1+8+1 || lines[1] != first || !strings.Contains(lines[2], `"rank 1, restart 1 (process 11)"`) {
		t.Errorf("%d lines: %s", len(lines), log.String())
	}
	if s := lines[6]; !strings.HasSuffix(s, "failed=1") {
		t.Errorf("the last call is %s", s)
	}
	if s := lines[7]; strings.Contains(s, "peer=") {
		t.Errorf("a message of no rank is %s", s)
	}
	f, err := trace.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	s := trace.Summarize(f)
	if len(s.Lanes) != 2 || s.Lanes[0].Waiting != 6e-6 || s.Lost != 1 || s.Ops[0].Name != "all-reduce" || s.Ops[0].Bytes != 1600 {
		t.Errorf("%+v", s)
	}
	var said strings.Builder
	if err := s.Write(&said, 3); err != nil || !strings.Contains(said.String(), "ranks: in calls") || !strings.Contains(said.String(), "ranks: between calls") {
		t.Errorf("%v: %s", err, said.String())
	}
	if _, _, err := trace.WriteRanks(ranks, nil); !errors.Is(err, ipc.ErrBadOption) {
		t.Error(err)
	}
}

// TestWriteRanksOfHosts: the clocks of hosts are set by the calls of all ranks, also
// where they drift apart; events that do not bind all ranks, and hosts without a call,
// set none.
func TestWriteRanksOfHosts(t *testing.T) {
	const second = int64(1e9)
	reduce := protocol.Call{Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 100}
	// Rank r on host h comes to call n at n ms and 10 r µs, and all leave it 50 µs later.
	rank := func(r int, host string, ahead, drift int64) *collective.RankEvents {
		out := &collective.RankEvents{Host: host, Rank: r, Size: 4, Groups: []collective.EventGroup{{Name: "world", Rank: r, Size: 4}, {Name: "half", Size: 2}}}
		for n := range int64(10) {
			c, began := reduce, int64(1e18)+n*1e6+int64(r)*1e4
			c.Seq = uint64(1 + n)
			out.Events = append(out.Events, collective.Event{Call: c, Began: began + ahead + n*drift, Took: int64(1e18) + n*1e6 + 5e4 - began})
			// the root leaves it before others come
			c.Kind, c.Seq = protocol.Broadcast, c.Seq+100
			out.Events = append(out.Events, collective.Event{Call: c, Began: began + ahead + n*drift, Took: 1})
		}
		return out
	}
	for name, c := range map[string]struct {
		ahead, drift int64
		within       float64 // µs
	}{
		"ahead": {ahead: 5 * second, within: 50}, "behind": {ahead: -3 * second, within: 50},
		"drifting": {ahead: second, drift: 1e5, within: 1000}, "of one host": {within: 50},
	} {
		ranks := []*collective.RankEvents{rank(0, "a", 0, 0), rank(1, "a", 0, 0), rank(2, "b", c.ahead, c.drift), rank(3, "b", c.ahead, c.drift)}
		var file bytes.Buffer
		if _, _, err := trace.WriteRanks(ranks, &trace.Options{Trace: &file}); err != nil {
			t.Fatal(err)
		}
		f, err := trace.Parse(&file)
		if err != nil {
			t.Fatal(err)
		}
		if f.Processes[3] != "rank 2 on b (process 0)" {
			t.Errorf("%s: rank 2 is %q", name, f.Processes[3])
		}
		set := 0
		for i := range f.Events {
			e := &f.Events[i]
			if strings.HasPrefix(e.Name, "clock set by calls, to ") {
				set++
			}
			if n, ok := e.Args["call"].(float64); ok && e.Name == "all-reduce" {
				want := (n-1)*1000 + float64(e.PID-1)*10
				if math.Abs(e.TS-want) > c.within {
					t.Errorf("%s: call %v of rank %d at %g µs, expected %g", name, n, e.PID-1, e.TS, want)
				}
			}
		}
		if set != 2 {
			t.Errorf("%s: %d clocks set, expected those of 2 ranks", name, set)
		}
	}
	lost := rank(2, "b", second, 0)
	lost.Events = lost.Events[1:2]
	var log bytes.Buffer
	if _, _, err := trace.WriteRanks([]*collective.RankEvents{rank(0, "a", 0, 0), lost}, &trace.Options{Log: &log}); err != nil || !strings.Contains(log.String(), "clock not set: no call of all ranks") {
		t.Errorf("%v, %s", err, &log)
	}
}
