package ipctest

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/ringside-go/ringside/ipc"
)

// queue is one direction of a pipe: like a ring, it holds a limited number of bytes, and
// of messages with files.
type queue struct {
	limit int // bytes it holds
	big   int // bytes of the largest body

	mu         sync.Mutex
	messages   []ipc.Message
	used       int
	withFiles  int // messages with files that are not released
	wantsRoom  bool
	data, room ipc.Waiter // of the receiver and of the sender
	stats      ipc.Stats  // of both ends of this direction: Sent*, Recv*, Full
}

func newQueue(ringBytes int) *queue {
	return &queue{limit: ringBytes, big: ipc.MessageLimit(ringBytes)}
}

// cost is what a message takes in a queue.
func cost(n int) int { return 8 + (n+7)&^7 }

// pipeConn is one end of a pipe.
type pipeConn struct {
	state      ipc.State
	other      *pipeConn
	out, in    *queue
	data, room ipc.Waiter

	reserved *ipc.Message
	held     int  // cost of the message that is with the caller; 0: none
	files    bool // it came with some
}

// newPipe makes the two ends of a pipe; peers are those that they see.
func newPipe(ringBytes int, peers [2]ipc.Peer, waiters [2]ipc.Waiter) (ends [2]*pipeConn) {
	a, b := newQueue(ringBytes), newQueue(ringBytes)
	for i, w := range waiters {
		c := &pipeConn{state: ipc.State{Peer: peers[i]}, out: a, in: b, data: w, room: w}
		if w == nil {
			// Two, for the goroutine that receives and the one that sends.
			c.data, c.room = ipc.NewWaiter(), ipc.NewWaiter()
		}
		a.room, b.data = c.room, c.data
		ends[i], a, b = c, b, a
	}
	ends[0].other, ends[1].other = ends[1], ends[0]
	return ends
}

func (c *pipeConn) Peer() ipc.Peer { return c.state.Peer }

func (c *pipeConn) Features() ipc.Features { return ipc.Features{Files: true} }

func (c *pipeConn) Err() error { return c.state.Err() }

func (c *pipeConn) TryReserve(kind uint32, n int) ([]byte, error) {
	if c.reserved != nil {
		panic("ipc: Reserve with a reservation open")
	}
	if c.state.Load() != 0 {
		return nil, c.Err()
	}
	q := c.out
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := ipc.CheckMessage(kind, n, q.big); err != nil {
		return nil, err
	}
	if q.used+cost(n) > q.limit || q.withFiles >= ipc.MaxFilesAhead {
		q.wantsRoom = true
		q.stats.Full++
		return nil, ipc.ErrFull
	}
	c.reserved = &ipc.Message{Kind: kind, Body: make([]byte, n)}
	for i := range c.reserved.Body {
		c.reserved.Body[i] = 0xCC // a caller that does not fill in everything is seen
	}
	return c.reserved.Body, nil
}

func (c *pipeConn) Reserve(ctx context.Context, kind uint32, n int) (buf []byte, err error) {
	if errWait := c.room.Wait(ctx, func() bool {
		buf, err = c.TryReserve(kind, n)
		return err != ipc.ErrFull
	}); errWait != nil {
		return nil, errWait
	}
	return buf, err
}

func (c *pipeConn) Commit(files ...*os.File) error {
	m := c.reserved
	if m == nil {
		panic("ipc: Commit without a reservation")
	}
	c.reserved = nil
	if len(files) > ipc.MaxFiles {
		return fmt.Errorf("%w: %d, at most %d", ipc.ErrTooManyFiles, len(files), ipc.MaxFiles)
	}
	for _, f := range files {
		fd, err := ipc.Duplicate(f)
		if err != nil {
			ipc.CloseFiles(m.Files)
			return err
		}
		m.Files = append(m.Files, os.NewFile(uintptr(fd), f.Name()))
	}
	q := c.out
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.state.Load() != 0 {
		ipc.CloseFiles(m.Files)
		return c.Err()
	}
	q.messages = append(q.messages, *m)
	if len(files) > 0 {
		q.withFiles++
	}
	q.used += cost(len(m.Body))
	q.stats.SentMessages++
	q.stats.SentBytes += uint64(len(m.Body))
	q.stats.SentFiles += uint64(len(files))
	q.data.Wake()
	return nil
}

func (c *pipeConn) Abort() {
	if c.reserved == nil {
		panic("ipc: Abort without a reservation")
	}
	c.reserved = nil
}

func (c *pipeConn) TryRecv() (ipc.Message, bool, error) {
	if c.held != 0 {
		panic("ipc: TryRecv before Release")
	}
	// The state is read before the queue, so what was committed before the end is found.
	state := c.state.Load()
	if state&ipc.StateClosed != 0 {
		return ipc.Message{}, false, c.Err()
	}
	q := c.in
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		if state != 0 {
			return ipc.Message{}, false, c.Err()
		}
		return ipc.Message{}, false, nil
	}
	m := q.messages[0]
	q.messages[0] = ipc.Message{}
	q.messages = q.messages[1:]
	c.held, c.files = cost(len(m.Body)), len(m.Files) > 0
	q.stats.RecvMessages++
	q.stats.RecvBytes += uint64(len(m.Body))
	q.stats.RecvFiles += uint64(len(m.Files))
	return m, true, nil
}

func (c *pipeConn) Recv(ctx context.Context) (m ipc.Message, err error) {
	if errWait := c.data.Wait(ctx, func() bool {
		var ok bool
		m, ok, err = c.TryRecv()
		return ok || err != nil
	}); errWait != nil {
		return ipc.Message{}, errWait
	}
	return m, err
}

func (c *pipeConn) Release() {
	if c.held == 0 {
		panic("ipc: Release without a message")
	}
	q := c.in
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= c.held
	c.held = 0
	if c.files {
		q.withFiles--
	}
	if q.wantsRoom {
		q.wantsRoom = false
		q.room.Wake()
	}
}

// set adds a bit to the state and wakes every wait on this end.
func (c *pipeConn) set(bit uint32) (before uint32) {
	defer c.room.Wake()
	defer c.data.Wake()
	return c.state.Or(bit)
}

func (c *pipeConn) Close() error {
	c.in.mu.Lock() // the peer commits nothing meanwhile
	defer c.in.mu.Unlock()
	if c.set(ipc.StateClosed)&ipc.StateClosed != 0 {
		return nil
	}
	c.other.set(ipc.StateGone)
	for _, m := range c.in.messages {
		ipc.CloseFiles(m.Files)
	}
	c.in.messages = nil
	return nil
}

func (c *pipeConn) Stats() ipc.Stats {
	c.out.mu.Lock()
	s := c.out.stats
	c.out.mu.Unlock()
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	s.RecvMessages, s.RecvBytes, s.RecvFiles = c.in.stats.RecvMessages, c.in.stats.RecvBytes, c.in.stats.RecvFiles
	return s
}
