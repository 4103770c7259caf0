package dispatcher

import (
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// trimLooks is how many looks at a queue are needed to find that it was not used
	// between them.
	trimLooks = 2

	// trimAtOnce is how many queues are looked at in a round, before messages are handled
	// again: giving the memory of one back takes as long as handling some messages.
	trimAtOnce = 8
)

// trimmer gives the memory of queues back to the machine if the dispatcher has sent
// nothing in them for a while. After the last message it looks at all queues twice, and
// then no more: a dispatcher that has nothing to do is not woken.
type trimmer struct {
	due   atomic.Bool
	timer *time.Timer // nil until there was something to do
	armed bool        // the timer runs, or a look is due
	looks int         // that are still to be taken
	under bool        // a look is under way
	rest  []*peer     // those that the look has not reached
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
