package trace_test

import (
	"bytes"
	"errors"
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
