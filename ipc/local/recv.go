package local

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
)

func (c *conn) TryRecv() (ipc.Message, bool, error) {
	if c.held {
		panic("ipc: TryRecv before Release")
	}
	// The state is read before the ring: what was committed before the peer went is then
	// in the ring for sure.
	state := c.state.Load()
	if state&(ipc.StateClosed|ipc.StateCorrupt) != 0 {
		return ipc.Message{}, false, c.Err()
	}
	tag, body, err := c.in.Peek()
	runtime.KeepAlive(c)
	if err != nil {
		if err != ring.ErrEmpty { // as it is, never wrapped: this is the hot path
			return ipc.Message{}, false, c.ringError(err)
		}
		if state != 0 {
			return ipc.Message{}, false, c.Err()
		}
		return ipc.Message{}, false, nil
	}
	if len(body) > c.limit {
		return ipc.Message{}, false, c.corrupt(fmt.Errorf("message of %d bytes, at most %d", len(body), c.limit))
	}
	var files []*os.File
	if n := int(tag >> filesShift); n > 0 {
		var ok bool
		if files, ok, err = c.messageFiles(n, state); !ok {
			return ipc.Message{}, false, err
		}
	}
	c.held = true
	c.recv.messages.Add(1)
	c.recv.bytes.Add(uint64(len(body)))
	return ipc.Message{Kind: tag & ipc.MaxKind, Body: body, Files: files}, true, nil
}

// messageFiles returns the n files of the message that is next, false while they are on
// their way. state was read before the message was.
func (c *conn) messageFiles(n int, state uint32) ([]*os.File, bool, error) {
	files, ok := c.takeFiles()
	c.filesNeeded = !ok
	if !ok {
		if state&ipc.StateGone != 0 {
			return nil, false, c.corrupt(fmt.Errorf("message with %d files came without them", n))
		}
		return nil, false, nil
	}
	if len(files) != n {
		ipc.CloseFiles(files)
		return nil, false, c.corrupt(fmt.Errorf("message with %d files came with %d", n, len(files)))
	}
	c.recv.files.Add(uint64(n))
	return files, true, nil
}

func (c *conn) Recv(ctx context.Context) (ipc.Message, error) {
	for {
		m, ok, err := c.TryRecv()
		if ok || err != nil {
			return m, err
		}
		if err := c.data.Wait(ctx, c.dataReady); err != nil {
			return ipc.Message{}, err
		}
	}
}

func (c *conn) Release() {
	if !c.held {
		panic("ipc: Release without a message")
	}
	c.held = false
	c.in.Release()
	runtime.KeepAlive(c)
}
