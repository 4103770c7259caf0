package client

import (
	"context"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/transfer"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// reasonWait is how long the client waits for the dispatcher's reason why a
// connection ended.
const reasonWait = 5 * time.Second

// dataConn is a data connection to a worker that shares no memory with the client: it
// carries tensors alone. Any goroutine may call close; the rest belongs to the engine's.
type dataConn struct {
	token []byte // secret of the connection
	// data of the worker's Links, before the connection stands
	said [wire.MaxLinkRounds][]byte
	next uint32 // round of the worker's next Link

	conn *transfer.Conn // nil until the connection stands
	came []wire.Handle  // pulled, and not given back yet
}

// connect opens the conns that workers have asked for.
func (e *Engine) connect(ctx context.Context) error {
	for r := range e.workers {
		l := e.workers[r].data
		if l == nil || l.conn != nil {
			continue
		}
		c, err := route.Pair(ctx, route.PairOptions{Name: "client " + e.name, Role: ipc.RoleClient, Dials: true, Secret: l.token, TLS: e.tls, Logger: e.log,
			Waiter: e.waiter, Order: e.far, Exchange: e.talk(uint32(r), l)})
		switch {
		case e.err != nil:
			return e.err
		case err != nil:
			return fmt.Errorf("%w; tensors go between the two directly: one must be able to open TCP connections to the other", err)
		}
		l.conn = transfer.New(c, 0)
	}
	return nil
}

// talk swaps words with a worker through the dispatcher.
func (e *Engine) talk(rank uint32, l *dataConn) func(context.Context, []byte) ([]byte, error) {
	m := wire.Link{Rank: rank}
	return func(ctx context.Context, mine []byte) ([]byte, error) {
		m.Data = mine
		if err := e.send(ctx, wire.KindLink, &m); err != nil {
			return nil, err
		}
		for l.said[m.Round] == nil {
			if err := e.receive(ctx); err != nil {
				return nil, err
			}
		}
		m.Round++
		return l.said[m.Round-1], nil
	}
}

// push begins to send bytes of a block, of which it holds a reference until they have
// arrived. The handle is the upload's, with the length of the bytes.
func (l *dataConn) push(h wire.Handle, b *shm.Block, bytes []byte) {
	b.Retain()
	h.Len = uint64(len(bytes))
	l.conn.Send.Add(transfer.Block{Handle: h, Memory: b, Parts: [][]byte{bytes}})
	l.conn.Say(wire.KindPush, h)
}

// pull has a result of the worker's read into a block of ours.
func (l *dataConn) pull(arena *shm.Arena, h wire.Handle) (*shm.Block, error) {
	b, err := arena.Alloc(int(h.Len))
	if err != nil {
		return nil, err
	}
	b.Retain()
	l.conn.Recv.Add(transfer.Block{Handle: h, Memory: b, Parts: [][]byte{b.Bytes()[:h.Len]}})
	l.conn.Say(wire.KindPull, h)
	return b, nil
}

// push sends the uploads of e.run, or their parts, to the workers that share no memory
// with the client, and waits until they have arrived: a Run never waits for them at a
// worker.
func (e *Engine) push(ctx context.Context) error {
	for i := range e.run.Uploads {
		u := &e.run.Uploads[i]
		if u.Inline != nil {
			continue
		}
		b, err := e.arena.Leased(u.Handle, self)
		if err != nil {
			return e.fail(fmt.Errorf("upload %d: %w", u.ID, err))
		}
		for r := range e.workers {
			if e.workers[r].data == nil {
				continue
			}
			if err := e.pushPart(&e.workers[r], u, b); err != nil {
				b.Release()
				return err
			}
		}
		b.Release()
	}
	return e.transfer(ctx, isPushed)
}

// isPushed reports whether all that was pushed to a worker is sent.
func isPushed(l *dataConn) bool { return len(l.conn.Send.Blocks) == 0 }

// pushPart sends a worker what it is to have of an upload that lies in b.
func (e *Engine) pushPart(w *member, u *wire.Upload, b *shm.Block) error {
	bytes := b.Bytes()[:u.Handle.Len]
	if u.Stage != 0 && int(u.Stage) != 1+w.stage {
		return nil
	}
	if u.Layout != 0 {
		shape, size := tensor.Shape(u.Dims), tensor.DType(u.DType).Size()
		layout, _ := w.mesh.LayoutOf(u.Layout, len(shape))
		start, local := w.mesh.Local(layout, shape, w.place)
		n := local.Elems() * size
		if n == 0 {
			return nil
		}
		if at, ok := shard.Together(size, shape, start, local); ok {
			bytes = bytes[at : at+n]
		} else {
			part, err := e.arena.Alloc(n)
			if err != nil {
				return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
			}
			defer part.Release()
			shard.CopyOut(part.Bytes(), bytes, size, shape, start, local)
			b, bytes = part, part.Bytes()[:n]
		}
	}
	w.data.push(u.Handle, b, bytes)
	e.stats.pushed.Add(uint64(len(bytes)))
	return nil
}

// transfer moves bytes over the data connections until done is true for each of them. If
// ctx ends before, the next call goes on.
func (e *Engine) transfer(ctx context.Context, done func(*dataConn) bool) error {
	if !e.apart {
		return nil
	}
	var failed error
	at := 0
	err := e.waiter.Wait(ctx, func() bool {
		all := true
		for r := range e.workers {
			l := e.workers[r].data
			if l == nil || done(l) {
				continue
			}
			if failed = l.step(); failed != nil {
				at = r
				return true
			}
			all = all && done(l)
		}
		return all
	})
	for r := range e.workers {
		if l := e.workers[r].data; l != nil {
			e.returned.add(l.came...)
			l.came = l.came[:0]
		}
	}
	switch {
	case failed != nil:
		return e.cut(&e.workers[at], "the connection for tensors", failed)
	case err != nil:
		return ipc.ContextError(ctx)
	}
	return nil
}

// step moves what can be moved now.
func (l *dataConn) step() error {
	for {
		if _, err := l.conn.Step(); err != nil {
			return err
		}
		for l.conn.Recv.Moved > 0 {
			l.came = append(l.came, l.conn.Recv.Blocks[0].Handle)
			l.conn.Recv.Drop()
		}
		if heard, err := l.conn.Hear(l.hear); err != nil || !heard {
			return err
		}
	}
}

// hear handles the worker's message that a push has arrived.
func (l *dataConn) hear(kind uint32, h wire.Handle) error {
	pushes := &l.conn.Send
	if kind != wire.KindPushed {
		return fmt.Errorf("unexpected %s (kind %d)", wire.KindName(kind), kind)
	}
	if pushes.Moved == 0 || pushes.Blocks[0].Handle != h {
		return fmt.Errorf("a word that %v came, out of turn", h)
	}
	pushes.Drop()
	return nil
}

// close closes the connection, which wakes a goroutine that waits for it.
func (l *dataConn) close() {
	if l != nil && l.conn != nil {
		_ = l.conn.Close()
	}
}

// forget gives up what was on its way, after close.
func (l *dataConn) forget() {
	if l != nil && l.conn != nil {
		l.conn.Drop()
	}
}
