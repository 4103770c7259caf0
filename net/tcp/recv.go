package tcp

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
)

// smallRead is what netpoll's first buffer has room for.
const smallRead = 8 << 10

// input is how far the reader is.
type input struct {
	header [frameHeader]byte
	have   int // bytes of header
	frame  frame
	// of the message that is arriving, in the queue; nil while there is none
	body     []byte
	filled   int    // bytes of it
	released uint32 // what the peer said last
	large    bool   // netpoll's buffers have grown to what came at once, and do so again
	stream   stream // of the frames
}

// read takes all that netpoll has, in netpoll's goroutine; never two at a time.
func (c *conn) read() {
	within := c.memory.enter()
	if within {
		defer c.memory.leave()
	}
	got, before := false, c.beats.arrived.Load()
	for more := true; more; {
		if !within || c.state.Load()&(ipc.StateClosed|ipc.StateCorrupt) != 0 {
			// it is not wanted any more
			_ = c.netpoll.Reader().Skip(c.netpoll.Reader().Len())
			_ = c.netpoll.Reader().Release()
			break
		}
		complete, err := c.input.step(c)
		switch {
		case err == unix.EAGAIN, err == io.EOF:
			more = false
		case err != nil:
			_ = c.corrupt(err)
		}
		got = got || complete
	}
	c.input.large = c.input.large || c.beats.arrived.Load()-before > smallRead
	if c.input.large && c.netpoll.Reader().Len() == 0 {
		_ = c.netpoll.Reader().Release()
	}
	c.beats.partial.Store(c.input.have > 0 || c.sock.tls != nil && c.sock.tls.at.within())
	if got {
		c.data.Wake()
	}
}

// take reads bytes as they came. unix.EAGAIN says that there are none now.
func (c *conn) take(b []byte) (int, error) {
	if c.netpoll.Reader().Len() == 0 {
		return 0, unix.EAGAIN
	}
	n, err := c.netpoll.Read(b)
	c.beats.arrived.Add(uint64(n))
	return n, err
}

// open reads bytes as the peer wrote them.
func (in *input) open(c *conn, b []byte) (int, error) {
	if c.sock.tls != nil {
		return c.sock.tls.read(b)
	}
	return c.take(b)
}

// step takes a header or a part of a body, and reports whether a message is complete with
// it.
func (in *input) step(c *conn) (complete bool, err error) {
	if in.have < frameHeader {
		n, err := in.open(c, in.header[in.have:])
		in.have += n
		if in.have < frameHeader || err != nil {
			return false, err
		}
		if err := in.begin(c); err != nil || in.frame.kind > ipc.MaxKind {
			in.have = 0
			return false, err
		}
	} else {
		n, err := in.open(c, in.body[in.filled:])
		in.filled += n
		if err != nil {
			return false, err
		}
	}
	if in.filled < len(in.body) {
		return false, nil
	}
	if sum := in.stream.of(in.body); sum != in.frame.sum {
		return false, damaged(fmt.Sprintf("message of %d bytes", len(in.body)), sum, in.frame.sum)
	}
	in.have, in.filled, in.body = 0, 0, nil
	c.arrived.Commit(in.frame.kind)
	return true, nil
}

// begin takes a header: what the peer has released, and a place for the body.
func (in *input) begin(c *conn) (err error) {
	if in.frame, err = parseFrame(&in.header, c.limit, &in.stream); err != nil {
		return err
	}
	n, ok := c.writer.answered(in.frame.released, in.released)
	if !ok {
		return fmt.Errorf("%w: %d messages released that were not sent", ipc.ErrCorrupt, in.frame.released-in.released)
	}
	in.released = in.frame.released
	if n > 0 {
		if err := c.freed(n); err != nil {
			return err
		}
	}
	if in.frame.kind == beat {
		c.beats.promised.Store(in.frame.sum)
	}
	c.writer.serve(c, in.frame.kind == hungry, in.frame.kind <= ipc.MaxKind)
	if in.frame.kind > ipc.MaxKind {
		return nil
	}
	in.body, err = c.arrived.Reserve(int(in.frame.length))
	if err == ring.ErrFull {
		return fmt.Errorf("%w: more in flight than fits into the queue", ipc.ErrCorrupt)
	}
	return err
}

// freed gives the room of the oldest n messages in out to the sender.
func (c *conn) freed(n uint32) error {
	for range n {
		if _, _, err := c.acked.Peek(); err != nil {
			return err
		}
		c.acked.Release()
	}
	c.room.Wake()
	return nil
}

func (c *conn) TryRecv() (ipc.Message, bool, error) {
	if c.held {
		panic("ipc: TryRecv before Release")
	}
	// The state is read before the queue: what arrived before the end is then there for
	// sure.
	state := c.state.Load()
	if state&(ipc.StateClosed|ipc.StateCorrupt) != 0 {
		return ipc.Message{}, false, c.Err()
	}
	if !c.memory.enter() {
		return ipc.Message{}, false, c.Err()
	}
	kind, body, err := c.in.Peek()
	if err != nil {
		c.memory.leave()
		if err != ring.ErrEmpty {
			return ipc.Message{}, false, err
		}
		if state != 0 {
			return ipc.Message{}, false, c.Err()
		}
		return ipc.Message{}, false, nil
	}
	// Release leaves.
	c.held, c.heldCost = true, 8+(len(body)+7)&^7
	c.recv.messages.Add(1)
	c.recv.bytes.Add(uint64(len(body)))
	return ipc.Message{Kind: kind, Body: body}, true, nil
}

func (c *conn) Recv(ctx context.Context) (ipc.Message, error) {
	for {
		m, ok, err := c.TryRecv()
		if ok || err != nil {
			return m, err
		}
		if err := c.data.Wait(ctx, func() bool { return c.state.Load() != 0 || c.ready() }); err != nil {
			return ipc.Message{}, err
		}
	}
}

// ready reports whether there is a message.
func (c *conn) ready() bool {
	if !c.memory.enter() {
		return true
	}
	defer c.memory.leave()
	return c.in.Ready()
}

func (c *conn) Release() {
	if !c.held {
		panic("ipc: Release without a message")
	}
	c.held = false
	c.in.Release()
	c.memory.leave()
	c.writer.release(c, c.heldCost)
}
