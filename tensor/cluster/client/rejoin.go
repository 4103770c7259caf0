package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// When the dispatcher of a session has died that goes on without it (channels.without), a
// goroutine looks for another one at the same address, and names the session to it
// (Resume). Until that dispatcher has sent Resume back, it does not know the session:
// its messages until then are about the connection alone.

const (
	// The pause between two looks for a dispatcher doubles from the first to the last.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// rejoiner looks for another dispatcher.
type rejoiner struct {
	ctx     context.Context // done with Close
	dial    func(context.Context) (ipc.Conn, error)
	wake    func()
	token   []byte        // names the session
	known   bool          // the dispatcher knows the session
	pause   time.Duration // before the next look
	came    chan ipc.Conn // with the dispatcher that was found; nil: none is looked for
	seeking sync.WaitGroup
}

// begin looks for a dispatcher from now on.
func (r *rejoiner) begin() {
	came, pause := make(chan ipc.Conn, 1), r.pause
	r.came, r.pause = came, min(max(2*pause, firstPause), lastPause)
	r.seeking.Go(func() { r.seek(came, pause) })
}

// seek looks for a dispatcher until there is one.
func (r *rejoiner) seek(came chan ipc.Conn, pause time.Duration) {
	for ; ; pause = min(max(2*pause, firstPause), lastPause) {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(pause):
		}
		c, err := r.dial(r.ctx)
		if err != nil {
			continue
		}
		if err := ipc.TrySend(c, ipc.Message{Kind: wire.KindResume, Body: wire.Append(nil, &wire.Resume{Token: r.token})}); err != nil {
			_ = c.Close()
			continue
		}
		came <- c
		r.wake()
		return
	}
}

// end ends the search, after Close.
func (r *rejoiner) end() {
	r.seeking.Wait()
	if len(r.came) > 0 {
		_ = (<-r.came).Close()
	}
}

// rejoin takes the dispatcher that was found, and has one looked for if none is.
func (c *channels) rejoin() {
	if c.found.came == nil && len(c.found.token) > 0 {
		c.found.begin()
	}
	if len(c.found.came) == 0 {
		return
	}
	conn := <-c.found.came
	c.found.came = nil
	c.connMu.Lock()
	defer c.connMu.Unlock()
	_ = c.conn.Close()
	c.conn, c.gone = conn, nil
	if c.closed {
		_ = conn.Close()
	}
}

// resumed handles the dispatcher's Resume.
func (c *channels) resumed(src []byte) error {
	var m wire.Resume
	if err := wire.Parse(src, &m); err != nil {
		return err
	}
	if c.found.known {
		return errors.New("a second Resume of a session")
	}
	c.found.known, c.found.pause = true, 0
	return nil
}

// dismissed notes that a dispatcher that does not know the session ends the connection.
// Another look for one follows.
func (c *channels) dismissed(text string) {
	c.gone = fmt.Errorf("%w: %s", ipc.ErrPeerGone, text)
}

// current returns the connection with the dispatcher. Any goroutine may call it; if
// closes is true, a later one is closed at once.
func (c *channels) current(closes bool) ipc.Conn {
	c.connMu.Lock()
	defer c.connMu.Unlock()
	c.closed = c.closed || closes
	return c.conn
}
