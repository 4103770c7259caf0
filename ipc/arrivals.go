package ipc

import (
	"context"
	"net"
	"sync"
)

// Arrivals is the queue of a listener's conns that have not been accepted, oldest first.
// The listeners of all transports have one. Any goroutine may call any method.
type Arrivals[C Conn] struct {
	news Waiter

	mu     sync.Mutex
	ready  []C
	closed bool
}

// NewArrivals returns an empty queue. It wakes news when a conn comes, and when it is
// closed.
func NewArrivals[C Conn](news Waiter) *Arrivals[C] { return &Arrivals[C]{news: news} }

// Add queues a conn, which the caller gives away. It returns false, and takes nothing,
// once the queue is closed.
func (a *Arrivals[C]) Add(c C) bool {
	a.mu.Lock()
	closed := a.closed
	if !closed {
		a.ready = append(a.ready, c)
	}
	a.mu.Unlock()
	if !closed {
		a.news.Wake()
	}
	return !closed
}

// Len returns the number of queued conns.
func (a *Arrivals[C]) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ready)
}

// TryAccept implements Listener.
func (a *Arrivals[C]) TryAccept() (Conn, bool) {
	c, _ := a.take()
	return c, c != nil
}

// Accept implements Listener.
func (a *Arrivals[C]) Accept(ctx context.Context) (Conn, error) {
	var c Conn
	var closed bool
	if err := a.news.Wait(ctx, func() bool {
		c, closed = a.take()
		return c != nil || closed
	}); err != nil {
		return nil, err
	}
	if closed {
		return nil, net.ErrClosed
	}
	return c, nil
}

// take returns the oldest conn, nil if there is none.
func (a *Arrivals[C]) take() (c Conn, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ready) == 0 {
		return nil, a.closed
	}
	var none C
	c, a.ready[0] = a.ready[0], none
	a.ready = a.ready[1:]
	return c, false
}

// Close closes the conns that wait, and makes Accept return net.ErrClosed. Further calls
// do nothing.
func (a *Arrivals[C]) Close() {
	a.mu.Lock()
	left := a.ready
	a.ready, a.closed = nil, true
	a.mu.Unlock()
	for _, c := range left {
		c.Close()
	}
	a.news.Wake()
}
