package dispatcher

import (
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// trimLooks is in how many looks a queue is found that was not used between two of
	// them.
	trimLooks = 2

	// trimAtOnce is how many queues are looked at in a round: to give one back takes as
	// long as some messages.
	trimAtOnce = 8
)

// trimmer gives the memory of queues back to the machine in which the dispatcher sent
// nothing for a while. It looks at all of them twice after there was something to do, and
// wakes no dispatcher that has nothing to do.
type trimmer struct {
	due   atomic.Bool
	timer *time.Timer // nil until there was something to do
	armed bool        // the timer runs, or a look is due
	looks int         // that are still to be taken
	under bool        // a look is under way
	rest  []*peer     // that it has not come to
}

// worked notes that there was something to do.
func (t *trimmer) worked(o *Options) {
	t.looks = trimLooks
	if !t.armed {
		t.arm(o)
	}
}

// arm has the dispatcher take a look in a while.
func (t *trimmer) arm(o *Options) {
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(o.KeepUnused/trimLooks, func() {
			t.due.Store(true)
			o.Waiter.Wake()
		})
		return
	}
	t.timer.Reset(o.KeepUnused / trimLooks)
}

// round takes a part of a look that is due, and reports whether more of it is to come.
func (t *trimmer) round(d *Dispatcher) (more bool) {
	if t.due.Load() {
		t.due.Store(false)
		t.under, t.rest = true, append(t.rest, d.peers.all...)
		t.looks--
	}
	if !t.under {
		return false
	}
	n := min(trimAtOnce, len(t.rest))
	for _, p := range t.rest[:n] {
		if !p.gone {
			ipc.Trim(p.conn)
		}
	}
	if t.rest = t.rest[n:]; len(t.rest) > 0 {
		return true
	}
	t.under, t.rest = false, nil
	if t.armed = t.looks > 0; t.armed {
		t.arm(&d.o)
	}
	return false
}

// end has no more looks taken.
func (t *trimmer) end() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
