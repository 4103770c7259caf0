package client

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/shm"
)

// maxReads is how many parts of results are asked for ahead: enough for the way there and back, and little enough for the
// queues on it.
const maxReads = 4

// pull is a result on its way from a worker that shares no memory with us.
type pull struct {
	handle wire.Handle
	block  *shm.Block
	asked  uint64 // bytes that were asked for
	have   uint64 // bytes that have come
}

// push sends the uploads of e.run to a worker that shares no memory with us.
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
		err = e.pushBlock(ctx, u.Handle, b.Bytes())
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) pushBlock(ctx context.Context, h wire.Handle, src []byte) error {
	for off := 0; off < len(src); off += wire.MaxPart {
		m := wire.Data{Handle: h, Off: uint64(off), Part: src[off:min(off+wire.MaxPart, len(src))]}
		if err := e.send(ctx, wire.KindData, m.Size(), func(dst []byte) []byte { return wire.AppendData(dst, &m) }); err != nil {
			return err // what has arrived is forgotten when the block is sent again
		}
	}
	return nil
}

// uploaded says that e.run has an upload of this block already.
func (e *Engine) uploaded(h wire.Handle) bool {
	for i := range e.run.Uploads[:len(e.run.Uploads)-1] {
		if u := &e.run.Uploads[i]; u.Inline == nil && u.Handle == h {
			return true
		}
	}
	return false
}

// expect has a result of the worker's read into a block of ours.
func (e *Engine) expect(h wire.Handle) (*shm.Block, error) {
	b, err := e.arena.Alloc(int(h.Len))
	if err != nil {
		return nil, err
	}
	b.Retain() // until it is there
	e.pulls = append(e.pulls, pull{handle: h, block: b})
	return b, nil
}

// pullAll waits for all results that are expected. The worker's blocks are given back in any case.
func (e *Engine) pullAll(ctx context.Context) error {
	var err error
	for first := 0; first < len(e.pulls) && err == nil; {
		if err = e.askAhead(ctx, first); err == nil {
			err = e.receive(ctx)
		}
		for first < len(e.pulls) && e.pulls[first].have == e.pulls[first].handle.Len {
			first++
		}
	}
	e.rmu.Lock()
	for _, p := range e.pulls {
		e.returns = append(e.returns, p.handle)
	}
	e.rmu.Unlock()
	for _, p := range e.pulls {
		for have := p.have; have < p.asked; have += wire.MaxPart {
			e.stray++ // answers that will find nobody
		}
		p.block.Release()
	}
	e.pulls = e.pulls[:0]
	return err
}

// askAhead asks for the next parts, in order, while not too many are under way.
func (e *Engine) askAhead(ctx context.Context, first int) error {
	under := 0
	for i := first; i < len(e.pulls); i++ {
		p := &e.pulls[i]
		under += int((p.asked - p.have + wire.MaxPart - 1) / wire.MaxPart)
		for ; p.asked < p.handle.Len; under++ {
			if under >= maxReads {
				return nil
			}
			m := wire.Read{Handle: p.handle, Off: p.asked, Bytes: uint32(min(wire.MaxPart, p.handle.Len-p.asked))}
			if err := e.send(ctx, wire.KindRead, m.Size(), func(dst []byte) []byte { return wire.AppendRead(dst, &m) }); err != nil {
				return err
			}
			p.asked += uint64(m.Bytes)
		}
	}
	return nil
}

// data takes a part of a result. They come as they were asked for.
func (e *Engine) data(src []byte) error {
	var m wire.Data
	if err := wire.ParseData(src, &m); err != nil {
		return err
	}
	if e.stray > 0 {
		e.stray--
		return nil
	}
	for i := range e.pulls {
		p := &e.pulls[i]
		if p.have == p.handle.Len {
			continue
		}
		if want := min(wire.MaxPart, p.handle.Len-p.have); m.Handle != p.handle || m.Off != p.have || p.have == p.asked || uint64(len(m.Part)) != want {
			break
		}
		copy(p.block.Bytes()[p.have:], m.Part)
		p.have += uint64(len(m.Part))
		return nil
	}
	return fmt.Errorf("%d bytes at %d of %v, which were not asked for", len(m.Part), m.Off, m.Handle)
}
