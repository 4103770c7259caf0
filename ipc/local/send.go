package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
)

func (c *conn) TryReserve(kind uint32, n int) ([]byte, error) {
	if c.state.Load() != 0 {
		return nil, c.Err()
	}
	if n < 0 || n > c.limit || kind > ipc.MaxKind {
		return nil, ipc.CheckMessage(kind, n, c.limit)
	}
	if len(c.filesAhead) > 0 && !c.filesRoom() {
		c.sent.full.Add(1)
		return nil, ipc.ErrFull
	}
	buf, err := c.out.Reserve(n)
	runtime.KeepAlive(c)
	if err == nil {
		c.kind, c.reserved = kind, n
		return buf, nil
	}
	if err == ring.ErrFull {
		c.sent.full.Add(1)
		return nil, ipc.ErrFull
	}
	return nil, c.ringError(err)
}

// CanSend says whether TryReserve of n bytes would find room, or an error. After false
// the conn's Waiter is woken once there is room. It costs less than to try: where there
// is room nothing is written.
func (c *conn) CanSend(n int) bool {
	defer runtime.KeepAlive(c)
	if len(c.filesAhead) < ipc.MaxFilesAhead && c.out.CanReserve(n) {
		return true
	}
	_, err := c.TryReserve(0, n)
	if err == nil {
		c.Abort()
	}
	return err != ipc.ErrFull
}

func (c *conn) Reserve(ctx context.Context, kind uint32, n int) ([]byte, error) {
	for {
		buf, err := c.TryReserve(kind, n)
		if err != ipc.ErrFull {
			return buf, err
		}
		c.roomNeeded = n
		if err := c.room.Wait(ctx, c.roomReady); err != nil {
			return nil, err
		}
	}
}

func (c *conn) Commit(files ...*os.File) error {
	if c.reserved < 0 {
		panic("ipc: Commit without a reservation")
	}
	tag := c.kind
	if len(files) > 0 {
		if err := c.sendFiles(files); err != nil {
			c.Abort()
			return err
		}
		tag |= uint32(len(files)) << filesShift
	}
	if c.state.Load() != 0 {
		c.Abort()
		return c.Err()
	}
	c.out.Commit(tag)
	if len(files) > 0 {
		c.filesAhead = append(c.filesAhead, c.out.Position())
	}
	c.bells.data.Ring()
	c.sent.messages.Add(1)
	c.sent.bytes.Add(uint64(c.reserved))
	c.reserved = -1
	runtime.KeepAlive(c)
	return nil
}

// Nudge wakes the peer, if it sleeps, ahead of a message. The peer then waits awake for
// 200 microseconds, so the message should follow within that time. The goroutine that
// sends calls it.
func (c *conn) Nudge() {
	c.bells.data.Ring()
	runtime.KeepAlive(c)
}

// Trim gives the memory of this end's queue back to the machine, if the peer has received
// everything and nothing was sent since the call before. Messages afterwards take memory
// anew. The goroutine that sends calls it.
func (c *conn) Trim() {
	defer runtime.KeepAlive(c)
	end := c.out.Position()
	idle := end == c.looked
	c.looked = end
	if !idle || end == c.trimmed || len(c.pages) == 0 || c.state.Load() != 0 || !c.out.Empty() {
		return
	}
	c.trimmed = end
	_ = unix.Madvise(c.pages, unix.MADV_REMOVE)
}

func (c *conn) Abort() {
	if c.reserved < 0 {
		panic("ipc: Abort without a reservation")
	}
	c.reserved = -1
	c.out.Abort()
}

// filesRoom reports whether fewer than ipc.MaxFilesAhead messages with files are on their
// way; else the peer rings when it has released the oldest.
//
// The socket has room for as many datagrams, so that sending them never waits for a peer
// that has stopped: a process that serves other peers meanwhile must not be held up by
// one of them.
func (c *conn) filesRoom() bool {
	defer runtime.KeepAlive(c)
	n := 0
	if len(c.filesAhead) == ipc.MaxFilesAhead {
		for n < len(c.filesAhead) && c.out.Passed(c.filesAhead[n]) {
			n++
		}
		c.filesAhead = c.filesAhead[:copy(c.filesAhead, c.filesAhead[n:])]
	}
	return len(c.filesAhead) < ipc.MaxFilesAhead
}

// sendFiles sends the descriptors ahead of their message, so that they are in the peer's
// socket when it finds the message.
func (c *conn) sendFiles(files []*os.File) error {
	if len(files) > ipc.MaxFiles {
		return fmt.Errorf("%w: %d, at most %d", ipc.ErrTooManyFiles, len(files), ipc.MaxFiles)
	}
	_ = c.sock.SetWriteDeadline(time.Now().Add(fileSendTimeout))
	var token [8]byte
	err := sendFiles(c.steps, c.sock, token[:], files...)
	switch {
	case err == nil:
		c.steps.took("files sent")
		c.sent.files.Add(uint64(len(files)))
		return nil
	case c.state.Load() != 0:
		return c.Err()
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET), errors.Is(err, net.ErrClosed):
		return c.state.PeerError(ipc.ErrPeerGone)
	}
	return fmt.Errorf("local: sending descriptors: %w", err)
}

// ringError is what an error of either ring means for the conn. After Close the memory
// may read as zeros, which says nothing about the peer.
func (c *conn) ringError(err error) error {
	if c.state.Load()&ipc.StateClosed != 0 {
		return net.ErrClosed
	}
	return c.corrupt(err)
}
