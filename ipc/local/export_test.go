package local

import (
	"io"
	"net"
	"os"

	"github.com/ringside-go/ringside/ipc"
)

// Memory returns the shared memory of a conn, for tests that play a peer which writes
// anything anywhere in it: the conn's segment and the peer's page of bells.
func Memory(c ipc.Conn) (rings, bells []byte) {
	l := c.(*conn)
	return l.seg.Bytes(), l.bells.seg.Bytes()
}

// OwnBells returns the page of bells that this end sleeps on.
func OwnBells(c ipc.Conn) []byte { return c.(*conn).data.page.seg.Bytes() }

// Socket is a conn's socket.
func Socket(c ipc.Conn) *net.UnixConn { return c.(*conn).sock }

// Stepping is the transport that says which step of the protocol it took.
func Stepping(at func(step string)) Transport { return Transport{&steps{at}} }

// Publish is the first half of Commit: the message is there, and the receiver has not
// been woken.
func Publish(c ipc.Conn) {
	l := c.(*conn)
	l.out.Commit(l.kind)
}

// Announce commits a message with files that have been sent.
func Announce(c ipc.Conn, files uint32) {
	l := c.(*conn)
	l.kind |= files << filesShift
	_ = l.Commit()
}

// LateLeft is when a dialer counts as late to say Hello.
const LateLeft = lateLeft

// UnheardTries is how often a dialer in time is hung up on before it gives up.
const UnheardTries = unheardTries

// MaxHandshakes is how many peers are greeted at a time.
const MaxHandshakes = maxHandshakes

// MaxSilent is how many peers at a time may have said nothing.
const MaxSilent = maxSilent

// MaxPendingFiles is how many batches of descriptors may wait.
const MaxPendingFiles = maxPendingFiles

// ReadMapping reads what is mapped out of a process's memory, as Inspect does.
func ReadMapping(m *Mapping, mem io.ReaderAt) error { return m.read(mem) }

// PageOf returns the descriptor of a Waiter's page of bells.
func PageOf(w *Waiter) *os.File { return w.page.seg.File() }
