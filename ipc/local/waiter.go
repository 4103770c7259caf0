package local

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
)

// Waiter is what one goroutine sleeps on for any number of conns, listeners and whatever
// else calls Wake. Peers in other processes wake it through shared memory. It waits by
// the policy of ring.Waiter: awake for some 50 µs, 200 where sleeps turn out to be short,
// then asleep, at most 100 ms at a time. Conns of every other transport can use it as
// well.
//
// One goroutine at a time may Wait; any may Wake.
type Waiter struct {
	page *bellPage
	bell *ring.Bell // the one of page that this sleeps on
	ring *ring.Waiter

	ctx     context.Context // of the Wait under way
	stop    func() bool     // ctx is done
	watched atomic.Pointer[watch]

	arms ipc.Arms // called before each sleep

	// Held while the memory of a conn is made or mapped. When very many peers come at
	// once, the goroutine that waits still gets processors and locks of the kernel.
	making sync.Mutex
}

var _ ipc.Waiter = (*Waiter)(nil)

// watch is a context that wakes the waiter when it is done. It outlives the Wait, since
// the next one most likely has the same context and registering costs more than most
// waits.
type watch struct {
	done   <-chan struct{}
	forget func() bool
}

// NewWaiter makes a Waiter, to be given in ipc.Options. It holds one page of memory until
// it can no longer be reached.
func NewWaiter() (*Waiter, error) {
	page, err := newBellPage(nil)
	if err != nil {
		return nil, err
	}
	return page.waiter(page.data), nil
}

func (p *bellPage) waiter(bell *ring.Bell) *Waiter {
	w := &Waiter{page: p, bell: bell}
	w.ring = ring.NewWaiter(bell, &ring.WaiterOptions{Parking: func() { w.arms.Call() }})
	w.stop = func() bool { return w.ctx.Err() != nil }
	return w
}

// Wait calls ready until it returns true, or returns the error of ctx when that is done.
func (w *Waiter) Wait(ctx context.Context, ready func() bool) error {
	defer runtime.KeepAlive(w.page)
	done := ctx.Done()
	if done == nil {
		w.ring.Wait(ready, nil)
		return nil
	}
	if last := w.watched.Load(); last == nil || last.done != done {
		w.watch(ctx)
	}
	w.ctx = ctx
	if w.ring.Wait(ready, w.stop) {
		return nil
	}
	return ipc.ContextError(ctx)
}

// watch has ctx wake the waiter from now on, instead of the context before it.
func (w *Waiter) watch(ctx context.Context) {
	next := &watch{done: ctx.Done(), forget: context.AfterFunc(ctx, w.Wake)}
	if last := w.watched.Swap(next); last != nil {
		last.forget()
	}
}

// unwatch lets go of the last context.
func (w *Waiter) unwatch() {
	if last := w.watched.Swap(nil); last != nil {
		last.forget()
	}
}

// Close lets go of the context of the last Wait and of a descriptor: no further conn can
// be opened with the waiter. Those that were go on, until they are closed.
func (w *Waiter) Close() {
	w.unwatch()
	w.page.seg.File().Close()
}

// OnPark has Wait call arm before each sleep, until forget is called.
func (w *Waiter) OnPark(arm func()) (forget func()) { return w.arms.Add(arm) }

// Wake makes the Wait under way call ready again.
func (w *Waiter) Wake() {
	w.bell.Ring()
	runtime.KeepAlive(w.page)
}

// rouse is Wake for when a peer may have died in the middle of waking us.
func (w *Waiter) rouse() {
	w.bell.Rouse()
	runtime.KeepAlive(w.page)
}

// Stats returns the counters of the waits. Any goroutine may call it.
func (w *Waiter) Stats() ring.WaiterStats { return w.ring.Stats() }
