package ipctest

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc"
)

// Faults are what goes wrong with one conn. The zero value is nothing.
type Faults struct {
	// DropAfterSent closes the conn instead of sending the message after so many, as if
	// the process had died there. The sender sees net.ErrClosed, the peer ErrPeerGone. 0:
	// never.
	DropAfterSent int

	// DropAfterReceived does so instead of receiving.
	DropAfterReceived int

	// Corrupt may change the body of the n-th received message, counted from 1. nil:
	// never.
	Corrupt func(n int, m ipc.Message)
}

// Faulty is a transport whose conns fail on purpose.
type Faulty struct {
	ipc.Transport

	// Plan says what goes wrong with the n-th conn, counted from 0 over all that are
	// dialed through and accepted from this transport. It may be called by any goroutine.
	Plan func(n int) Faults

	conns atomic.Int64
}

func (f *Faulty) wrap(c ipc.Conn) ipc.Conn {
	return &faultyConn{Conn: c, faults: f.Plan(int(f.conns.Add(1) - 1))}
}

// Dial dials through the transport within.
func (f *Faulty) Dial(ctx context.Context, addr string, o *ipc.Options) (ipc.Conn, error) {
	c, err := f.Transport.Dial(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return f.wrap(c), nil
}

// Listen listens with the transport within.
func (f *Faulty) Listen(addr string, o *ipc.Options) (ipc.Listener, error) {
	l, err := f.Transport.Listen(addr, o)
	if err != nil {
		return nil, err
	}
	return &faultyListener{Listener: l, faulty: f}, nil
}

// ListenAny listens with the transport within.
func (f *Faulty) ListenAny(at ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	l, addrs, err := f.Transport.ListenAny(at, o)
	if err != nil {
		return nil, nil, err
	}
	return &faultyListener{Listener: l, faulty: f}, addrs, nil
}

type faultyListener struct {
	ipc.Listener
	faulty *Faulty
}

func (l *faultyListener) Accept(ctx context.Context) (ipc.Conn, error) {
	c, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return l.faulty.wrap(c), nil
}

func (l *faultyListener) TryAccept() (ipc.Conn, bool) {
	c, ok := l.Listener.TryAccept()
	if !ok {
		return nil, false
	}
	return l.faulty.wrap(c), true
}

// faultyConn counts on either side in the goroutine that sends or receives.
type faultyConn struct {
	ipc.Conn
	faults         Faults
	sent, received int
}

func (c *faultyConn) Commit(files ...*os.File) error {
	if c.faults.DropAfterSent > 0 && c.sent >= c.faults.DropAfterSent {
		_ = c.Conn.Close()
	} else {
		c.sent++
	}
	return c.Conn.Commit(files...)
}

func (c *faultyConn) drop() {
	if c.faults.DropAfterReceived > 0 && c.received >= c.faults.DropAfterReceived {
		_ = c.Conn.Close()
	}
}

func (c *faultyConn) got(m ipc.Message) {
	c.received++
	if c.faults.Corrupt != nil {
		c.faults.Corrupt(c.received, m)
	}
}

func (c *faultyConn) TryRecv() (ipc.Message, bool, error) {
	c.drop()
	m, ok, err := c.Conn.TryRecv()
	if ok {
		c.got(m)
	}
	return m, ok, err
}

func (c *faultyConn) Recv(ctx context.Context) (ipc.Message, error) {
	c.drop()
	m, err := c.Conn.Recv(ctx)
	if err == nil {
		c.got(m)
	}
	return m, err
}
