package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/limits"
)

// Offer makes a conn with the process that is given the descriptor theirs. The caller
// sends theirs with a message to a process that both ends can talk to, and then closes
// it. That process hands it on to the other end, which calls Take. The conn has no
// address that others could find or guess: only the descriptor leads to it.
//
// There is no offer when this process has few descriptors left.
//
// met is called once, in a goroutine of its own: with the conn when the other end has
// taken it; or with an error after Options.HandshakeTimeout at the latest, when the other
// end closed the descriptor, or after cancel. The peer's PID is its own claim, and its
// users are -1: of a pair of sockets the kernel knows only the process that made it.
func (t Transport) Offer(options *ipc.Options, met func(ipc.Conn, error)) (theirs *os.File, cancel func(), err error) {
	o, err := options.WithDefaults()
	if err != nil {
		return nil, nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("local: offer: %w", os.NewSyscallError("socketpair", err))
	}
	theirs = os.NewFile(uintptr(fds[1]), "offer")
	if l := limits.OpenFiles(); l.Low(max(fds[0], fds[1])) {
		theirs.Close()
		unix.Close(fds[0])
		return nil, nil, fmt.Errorf("local: offer: too many connections: %v", l)
	}
	sock, err := socketOf(os.NewFile(uintptr(fds[0]), "offer"))
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("local: offer: %w", err)
	}
	_ = sock.SetDeadline(time.Now().Add(o.HandshakeTimeout))
	g := &greeter{options: o, steps: t.steps, warnings: ipc.NewWarnings(o.Logger), offers: true}
	go func() {
		var c *conn
		p, err := g.hear(sock)
		if err == nil {
			c, err = g.welcome(sock, p)
		}
		if err != nil {
			ipc.CloseSocket(sock)
			met(nil, fmt.Errorf("local: offer: %w", err))
			return
		}
		met(c, nil)
	}()
	return theirs, func() { _ = sock.SetReadDeadline(time.Unix(1, 0)) }, nil
}

// Take opens the conn that was offered with f, which is Take's from then on. Errors:
// ErrRefused, ErrVersion, ErrCorrupt for a descriptor that is no such thing, ErrPeerGone,
// the context's error.
func (t Transport) Take(ctx context.Context, f *os.File, options *ipc.Options) (ipc.Conn, error) {
	o, err := options.WithDefaults()
	if err != nil {
		ipc.CloseFiles([]*os.File{f})
		return nil, err
	}
	sock, err := socketOf(f)
	if err != nil {
		return nil, fmt.Errorf("local: take: %w", err)
	}
	c, err := dialHandshake(ctx, sock, time.Now(), &o, t.steps)
	if err != nil {
		ipc.CloseSocket(sock)
		return nil, fmt.Errorf("local: take: %w", err)
	}
	return c, nil
}

// socketOf returns the socket of a descriptor, and closes the descriptor.
func socketOf(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		ipc.CloseFiles([]*os.File{f})
		return nil, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
	}
	f.Close() // c has another descriptor of the same socket
	sock, ok := c.(*net.UnixConn)
	if !ok || sock.LocalAddr().Network() != "unixpacket" {
		ipc.CloseSocket(c)
		return nil, fmt.Errorf("%w: a socket of %s, expected one of a pair of unixpacket", ipc.ErrCorrupt, c.LocalAddr().Network())
	}
	return sock, nil
}
