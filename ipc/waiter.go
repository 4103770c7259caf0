package ipc

import "context"

// Parker is a Waiter that is awake for a while before it sleeps, and says when it is about to. What a caller polls in
// ready, such as a socket, need not wake it until then; local.NewWaiter's is one.
type Parker interface {
	Waiter

	// OnPark has arm called, in the goroutine that is in Wait, each time before it sleeps and before ready
	// is called for the last time. After forget it is called no more, but for a call under way. Any goroutine
	// may call either.
	OnPark(arm func()) (forget func())
}

// chanWaiter is a Waiter within one process. It never spins.
type chanWaiter struct {
	bell chan struct{} // one slot: a Wake that nobody waits for yet is kept
}

// NewWaiter returns a Waiter that only this process can wake, for transports whose news
// arrive in a goroutine anyway (TCP, the in-memory pipe). The local transport needs its
// own, which serves the others too.
func NewWaiter() Waiter { return &chanWaiter{bell: make(chan struct{}, 1)} }

func (w *chanWaiter) Wait(ctx context.Context, ready func() bool) error {
	for {
		// ready is asked after every slot taken from bell, so a Wake that came
		// between asking and sleeping is found in the slot.
		if ready() {
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
