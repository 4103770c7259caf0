package tcp

import (
	"fmt"
	"math"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// userTimeout ends a connection whose peer has acknowledged nothing of what was sent
	// for so long, and with keepAlive one on which nothing was sent: a cable that was
	// pulled, a host without power.
	userTimeout = 10 * time.Second
	keepIdle    = 3 * time.Second
	keepEvery   = time.Second
	keepCount   = 7

	// maxIovecs bounds the buffers of one system call; the kernel's own limit is 1024.
	maxIovecs = 64

	// maxTransfer bounds the bytes of one system call, so that the goroutine comes back
	// in about a hundred microseconds to look at what else it waits for.
	maxTransfer = 1 << 20

	// sendBuffer bounds what the kernel holds of bulk transfers to a peer whose answers
	// come within nearBy. Left to itself it takes megabytes, all of what a rank has at
	// hand, which is out of the cache when it goes on. For a link of 10 Gbit/s and nearBy
	// it is enough; to those farther away the kernel chooses.
	sendBuffer = 512 << 10
	nearBy     = 500 * time.Microsecond

	// largeTransfer is the first transfer to a near peer for which BBR is given up; small
	// ones it sends well.
	largeTransfer = 128 << 10
)

// socket is a descriptor that is closed once no goroutine is within a system call on it.
// Any goroutine may call any method.
type socket struct {
	gate
	fd  int
	tls *sealed // nil without TLS
}

// open begins with a descriptor, which the socket owns. tls is nil without TLS.
func (s *socket) open(fd int, tls *sealed) {
	s.fd, s.tls = fd, tls
	s.end = func() { _ = unix.Close(fd) }
}

// shutdown ends one direction or both, unix.SHUT_*.
func (s *socket) shutdown(how int) {
	if s.enter() {
		_ = unix.Shutdown(s.fd, how)
		s.leave()
	}
}

// send writes what the kernel takes now. unix.EAGAIN says that it takes nothing,
// net.ErrClosed that the socket is closed.
func (s *socket) send(iov []unix.Iovec, total int) (int, error) {
	if !s.enter() {
		return 0, net.ErrClosed
	}
	defer s.leave()
	if s.tls != nil {
		return s.tls.send(s.fd, iov)
	}
	return sendmsg(s.fd, iov, total)
}

// recv reads what has arrived: 0 at the end, unix.EAGAIN when there is nothing now.
func (s *socket) recv(iov []unix.Iovec, total int) (int, error) {
	if !s.enter() {
		return 0, net.ErrClosed
	}
	defer s.leave()
	if s.tls != nil {
		return s.tls.recv(iov)
	}
	return recvmsg(s.fd, iov, total)
}

// tune sets the options that every connection has. TCP_NODELAY is on already.
func tune(c *net.TCPConn) error {
	if err := c.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepIdle, Interval: keepEvery, Count: keepCount,
	}); err != nil {
		return fmt.Errorf("tcp: keepalive: %w", err)
	}
	if err := ipc.WithFD(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout/time.Millisecond))
	}); err != nil {
		return fmt.Errorf("tcp: user timeout: %w", err)
	}
	return nil
}

// bound gives the socket's send buffer its size, where the peer is near, and says whether
// it is. The kernel's own limit (net.core.wmem_max) may be lower.
func (s *socket) bound() (near bool) {
	near = s.roundTrip() <= nearBy
	if near {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	}
	return near
}

// unpace takes the congestion control that every kernel has and every user may choose
// (RFC 5681). Where BBR is the default, it sends as fast as it has seen data go, by a
// timer: after small transfers that is slow, and large ones, on a link of microseconds,
// take twice as long.
func (s *socket) unpace() {
	if s.enter() {
		_ = unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
		s.leave()
	}
}

// roundTrip is the shortest that the kernel has seen, more than an hour if none.
func (s *socket) roundTrip() time.Duration {
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return math.MaxInt64
	}
	return time.Duration(info.Min_rtt) * time.Microsecond
}

// detach takes the descriptor out of c, which is closed, into n of our own.
func detach(c *net.TCPConn, n int) (fds []int, err error) {
	defer c.Close()
	for range n {
		fd, err := ipc.Duplicate(c)
		if err != nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			return nil, fmt.Errorf("tcp: another descriptor: %w", err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}
