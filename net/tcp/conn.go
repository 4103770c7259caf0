package tcp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// lingerTimeout is how long a closed conn goes on sending what was committed and waiting
// for the other end to close as well, and how long the bulk socket of a peer that is gone
// is read to its end.
const lingerTimeout = time.Second

// conn is one end. One goroutine sends (out, reserved, body), one receives (in, held),
// netpoll's reads the socket (input, arrived, acked), the transport's poller continues
// writes, and any may close it.
type conn struct {
	state    ipc.State
	warnings *ipc.Warnings
	limit    int // largest body

	data, room ipc.Waiter // that we sleep on: for messages, for room in the queue

	ended  sync.Once                  // finish
	linger atomic.Pointer[time.Timer] // of Close

	transport *Transport
	poller    *poller
	netpoll   netpoll.Connection // reads sock by a descriptor of its own
	sock      socket             // messages are written to
	sockID    uint32             // at the poller

	memory memory // of out and in

	// out holds what was committed until the peer has released it. The body of a message
	// that is not yet sent lies there too, and unsent points to it.
	out      *ring.Producer
	acked    *ring.Consumer // of the same ring: behind what the peer has released
	reserved int            // length of the open reservation's body, -1 when none
	body     []byte         // of the open reservation
	kind     uint32
	sent     counters

	writer writer

	// in holds what has arrived and is not yet released.
	arrived  *ring.Producer
	input    input
	in       *ring.Consumer
	held     bool // a message is with the caller
	heldCost int  // of it, in the peer's queue
	recv     counters

	bulk  bulk
	beats beats
}

// counters are those of one direction, written by the goroutine that works there.
type counters struct{ messages, bytes, full ring.Counter }

// newConn makes an end of a conn from its two connections, which it owns.
func (t *Transport) newConn(messages, bulk greeted, s streams, peer ipc.Peer, ringBytes int, o *ipc.Options, warnings *ipc.Warnings) (*conn, error) {
	peer.Addr = messages.RemoteAddr().String()
	first, err := detach(messages.TCPConn, 2)
	if err != nil {
		bulk.Close()
		return nil, err
	}
	second, err := detach(bulk.TCPConn, 1)
	if err != nil {
		_ = unix.Close(first[0])
		_ = unix.Close(first[1])
		return nil, err
	}
	return t.newConnOn([3]int{first[0], first[1], second[0]}, [2]*sealed{messages.tls, bulk.tls}, s, peer, ringBytes, o, warnings)
}

// newConnOn makes an end of a conn from descriptors, which it owns: two of the socket of
// messages, one of that of bulk transfers. tls is that of either socket, nil for none.
func (t *Transport) newConnOn(fds [3]int, tls [2]*sealed, s streams, peer ipc.Peer, ringBytes int, o *ipc.Options, warnings *ipc.Warnings) (*conn, error) {
	c := &conn{
		state: ipc.State{Peer: peer}, warnings: warnings, limit: ipc.MessageLimit(ringBytes),
		data: o.Waiter, room: o.Waiter, transport: t, reserved: -1,
	}
	c.sock.open(fds[1], tls[0])
	c.bulk.sock.open(fds[2], tls[1])
	if tls[0] != nil {
		tls[0].start(&t.buffers, c.take)
		tls[1].start(&t.buffers, fromSocket(&c.bulk.sock, &t.buffers))
	}
	c.writer.stream, c.input.stream = s.messages.out, s.messages.in
	c.bulk.send.stream, c.bulk.recv.stream = s.bulk.out, s.bulk.in
	if c.data == nil {
		// Two, for the goroutine that receives and the one that sends.
		c.data, c.room = ipc.NewWaiter(), ipc.NewWaiter()
	}
	if err := c.open(fds[0], ringBytes); err != nil {
		c.sock.close()
		c.bulk.sock.close()
		return nil, err
	}
	return c, nil
}

// open makes the queues and begins to read. It owns fd; the sockets stay the caller's on
// error.
func (c *conn) open(fd, ringBytes int) (err error) {
	fail := func(err error) error {
		_ = unix.Close(fd)
		return fmt.Errorf("tcp: %w", err)
	}
	out, in, err := c.memory.open(ringBytes)
	if err != nil {
		return fail(err)
	}
	runtime.AddCleanup(c, func(s *shm.Segment) { _ = s.Close() }, c.memory.seg)
	defer func() {
		if err != nil {
			c.memory.close()
		}
	}()
	if err := c.queues(out, in); err != nil {
		return fail(err)
	}
	c.writer.lazy = ringBytes / 4
	if c.poller, err = c.transport.acquire(); err != nil {
		return fail(err)
	}
	if c.sockID, err = c.poller.add(&c.sock, target{c.writable, c.beat}); err != nil {
		c.transport.release()
		return fail(err)
	}
	if err = c.bulk.open(c); err != nil {
		c.poller.remove(c.sockID)
		c.transport.release()
		return fail(err)
	}
	if c.netpoll, err = netpoll.NewFDConnection(fd); err != nil {
		c.bulk.forget()
		c.poller.remove(c.sockID)
		c.transport.release()
		return fail(err)
	}
	// The order matters: an end that comes after the second finds both, one that came
	// before is found by the question.
	_ = c.netpoll.AddCloseCallback(func(netpoll.Connection) error { c.gone(); return nil })
	_ = c.netpoll.SetOnRequest(func(context.Context, netpoll.Connection) error { c.read(); return nil })
	if !c.netpoll.IsActive() {
		_ = c.netpoll.Close()
	}
	return nil
}

// queues makes the queues in their memory.
func (c *conn) queues(out, in []byte) (err error) {
	if err := errors.Join(ring.Init(out), ring.Init(in)); err != nil {
		return err
	}
	if c.out, err = ring.NewProducer(out); err != nil {
		return err
	}
	if c.acked, err = ring.NewConsumer(out, &ring.ConsumerOptions{Eager: true}); err != nil {
		return err
	}
	if c.arrived, err = ring.NewProducer(in); err != nil {
		return err
	}
	c.in, err = ring.NewConsumer(in, nil)
	return err
}

func (c *conn) Peer() ipc.Peer { return c.state.Peer }

func (c *conn) Features() ipc.Features { return ipc.Features{Bulk: c} }

func (c *conn) Stats() ipc.Stats {
	return ipc.Stats{
		SentMessages: c.sent.messages.Load(), SentBytes: c.sent.bytes.Load(),
		RecvMessages: c.recv.messages.Load(), RecvBytes: c.recv.bytes.Load(),
		Full: c.sent.full.Load(),
	}
}

func (c *conn) Err() error { return c.state.Err() }

// set adds a bit to the state and wakes every wait on this conn. It returns the state
// before.
func (c *conn) set(bit uint32) uint32 {
	before := c.state.Or(bit)
	c.data.Wake()
	c.room.Wake()
	return before
}

// corrupt ends the conn because of what the peer did.
func (c *conn) corrupt(err error) error {
	err = c.state.Corrupt(err, c.warnings)
	c.set(ipc.StateCorrupt)
	c.finish()
	return err
}

// gone is called when the message socket has been read to its end, and everything before
// it is in the queue; or after our own finish.
func (c *conn) gone() {
	if c.set(ipc.StateGone)&ipc.StateClosed != 0 {
		c.finish()
		return
	}
	c.sock.close()
	// The bulk socket has an end of its own, behind what was sent. It should be there at
	// the same time.
	time.AfterFunc(lingerTimeout, func() { c.bulk.sock.shutdown(unix.SHUT_RDWR) })
}

// Close goes on behind the caller's back for at most lingerTimeout: what was committed is
// sent, then the end; and the peer's end is waited for, since closing with something
// unread would discard what is still on its way.
func (c *conn) Close() error {
	before := c.set(ipc.StateClosed)
	if before&ipc.StateClosed != 0 {
		return nil
	}
	c.bulk.close()
	if before&(ipc.StateGone|ipc.StateCorrupt) != 0 {
		c.finish()
		return nil
	}
	c.linger.Store(time.AfterFunc(lingerTimeout, c.finish))
	c.writer.end(c)
	return nil
}

// finish gives everything back.
func (c *conn) finish() {
	c.ended.Do(func() {
		if t := c.linger.Load(); t != nil {
			t.Stop()
		}
		c.bulk.forget()
		c.bulk.sock.close()
		c.poller.remove(c.sockID)
		c.sock.close()
		c.memory.close()
		c.transport.release()
		// Not from within netpoll's own callback, which this may be called from.
		go c.netpoll.Close()
	})
}
