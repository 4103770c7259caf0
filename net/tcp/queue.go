package tcp

import (
	"net"
	"sync"
)

// queue has connections that wait, oldest first. One goroutine puts and ends, another
// takes. It has memory while it has connections.
type queue struct {
	most int
	news chan struct{} // has an entry after each put until take has found nothing

	mu    sync.Mutex
	conns []*net.TCPConn
}

func newQueue(most int) *queue { return &queue{most: most, news: make(chan struct{}, 1)} }

// put adds a connection. It returns false if there are as many as may be.
func (q *queue) put(c *net.TCPConn) bool {
	q.mu.Lock()
	full := len(q.conns) >= q.most
	if !full {
		q.conns = append(q.conns, c)
	}
	q.mu.Unlock()
	if full {
		return false
	}
	select {
	case q.news <- struct{}{}:
	default:
	}
	return true
}

// end says that no more come.
func (q *queue) end() { close(q.news) }

// take waits for the oldest connection. It returns nil once the queue is empty and has
// ended.
func (q *queue) take() *net.TCPConn {
	for {
		if c := q.oldest(); c != nil {
			return c
		}
		if _, more := <-q.news; !more {
			return q.oldest()
		}
	}
}

// oldest takes the oldest connection; nil if there is none now.
func (q *queue) oldest() (c *net.TCPConn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.conns) == 0 {
		return nil
	}
	c, q.conns[0] = q.conns[0], nil
	if q.conns = q.conns[1:]; len(q.conns) == 0 {
		q.conns = nil
	}
	return c
}
