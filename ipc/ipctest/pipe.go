package ipctest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// queue is one direction of a pipe: like a ring, it holds a limited number of bytes, and
// of messages with files.
type queue struct {
	limit int // bytes it holds
	big   int // bytes of the largest body

	mu           sync.Mutex
	messages     []ipc.Message
	used         int
	withFiles    int // messages with files that are not released
	senderGone   bool
	receiverGone bool
	wantsRoom    bool
	data, room   ipc.Waiter // of the receiver and of the sender
	stats        ipc.Stats  // of both ends of this direction: Sent*, Recv*, Full
}

func newQueue(ringBytes int) *queue {
	return &queue{limit: ringBytes, big: ipc.MessageLimit(ringBytes)}
}

// cost is what a message takes in a queue.
func cost(n int) int { return 8 + (n+7)&^7 }

// pipeConn is one end of a pipe.
type pipeConn struct {
	peer       ipc.Peer
	out, in    *queue
	data, room ipc.Waiter

	reserved *ipc.Message
	held     int  // cost of the message that is with the caller; 0: none
	files    bool // it came with some

	mu     sync.Mutex
	closed bool
}

func newPipeConn(peer ipc.Peer, out, in *queue, w ipc.Waiter) *pipeConn {
	c := &pipeConn{peer: peer, out: out, in: in, data: w, room: w}
	if w == nil {
		// Two, for the goroutine that receives and the one that sends.
		c.data, c.room = ipc.NewWaiter(), ipc.NewWaiter()
	}
	out.room, in.data = c.room, c.data
	return c
}

func (c *pipeConn) Peer() ipc.Peer { return c.peer }

func (c *pipeConn) Features() ipc.Features { return ipc.Features{Files: true} }

func (c *pipeConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *pipeConn) gone() error { return &ipc.PeerError{Peer: c.peer, Err: ipc.ErrPeerGone} }

func (c *pipeConn) Err() error {
	if c.isClosed() {
		return net.ErrClosed
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.in.senderGone {
		return c.gone()
	}
	return nil
}

func (c *pipeConn) TryReserve(kind uint32, n int) ([]byte, error) {
	if c.reserved != nil {
		panic("ipc: Reserve with a reservation open")
	}
	if c.isClosed() {
		return nil, net.ErrClosed
	}
	q := c.out
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.receiverGone:
		return nil, c.gone()
	case n < 0 || n > q.big:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ipc.ErrMessageTooLarge, n, q.big)
	case kind > ipc.MaxKind:
		return nil, fmt.Errorf("%w: kind %#x, at most %#x", ipc.ErrBadKind, kind, ipc.MaxKind)
	case q.used+cost(n) > q.limit || q.withFiles >= ipc.MaxFilesAhead:
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
	if c.isClosed() {
		return net.ErrClosed
	}
	for _, f := range files {
		d, err := dup(f)
		if err != nil {
			ipc.CloseFiles(m.Files)
			return err
		}
		m.Files = append(m.Files, d)
	}
	q := c.out
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.receiverGone {
		ipc.CloseFiles(m.Files)
		return c.gone()
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

// dup makes another descriptor of the same open file.
func dup(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var errDup error
	if err := raw.Control(func(old uintptr) {
		fd, errDup = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return nil, err
	}
	if errDup != nil {
		return nil, os.NewSyscallError("fcntl", errDup)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
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
	if c.isClosed() {
		return ipc.Message{}, false, net.ErrClosed
	}
	q := c.in
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		if q.senderGone {
			return ipc.Message{}, false, c.gone()
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

func (c *pipeConn) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	c.out.mu.Lock()
	c.out.senderGone = true
	c.out.data.Wake()
	c.out.room.Wake()
	c.out.mu.Unlock()

	c.in.mu.Lock()
	c.in.receiverGone = true
	for _, m := range c.in.messages {
		ipc.CloseFiles(m.Files)
	}
	c.in.messages = nil
	c.in.data.Wake()
	c.in.room.Wake()
	c.in.mu.Unlock()
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
