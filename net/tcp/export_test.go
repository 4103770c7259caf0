package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// Reset ends a conn as a host does that was started anew: by a reset.
func Reset(c ipc.Conn) error {
	s := c.(*conn)
	err := unix.SetsockoptLinger(s.sock.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	s.finish()
	return err
}

// SendBuffers are the sizes of the send buffers of both sockets of a conn, and what a new
// socket gets that asks for as much as the second does. near says whether it has a reason
// to.
func SendBuffers(c ipc.Conn) (messages, bulk, asked int, near bool, err error) {
	s := c.(*conn)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer); err != nil {
		return
	}
	for _, x := range []struct {
		fd int
		to *int
	}{{s.sock.fd, &messages}, {s.bulk.sock.fd, &bulk}, {fd, &asked}} {
		if *x.to, err = unix.GetsockoptInt(x.fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err != nil {
			return
		}
	}
	return messages, bulk, asked, s.bulk.sock.roundTrip() <= nearBy, nil
}

// Congestion is the congestion control of a conn's bulk socket.
func Congestion(c ipc.Conn) (string, error) {
	return unix.GetsockoptString(c.(*conn).bulk.sock.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
}

// NewQuick is New with beats that come often.
func NewQuick() *Transport {
	t := New()
	t.beatEvery = 50 * time.Millisecond
	return t
}

// Unmapped reports whether a conn has given its memory back, which TestMemory wants to be
// unmapped then.
func Unmapped(c ipc.Conn) bool { return c.(*conn).memory.state.Load()&gateEnded != 0 }
