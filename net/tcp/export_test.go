package tcp

import (
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
