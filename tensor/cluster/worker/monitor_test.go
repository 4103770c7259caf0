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
}
