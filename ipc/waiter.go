package ipc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// chanWaiter is a Waiter within one process. It never spins.
type chanWaiter struct {
	bell chan struct{} // one slot: it keeps a Wake that comes while no Wait is under way
	arms Arms
}

// NewWaiter returns a Waiter that only this process can wake, for transports whose
// messages arrive in a goroutine (TCP, the in-memory pipe). The local transport needs its
// own waiter, which serves every other transport as well.
func NewWaiter() Waiter { return &chanWaiter{bell: make(chan struct{}, 1)} }

func (w *chanWaiter) Wait(ctx context.Context, ready func() bool) error {
	for {
		// A Wake between the call of ready and the receive is in the slot.
		if ready() || w.arms.Call() && ready() {
			return nil
		}
		select {
		case <-w.bell:
		case <-ctx.Done():
			return ContextError(ctx)
		}
	}
}

func (w *chanWaiter) Wake() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

func (w *chanWaiter) OnPark(arm func()) (forget func()) { return w.arms.Add(arm) }

// Arms are the functions that a Waiter calls before it sleeps, as OnPark gives them. The
// zero value has none. Any goroutine may call Add.
type Arms struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*func()] // replaced as a whole
}

// Add adds a function until forget is called.
func (a *Arms) Add(arm func()) (forget func()) {
	a.change(func(list []*func()) []*func() { return append(list, &arm) })
	return func() {
		a.change(func(list []*func()) []*func() {
			return slices.DeleteFunc(list, func(f *func()) bool { return f == &arm })
		})
	}
}

func (a *Arms) change(change func([]*func()) []*func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*func()
	if now := a.list.Load(); now != nil {
		list = slices.Clone(*now)
	}
	list = change(list)
	a.list.Store(&list)
}

// Call calls every function and reports whether there was any.
func (a *Arms) Call() bool {
	list := a.list.Load()
	if list == nil {
		return false
	}
	for _, arm := range *list {
		(*arm)()
	}
	return len(*list) > 0
}
