package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// channels are the connections that a session's messages use. Those of the worker are
// handled before those of the dispatcher: an answer to a Run counts although the worker
// has ended since. When own ends, so does the session; when conn does, those sessions go
// on that need nothing of the dispatcher.
type channels struct {
	waiter *local.Waiter // of all connections
	conn   ipc.Conn      // with the dispatcher; another one after rejoin
	own    ipc.Conn      // with the worker; nil where the dispatcher forwards
	to     ipc.Conn      // where messages go: conn until own is taken, then own
	offer  *os.File      // of own, not taken yet

	// held where conn changes, and where other goroutines than the engine's read it
	connMu sync.Mutex
	closed bool // the engine is
	found  rejoiner

	refused error // why an offer could not be taken; nil otherwise

	msg       ipc.Message // the worker's next message, if held
	held      bool
	single    bool        // no other worker serves the session
	other     ipc.Message // the dispatcher's next message, if otherHeld
	otherHeld bool
	gone      error // why the connection with the dispatcher has ended
	ownGone   error // why the connection with the worker has ended
}

// offered keeps the descriptor that came with SessionOpened, of which there is at most
// one.
func (c *channels) offered(m *ipc.Message) error {
	if len(m.Files) == 0 {
		return nil
	}
	if len(m.Files) > 1 || c.offer != nil {
		return fmt.Errorf("session opened with %d descriptors, expected one or none", len(m.Files))
	}
	c.offer, m.Files = m.Files[0], nil
	return nil
}

// look finds the next message: the worker's, if there is one, else the dispatcher's. It
// reports whether there is any, or an end.
func (c *channels) look() bool {
	if c.lookOwn() {
		return true
	}
	if c.gone != nil && c.without() {
		c.rejoin()
	}
	if !c.otherHeld && c.gone == nil {
		m, ok, err := c.conn.TryRecv()
		if !ok && err == nil {
			return c.to == c.own && c.ownGone != nil
		}
		c.other, c.otherHeld, c.gone = m, ok, err
		if c.gone != nil {
			c.found.known = false
		}
		c.lookOwn() // its messages before that
	}
	return c.held || c.otherHeld || c.ownGone != nil || !c.without()
}

// without reports whether the session goes on although the dispatcher has died: it has
// one worker, and a connection of its own with it.
func (c *channels) without() bool {
	return c.single && c.own != nil && c.to == c.own && errors.Is(c.gone, ipc.ErrPeerGone)
}

// lookOwn is look for the worker's messages. Most looks of a wait find none and change
// nothing.
func (c *channels) lookOwn() bool {
	if c.own == nil || c.ownGone != nil {
		return false
	}
	m, ok, err := c.own.TryRecv()
	if ok || err != nil {
		c.msg, c.held, c.ownGone = m, ok, err
	}
	return ok
}

// stopTimeout bounds the wait for room for a Stop.
const stopTimeout = time.Second

// stop sends a Stop for the Runs up to seq.
func (c *channels) stop(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return ipc.Send(ctx, c.conn, ipc.Message{Kind: wire.KindStop, Body: wire.Append(nil, &wire.Stop{Seq: seq})})
}

// closeOwn ends the session's own conn, and an offer of one.
func (c *channels) closeOwn() {
	if c.own != nil {
		_ = c.own.Close()
	}
	if c.offer != nil {
		ipc.CloseFiles([]*os.File{c.offer})
	}
}
