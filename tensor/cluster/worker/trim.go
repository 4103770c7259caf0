package worker

import (
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// trimLooks is how often the worker looks for unused memory in Options.KeepUnused. A
// device needs two looks to see that a program's temporaries are not used, and a third to
// see that a segment without them is not.
const trimLooks = 3

// trimmer says when the worker is to look for memory that nothing uses.
type trimmer struct {
	due   atomic.Bool
	timer *time.Timer
}

// begin has the worker woken by wake once every Options.KeepUnused / trimLooks, until
// end.
func (t *trimmer) begin(every time.Duration, wake func()) {
	t.timer = time.AfterFunc(every, func() {
		t.due.Store(true)
		wake()
	})
}

func (t *trimmer) end() { t.timer.Stop() }

// trimUnused gives memory back that no session has used for a while.
func (w *Worker) trimUnused() {
	w.trimmer.due.Store(false)
	w.dev.Trim(w.peersHave)
	w.out.trim()
	for _, s := range w.connected {
		if in := s.inlet(); in.conn != nil {
			ipc.Trim(in.conn)
		}
		if s, ok := s.(*shared); ok && s.open() { // else others may still be added
			for _, c := range s.lead.others {
				ipc.Trim(c)
			}
		}
	}
	w.trimmer.timer.Reset(w.o.KeepUnused / trimLooks)
}

// peersHave reports whether a client or a worker of an open session may have mapped the
// segment: it learns that a segment is gone by the session's end alone.
func (w *Worker) peersHave(segment uint64) bool {
	for _, s := range w.sessions {
		c := s.core()
		if _, ok := c.results.announced[segment]; ok {
			return true
		}
		if _, ok := c.shown[segment]; ok {
			return true
		}
	}
	return false
}
