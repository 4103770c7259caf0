package ring

import (
	"sync/atomic"
	"testing"
)

// TestRouse: a process died between the two halves of Ring. The bell says "awake" from
// then on, so that ringing has no effect; rousing has.
func TestRouse(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	dying := &Bell{state: bell.state, barrier: bell.barrier, futex: Futex{Wake: func(*uint32, int) error { return nil }}}
	w := NewWaiter(bell, nil)
	var ready atomic.Bool
	done := make(chan bool)
	go func() { done <- w.Wait(ready.Load, nil) }()
	<-f.parked
	dying.Ring()
	ready.Store(true)
	bell.Ring()
	bell.Rouse()
	<-done
	if st := w.Stats(); st.Expired != 0 {
		t.Errorf("the sleeper woke by itself: %+v", st)
	}
}
