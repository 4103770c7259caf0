package local

import (
	"net"

	"github.com/ringside-go/ringside/ipc"
)

// Memory is the shared memory of a conn, for tests that play a peer who writes anything
// anywhere in it: the conn's segment and the peer's page of bells.
func Memory(c ipc.Conn) (rings, bells []byte) {
	l := c.(*conn)
	return l.seg.Bytes(), l.bells.seg.Bytes()
}

// Socket is a conn's socket.
func Socket(c ipc.Conn) *net.UnixConn { return c.(*conn).sock }

// MaxPendingFiles is how many batches of descriptors may wait.
const MaxPendingFiles = maxPendingFiles
