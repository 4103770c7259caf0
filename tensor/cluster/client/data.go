package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

const (
	// maxPulls is the number of results asked for ahead, so that the next is on its way
	// when one has come.
	maxPulls = 16

	// reasonWait is how long the client waits for the dispatcher's reason why a
	// connection ended.
	reasonWait = 2 * time.Second
)

// dataConn is a data connection to a worker that shares no memory with the client: it
// carries tensors alone. Any goroutine may call close; the rest belongs to the engine's.
type dataConn struct {
	token []byte // secret of the connection
	// data of the worker's Links, before the connection stands
	said [wire.MaxLinkRounds][]byte
	next uint32 // round of the worker's next Link

	conn ipc.Conn
	bulk ipc.Bulk // of conn

	pushes  []moving // not acknowledged yet, oldest first
	told    int      // of these the worker knows of
	gone    int      // of these the bytes are on their way
	sending bool     // the one after that is
	pushed  uint64   // all that were begun

	pulls     []moving // not here yet
	asked     int      // of these the worker knows of
	receiving bool     // the first is being received
	pulled    uint64   // all that came
	came      []wire.Handle
}

// moving is a block that is being transferred. A transfer that has begun is finished, so
// the block is kept until then.
type moving struct {
	// name of the block at its owner; a part of an upload has the upload's, with its own
	// length
	handle wire.Handle
	block  *shm.Block
	bytes  []byte // of block
}

// connect opens the conns that workers have asked for.
func (e *Engine) connect(ctx context.Context) error {
	for r := range e.workers {
		l := e.workers[r].data
		if l == nil || l.conn != nil {
			continue
		}
		c, err := route.Pair(ctx, route.PairOptions{Name: "client " + e.name, Role: ipc.RoleClient, Dials: true, Secret: l.token, Logger: e.log,
			Waiter: e.waiter, Order: route.Apart(), Exchange: e.talk(uint32(r), l)})
		switch {
		case e.err != nil:
			return e.err
		case err != nil:
			return fmt.Errorf("%w; tensors go between the two directly: one must be able to open TCP connections to the other", err)
		}
		l.conn, l.bulk = c, c.Features().Bulk
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
// arrived.
func (l *dataConn) push(h wire.Handle, b *shm.Block, bytes []byte) {
	b.Retain()
	h.Len = uint64(len(bytes))
	l.pushes = append(l.pushes, moving{h, b, bytes})
}

// pull has a result of the worker's read into a block of ours.
func (l *dataConn) pull(arena *shm.Arena, h wire.Handle) (*shm.Block, error) {
	b, err := arena.Alloc(int(h.Len))
	if err != nil {
		return nil, err
	}
	b.Retain()
	l.pulls = append(l.pulls, moving{h, b, b.Bytes()[:h.Len]})
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
	return e.transfer(ctx, func(l *dataConn) bool { return len(l.pushes) == 0 })
}

// pushPart sends a worker what it is to have of an upload that lies in b.
func (e *Engine) pushPart(w *member, u *wire.Upload, b *shm.Block) error {
	bytes := b.Bytes()[:u.Handle.Len]
	if u.Stage != 0 && int(u.Stage) != 1+w.stage {
		return nil
	}
	if u.Layout != 0 {
		shape, size := make(tensor.Shape, len(u.Dims)), tensor.DType(u.DType).Size()
		for d, n := range u.Dims {
			shape[d] = int(n)
		}
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
	for l.told < len(l.pushes) {
		if ok, err := l.say(wire.KindPush, l.pushes[l.told].handle); err != nil {
			return err
		} else if !ok {
			break
		}
		l.told++
	}
	for l.asked < min(len(l.pulls), maxPulls) {
		if ok, err := l.say(wire.KindPull, l.pulls[l.asked].handle); err != nil {
			return err
		} else if !ok {
			break
		}
		l.asked++
	}
	if err := l.send(); err != nil {
		return err
	}
	if err := l.receive(); err != nil {
		return err
	}
	return l.listen()
}

// say sends a message about a block if there is room for it.
func (l *dataConn) say(kind uint32, h wire.Handle) (bool, error) {
	err := ipc.TrySend(l.conn, ipc.Message{Kind: kind, Body: wire.Append(nil, &wire.Transfer{Handle: h})})
	if errors.Is(err, ipc.ErrFull) {
		return false, nil
	}
	return true, err
}

// send goes on with the pushes that the worker knows of.
func (l *dataConn) send() error {
	for l.gone < l.told {
		p := &l.pushes[l.gone]
		if !l.sending {
			if err := l.bulk.BeginSend(l.pushed, p.bytes); err != nil {
				return err
			}
			l.pushed++
			l.sending = true
		}
		if done, err := l.bulk.ProgressSend(); err != nil || !done {
			return err
		}
		l.gone++
		l.sending = false
	}
	return nil
}

// receive goes on with the pulls that the worker knows of.
func (l *dataConn) receive() error {
	for l.asked > 0 {
		p := &l.pulls[0]
		if !l.receiving {
			if err := l.bulk.BeginRecv(l.pulled, p.bytes); err != nil {
				return err
			}
			l.receiving = true
		}
		if _, done, err := l.bulk.ProgressRecv(); err != nil || !done {
			return err
		}
		l.pulled++
		l.receiving = false
		l.came = append(l.came, p.handle)
		p.block.Release()
		l.pulls = l.pulls[:copy(l.pulls, l.pulls[1:])]
		l.asked--
	}
	return nil
}

// listen takes the worker's words on what came.
func (l *dataConn) listen() error {
	for {
		m, ok, err := l.conn.TryRecv()
		if err != nil || !ok {
			return err
		}
		var t wire.Transfer
		err = wire.Parse(m.Body, &t)
		kind := m.Kind
		l.conn.Release()
		switch {
		case err != nil:
		case kind != wire.KindPushed:
			err = fmt.Errorf("unexpected %s (kind %d)", wire.KindName(kind), kind)
		case l.gone == 0 || l.pushes[0].handle != t.Handle:
			err = fmt.Errorf("a word that %v came, out of turn", t.Handle)
		default:
			l.pushes[0].block.Release()
			l.pushes = l.pushes[:copy(l.pushes, l.pushes[1:])]
			l.told--
			l.gone--
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
		}
	}
}

// close closes the connection, which wakes a goroutine that waits for it.
func (l *dataConn) close() {
	if l != nil && l.conn != nil {
		_ = l.conn.Close()
	}
}

// forget gives up what was on its way, after close.
func (l *dataConn) forget() {
	if l == nil {
		return
	}
	for _, all := range [][]moving{l.pushes, l.pulls} {
		for _, m := range all {
			m.block.Release()
		}
	}
	l.pushes, l.pulls = nil, nil
}
