package tcp

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
)

func (c *conn) TryReserve(kind uint32, n int) ([]byte, error) {
	if c.reserved >= 0 {
		panic("ipc: Reserve with a reservation open")
	}
	if c.state.Load() != 0 {
		return nil, c.Err()
	}
	if n < 0 || n > c.limit || kind > ipc.MaxKind {
		return nil, ipc.CheckMessage(kind, n, c.limit)
	}
	if !c.memory.enter() {
		return nil, c.Err()
	}
	buf, err := c.out.Reserve(n)
	if err == nil {
		c.kind, c.reserved, c.body = kind, n, buf
		return buf, nil // Commit or Abort leaves
	}
	c.memory.leave()
	if err == ring.ErrFull {
		c.sent.full.Add(1)
		c.writer.ask(c)
		// An answer that came since Reserve looked is not lost: it has woken the waiter.
		return nil, ipc.ErrFull
	}
	return nil, err
}

func (c *conn) Reserve(ctx context.Context, kind uint32, n int) ([]byte, error) {
	for {
		buf, err := c.TryReserve(kind, n)
		if err != ipc.ErrFull {
			return buf, err
		}
		if err := c.room.Wait(ctx, func() bool { return c.state.Load() != 0 || c.canReserve(n) }); err != nil {
			return nil, err
		}
	}
}

// canReserve reports whether TryReserve would return something other than ipc.ErrFull.
func (c *conn) canReserve(n int) bool {
	if !c.memory.enter() {
		return true
	}
	defer c.memory.leave()
	return c.out.CanReserve(n)
}

func (c *conn) Commit(files ...*os.File) error {
	if c.reserved < 0 {
		panic("ipc: Commit without a reservation")
	}
	if len(files) > 0 {
		c.Abort()
		return ipc.ErrFilesUnsupported
	}
	if c.state.Load() != 0 {
		c.Abort()
		return c.Err()
	}
	c.out.Commit(0)
	c.sent.messages.Add(1)
	c.sent.bytes.Add(uint64(c.reserved))
	body := c.body
	c.reserved, c.body = -1, nil
	c.writer.send(c, c.kind, body)
	c.memory.leave()
	return nil
}

func (c *conn) Abort() {
	if c.reserved < 0 {
		panic("ipc: Abort without a reservation")
	}
	c.reserved, c.body = -1, nil
	c.out.Abort()
	c.memory.leave()
}

// outgoing is a frame that is not yet sent, or not all of it.
type outgoing struct {
	header [frameHeader]byte
	body   []byte
}

// writer sends frames in order. The goroutine that adds one writes it as far as the
// kernel takes it, and the poller the rest. It never blocks.
type writer struct {
	lazy int // bytes released that the peer is told of at once

	mu       sync.Mutex
	frames   []outgoing   // unsent, oldest first
	first    int          // of frames that is not yet sent
	offset   int          // bytes of that one which are
	iov      []unix.Iovec // kept for its memory
	waiting  bool         // for the poller to say that the kernel takes more
	ending   bool         // the end follows the last frame
	inFlight uint32       // messages given to send and not known to be released
	released uint32       // messages that we have released
	unsaid   int          // bytes of those that the peer has not been told of
	asked    bool         // the peer knows that we wait for room
	starving bool         // the peer waits for room
	pushed   uint64       // frames but for beats
	stream   stream       // of the frames
}

// send sends one message.
func (w *writer) send(c *conn, kind uint32, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = false
	w.push(frame{length: uint32(len(body)), kind: kind}, body)
	w.flush(c)
}

// release counts a message of that cost, and tells the peer if it waits for that or if
// enough have gathered: a quarter of its queue.
func (w *writer) release(c *conn, cost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released++
	w.unsaid += cost
	w.say(c)
}

// say tells the peer what was released when it should know. The lock is held.
func (w *writer) say(c *conn) {
	if !w.waiting && (w.unsaid >= w.lazy || w.starving && w.unsaid > 0) {
		w.push(frame{kind: bare}, nil)
		w.flush(c)
	}
}

// serve takes from a frame that the peer is hungry, or that it was not when it sent a
// message.
func (w *writer) serve(c *conn, hungry, message bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case hungry:
		w.starving = true
		w.say(c)
	case message:
		w.starving = false
	}
}

// ask says to the peer that we are hungry, once until the next message.
func (w *writer) ask(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked {
		w.asked = true
		w.push(frame{kind: hungry}, nil)
		w.flush(c)
	}
}

// answered takes what the peer has released, and returns how many messages are new in
// that. ok is false for a count that cannot be.
func (w *writer) answered(released, before uint32) (n uint32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = released - before
	if n > w.inFlight {
		return 0, false
	}
	w.inFlight -= n
	return n, true
}

// push queues a frame. The lock is held. A message counts as in flight from here on: over
// TLS the peer may have it before the writer knows that the kernel took it.
func (w *writer) push(f frame, body []byte) {
	if w.first == len(w.frames) {
		w.frames, w.first = w.frames[:0], 0
	}
	if f.kind != beat {
		f.sum = w.stream.of(body)
		w.pushed++
	}
	f.released = w.released
	w.unsaid = 0
	if f.kind <= ipc.MaxKind {
		w.inFlight++
	}
	w.frames = append(w.frames, outgoing{body: body})
	f.put(&w.frames[len(w.frames)-1].header, &w.stream)
}

// end sends the end of the stream behind what is queued.
func (w *writer) end(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	w.flush(c)
}

// writable goes on with what the kernel did not take.
func (c *conn) writable() {
	w := &c.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = false
	w.flush(c)
	w.say(c)
}

// flush writes as much as the kernel takes. The lock is held. Frames that cannot be
// written any more are forgotten: the reader finds that the peer is gone.
func (w *writer) flush(c *conn) {
	if !c.memory.enter() {
		w.frames, w.first, w.offset = nil, 0, 0
		return
	}
	defer c.memory.leave()
	for !w.waiting && w.first < len(w.frames) {
		iov, total := w.gather()
		n, err := c.sock.send(iov, total)
		clear(iov)
		switch {
		case err == nil:
			w.took(n)
		case errors.Is(err, unix.EAGAIN):
			w.waiting = true
			if c.poller.arm(&c.sock, c.sockID, unix.EPOLLOUT) != nil {
				c.sock.shutdown(unix.SHUT_RDWR) // the reader finds it
			}
		default:
			w.frames, w.first, w.offset = nil, 0, 0
		}
	}
	if w.ending && !w.waiting {
		w.ending = false
		c.sock.shutdown(unix.SHUT_WR)
	}
}

// gather describes the oldest frames to the kernel.
func (w *writer) gather() (iov []unix.Iovec, total int) {
	iov = w.iov[:0]
	skip := w.offset
	for i := w.first; i < len(w.frames) && len(iov)+2 <= maxIovecs && total < maxTransfer; i++ {
		f := &w.frames[i]
		for _, b := range [2][]byte{f.header[:], f.body} {
			if skip >= len(b) {
				skip -= len(b)
				continue
			}
			iov = append(iov, iovec(b[skip:]))
			total += len(b) - skip
			skip = 0
		}
	}
	w.iov = iov
	return iov, total
}

// took moves on by what was written.
func (w *writer) took(n int) {
	w.offset += n
	for w.first < len(w.frames) {
		size := frameHeader + len(w.frames[w.first].body)
		if w.offset < size {
			return
		}
		w.offset -= size
		w.frames[w.first].body = nil
		w.first++
	}
}
