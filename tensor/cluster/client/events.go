package client

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// MaxEvents bounds the events of a client that are kept: 48 MiB.
const MaxEvents = 1 << 20

// Events is a ring of what an engine did (Options.Trace), without locks: the goroutine in
// Submit adds events, and another one takes them. Events that do not fit are counted and
// dropped. One engine uses it.
type Events struct {
	ring    []Event // of a power of two
	epoch   time.Time
	added   atomic.Uint64 // events so far
	taken   atomic.Uint64 // of these
	dropped atomic.Uint64
	numbers wire.Numbers // of messages sent
}

// NewEvents makes a ring of at least n events, between 1 and MaxEvents.
func NewEvents(n int) *Events {
	n = max(1, min(n, MaxEvents))
	return &Events{ring: make([]Event, 1<<bits.Len(uint(n-1))), epoch: time.Now()}
}

// add keeps an event that ends now. On nil it does nothing.
func (r *Events) add(kind wire.EventKind, began time.Time, what, bytes uint64) {
	if r == nil {
		return
	}
	n := r.added.Load()
	if n-r.taken.Load() == uint64(len(r.ring)) {
		r.dropped.Add(1)
		return
	}
	r.ring[n%uint64(len(r.ring))] = Event{Kind: kind, Begin: uint64(r.epoch.UnixNano() + int64(began.Sub(r.epoch))),
		Took: uint64(max(time.Since(began), 0)), What: what, Bytes: bytes}
	r.added.Store(n + 1)
}

// now returns the time, zero on nil.
func (r *Events) now() (t time.Time) {
	if r != nil {
		t = time.Now()
	}
	return t
}

// sent notes a message that was sent. Numbers are counted also where the event is
// dropped.
func (r *Events) sent(began time.Time, kind uint32, n int) {
	if r != nil {
		r.add(wire.EventSent, began, wire.Numbered(kind, r.numbers.Next(kind)), uint64(n))
	}
}

// submitted notes a batch, and what it uploads, reads and frees.
func (r *Events) submitted(began time.Time, seq uint64, b *tensor.Batch, got []tensor.Fetched) {
	if r == nil {
		return
	}
	bytes := 0
	for i := range got {
		bytes += len(got[i].Bytes)
	}
	if len(got) > 0 {
		r.add(wire.EventRead, time.Now(), uint64(len(got)), uint64(bytes))
	}
	if len(b.Frees) > 0 {
		r.add(wire.EventFree, time.Now(), uint64(len(b.Frees)), 0)
	}
	r.add(wire.EventSubmit, began, seq, 0)
}

// Take takes the oldest events and adds them to dst, at most limit. dropped is the number
// of events so far for which there was no room. One goroutine at a time calls it, at any
// time.
func (r *Events) Take(dst []Event, limit int) (events []Event, dropped uint64) {
	if r == nil {
		return dst, 0
	}
	from, to := r.taken.Load(), r.added.Load()
	for ; from < to && limit > 0; limit-- {
		dst = append(dst, r.ring[from%uint64(len(r.ring))])
		from++
	}
	r.taken.Store(from)
	return dst, r.dropped.Load()
}
