package worker

import (
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestWatchEnds checks that a worker that gets no Watch for long enough stops measuring,
// and frees the memory of events.
func TestWatchEnds(t *testing.T) {
	w := &monitor{}
	now := time.Now()
	w.on, w.until, w.log = true, now.Add(time.Hour), make([]wire.Event, logSize)
	w.message(nil, false, now, wire.KindRun, 1, 10)
	if !w.on || w.next != 1 || w.messages != 1 {
		t.Errorf("while somebody looks: %v, %d events", w.on, w.next)
	}
	w.until = now.Add(-time.Second)
	w.message(nil, false, now, wire.KindRun, 1, 10)
	if w.on || w.log != nil {
		t.Error("the worker measures for nobody")
	}
	if !w.now().IsZero() {
		t.Error("the time is asked for nobody")
	}
}

// TestWatchKeepsTheLast checks that the most recent events are kept, and that an answer
// shows how many are missing.
func TestWatchKeepsTheLast(t *testing.T) {
	w := monitor{on: true, log: make([]wire.Event, logSize)}
	const more = 100
	for i := range uint64(logSize + more) {
		w.event(wire.EventMessage, 1, time.Now(), 0, i, 0)
	}
	if w.from != more || w.next != logSize+more || w.log[w.from%logSize].What != more {
		t.Errorf("events %d to %d, the first %+v", w.from, w.next, w.log[w.from%logSize])
	}
	// Answers take them across the end of the ring, and begin with the oldest.
	const limit = 1000
	for since, next := uint64(0), uint64(more); next < w.next; {
		got, first, left := w.events(since, limit)
		if first != next || len(got) != int(min(limit, w.next-next)) || left != (next+limit < w.next) {
			t.Fatalf("since %d: %d events from %d on, more: %v; expected them from %d on", since, len(got), first, left, next)
		}
		for i, e := range got {
			if e.What != next+uint64(i) {
				t.Fatalf("event %d is %+v", next+uint64(i), e)
			}
		}
		next += uint64(len(got))
		since = next
	}
	if got, first, left := w.events(w.next+5, limit); len(got) > 0 || first != w.next || left {
		t.Errorf("of those to come: %d events from %d on, more: %v", len(got), first, left)
	}
}
