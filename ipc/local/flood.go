package local

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/limits"
)

// fairFiles is how many descriptors of a client wait for their messages in ordinary use:
// more than the segments of all uploads that it sends ahead.
const fairFiles = 8

// flooding has the conns of this process with descriptors that wait for their messages,
// and how many. Descriptors are the process's, so the conns of all listeners count.
var flooding struct {
	sync.Mutex
	conns map[*conn]int
}

// hold counts n more descriptors that wait for their messages, or -n that do so no more.
// It is called with filesMu.
func (c *conn) hold(n int) {
	c.filesHeld += n
	c.filesWaiting.Store(int32(len(c.files)))
	flooding.Lock()
	defer flooding.Unlock()
	if flooding.conns == nil {
		flooding.conns = map[*conn]int{}
	}
	if flooding.conns[c] = c.filesHeld; c.filesHeld == 0 {
		delete(flooding.conns, c)
	}
}

// relieve is called when this process has few descriptors left. It ends the client's conn
// that has the most descriptors waiting for their messages, if those are more than
// ordinary use needs, and reports whether there was such a conn. To run out is no other
// peer's fault, so the others go on.
func relieve() (ended bool) {
	flooding.Lock()
	var most *conn
	for c, n := range flooding.conns {
		if n > fairFiles && c.state.Peer.Role.Ordinary() && (most == nil || n > flooding.conns[most]) {
			most = c
		}
	}
	n := flooding.conns[most]
	flooding.Unlock()
	if most != nil {
		_ = most.corrupt(fmt.Errorf("%d descriptors wait for their messages, and this process may have %v", n, limits.OpenFiles()))
	}
	return most != nil
}

// crowded is ipc.Crowded after what floods this process was ended.
func crowded(sock *net.UnixConn) error {
	for {
		err := ipc.Crowded(sock)
		if err == nil || !relieve() {
			return err
		}
		for relieve() {
		}
		<-time.After(shortPause) // until the descriptors are closed
	}
}
