package ipc

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// busyEvery is the time between two answers to a peer that waits in line. It is much less
// than DefaultHandshakeTimeout, in which the peer expects one.
const busyEvery = time.Second

// Arrivals is the queue of a listener's conns that have not been accepted, oldest first,
// and the line of the peers for which there is no room in it. The listeners of all
// transports have one. Any goroutine may call any method.
//
// A conn is made in three steps:
//
//  1. Enter, once the peer has said what it wants. It returns when it is the peer's turn,
//     in the order of the calls.
//  2. The listener makes the conn.
//  3. Add; or Leave, if there is no conn after all.
type Arrivals[C Conn] struct {
	news         Waiter
	most, atOnce int

	mu     sync.Mutex
	ready  []C
	making int             // peers that had their turn, until Add or Leave
	line   []chan struct{} // of those that wait, oldest first; closed for the peer's turn
	closed chan struct{}
}

// NewArrivals returns an empty queue. It wakes news when a conn comes, and when it is
// closed. At most most conns are being made or wait to be accepted, and at most atOnce
// are being made.
func NewArrivals[C Conn](news Waiter, most, atOnce int) *Arrivals[C] {
	return &Arrivals[C]{news: news, most: most, atOnce: atOnce, closed: make(chan struct{})}
}

// Enter waits for the peer's turn. While it has to wait it calls busy with the number of
// peers before this one, at once and every second. It returns an error of busy, of ctx,
// or net.ErrClosed; otherwise the caller must call Add or Leave.
func (a *Arrivals[C]) Enter(ctx context.Context, busy func(before int) error) error {
	turn := make(chan struct{})
	a.mu.Lock()
	a.line = append(a.line, turn)
	a.move()
	a.mu.Unlock()
	tick := time.NewTicker(busyEvery)
	defer tick.Stop()
	for {
		before, waits := a.before(turn)
		if !waits {
			return nil
		}
		err := busy(before)
		if err == nil {
			select {
			case <-turn:
			case <-tick.C:
			case <-ctx.Done():
				err = ContextError(ctx)
			case <-a.closed:
				err = net.ErrClosed
			}
		}
		if err != nil {
			a.quit(turn)
			return err
		}
	}
}

// before returns how many peers are before one in the line; false if it has its turn.
func (a *Arrivals[C]) before(turn chan struct{}) (n int, waits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.line, turn)
	return i + len(a.ready) + a.making, i >= 0
}

// quit takes a peer out of the line.
func (a *Arrivals[C]) quit(turn chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.line, turn); i >= 0 {
		a.line = slices.Delete(a.line, i, i+1)
	} else { // its turn has just come
		a.making--
		a.move()
	}
}

// move gives turns while there is room. It is called with mu.
func (a *Arrivals[C]) move() {
	for len(a.line) > 0 && a.making < a.atOnce && a.making+len(a.ready) < a.most {
		close(a.line[0])
		a.line = slices.Delete(a.line, 0, 1)
		a.making++
	}
}

// Add queues a conn, which the caller gives away. It returns false, and takes nothing,
// once the queue is closed.
func (a *Arrivals[C]) Add(c C) bool {
	a.mu.Lock()
	closed := a.isClosed()
	if !closed {
		a.ready = append(a.ready, c)
	}
	a.making--
	a.move()
	a.mu.Unlock()
	if !closed {
		a.news.Wake()
	}
	return !closed
}

// Leave is for a peer that had its turn and gets no conn.
func (a *Arrivals[C]) Leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.making--
	a.move()
}

func (a *Arrivals[C]) isClosed() bool {
	select {
	case <-a.closed:
		return true
	default:
		return false
	}
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
		return nil, a.isClosed()
	}
	var none C
	c, a.ready[0] = a.ready[0], none
	a.ready = a.ready[1:]
	a.move()
	return c, false
}

// Close closes the conns that wait, and makes Enter and Accept return net.ErrClosed.
// Further calls do nothing.
func (a *Arrivals[C]) Close() {
	a.mu.Lock()
	left := a.ready
	a.ready = nil
	if !a.isClosed() {
		close(a.closed)
	}
	a.mu.Unlock()
	for _, c := range left {
		c.Close()
	}
	a.news.Wake()
}
