package client

import (
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestEvents: events are taken in order while others are added, and those without room
// are counted.
func TestEvents(t *testing.T) {
	const n = 20000
	ring := NewEvents(100) // 128
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range n {
			ring.add(wire.EventSubmit, time.Now(), uint64(i), 0)
		}
	}()
	var got []Event
	var dropped uint64
	for done := false; !done; {
		select {
		case <-over:
			done = true
		default:
		}
		got, dropped = ring.Take(got, n)
	}
	if len(got)+int(dropped) != n || len(got) < len(ring.ring) {
		t.Errorf("%d events taken and %d dropped of %d", len(got), dropped, n)
	}
	for i := range got[1:] {
		if got[i].What >= got[i+1].What {
			t.Fatalf("event %d comes after %d", got[i+1].What, got[i].What)
		}
	}
	var none *Events
	none.add(wire.EventSubmit, none.now(), 0, 0) // nothing happens
}
