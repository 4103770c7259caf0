// Package transfer moves blocks between a client and a worker that share no memory, over
// a connection of their own. Both ends have a [Conn]: messages about blocks go over its
// queue (wire.Transfer), and the bytes beside it (ipc.Bulk), one block after another in
// each direction, tagged with a number that counts them from 0.
package transfer

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Block is a block that is moved. A transfer that has begun is finished, so its memory is
// kept until then.
type Block struct {
	Handle wire.Handle // the block's name at its owner
	Memory *shm.Block  // a reference to release when the block is dropped; nil for none
	Parts  [][]byte    // the bytes that are sent, or where they are received
}

// Queue moves the blocks of one direction.
type Queue struct {
	Blocks []Block // oldest first
	Moved  int     // the first Blocks that have been moved

	begin    func(tag uint64, parts ...[]byte) error
	progress func() (done bool, err error)
	begun    bool   // the block after those that were moved is under way
	tag      uint64 // its number
}

// Add adds a block behind the others.
func (q *Queue) Add(b Block) { q.Blocks = append(q.Blocks, b) }

// Drop removes the oldest block.
func (q *Queue) Drop() {
	if m := q.Blocks[0].Memory; m != nil {
		m.Release()
	}
	q.Blocks = q.Blocks[:copy(q.Blocks, q.Blocks[1:])]
	q.Moved--
}

func (q *Queue) step() (worked bool, err error) {
	for q.Moved < len(q.Blocks) {
		if !q.begun {
			if err := q.begin(q.tag, q.Blocks[q.Moved].Parts...); err != nil {
				return worked, err
			}
			q.begun = true
		}
		if done, err := q.progress(); err != nil || !done {
			return worked, err
		}
		q.begun, worked = false, true
		q.tag++
		q.Moved++
	}
	return worked, nil
}

// Conn is one end of the connection. One goroutine uses it; any may call Close.
type Conn struct {
	Send, Recv Queue

	conn    ipc.Conn
	session uint64
	words   []word // messages that wait for room, oldest first
}

type word struct {
	kind   uint32
	handle wire.Handle
}

// New returns the end of c, whose transport moves bulk. session is in the messages that
// it sends.
func New(c ipc.Conn, session uint64) *Conn {
	b := c.Features().Bulk
	return &Conn{conn: c, session: session, Send: Queue{begin: b.BeginSend, progress: b.ProgressSend},
		Recv: Queue{begin: b.BeginRecv, progress: func() (bool, error) {
			_, done, err := b.ProgressRecv()
			return done, err
		}}}
}

// Say sends a message about a block as soon as there is room for it.
func (c *Conn) Say(kind uint32, h wire.Handle) { c.words = append(c.words, word{kind, h}) }

// Hear has hear handle the oldest message, if there is one. An error of hear ends the
// connection: it is ipc.ErrCorrupt.
func (c *Conn) Hear(hear func(kind uint32, h wire.Handle) error) (heard bool, err error) {
	m, ok, err := c.conn.TryRecv()
	if err != nil || !ok {
		return false, err
	}
	var t wire.Transfer
	err = wire.Parse(m.Body, &t)
	kind := m.Kind
	ipc.CloseFiles(m.Files)
	c.conn.Release()
	if err == nil {
		err = hear(kind, t.Handle)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
	}
	return true, err
}

// Step sends the messages for which there is room, and moves the bytes that can be moved
// now. It reports whether it sent a message or completed a block.
func (c *Conn) Step() (worked bool, err error) {
	for len(c.words) > 0 {
		w := c.words[0]
		err := ipc.TrySend(c.conn, ipc.Message{Kind: w.kind, Body: wire.Append(nil, &wire.Transfer{Session: c.session, Handle: w.handle})})
		if errors.Is(err, ipc.ErrFull) {
			break
		}
		if err != nil {
			return worked, err
		}
		c.words, worked = c.words[1:], true
	}
	sent, err := c.Send.step()
	if err != nil {
		return worked, err
	}
	received, err := c.Recv.step()
	return worked || sent || received, err
}

// Close closes the connection, which wakes a goroutine that waits for it.
func (c *Conn) Close() error { return c.conn.Close() }

// Drop gives up all blocks, after Close.
func (c *Conn) Drop() {
	for _, q := range []*Queue{&c.Send, &c.Recv} {
		for len(q.Blocks) > 0 {
			q.Drop()
		}
	}
}
