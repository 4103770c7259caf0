package worker

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// maxArriving bounds the bytes of one session's uploads that came over its link and that no Run has made a value of
// yet. Clients are ahead by less, but for a single upload that is larger.
const maxArriving = 4 << 30

// arrival is an upload of a client that shares no memory with us.
type arrival struct {
	handle wire.Handle
	block  *shm.Block // nil when there was no memory for it
	err    error      // why there was none
}

// outgoing is a result that a client has asked for.
type outgoing struct {
	block *shm.Block
	bytes int
}

func (a *arrival) release() {
	if a.block != nil {
		a.block.Release()
		a.block = nil
	}
}

// step moves what can be moved now. An error ends the link.
func (l *link) step() error {
	for {
		worked := false
		for _, part := range []func() (bool, error){l.listen, l.receive, l.acknowledge, l.send} {
			w, err := part()
			if err != nil {
				return err
			}
			worked = worked || w
		}
		if !worked {
			return nil
		}
	}
}

// listen takes what the client asks for, while there is room for more of it.
func (l *link) listen() (worked bool, err error) {
	for l.incoming == nil && len(l.outgoing) < maxPulls {
		m, ok, err := l.conn.TryRecv()
		if err != nil || !ok {
			return worked, err
		}
		worked = true
		var t wire.Transfer
		err = wire.ParseTransfer(m.Body, &t)
		kind, files := m.Kind, m.Files
		l.conn.Release()
		ipc.CloseFiles(files)
		switch {
		case err != nil:
		case kind == wire.KindPush:
			err = l.push(t.Handle)
		case kind == wire.KindPull:
			err = l.pull(t.Handle)
		default:
			err = fmt.Errorf("unexpected %s (kind %d)", wire.KindName(kind), kind)
		}
		if err != nil {
			return true, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
		}
	}
	return worked, nil
}

// push begins to receive an upload.
func (l *link) push(h wire.Handle) error {
	if h.Len == 0 || h.Len > maxPush {
		return fmt.Errorf("an upload of %d bytes, expected 1 to %d", h.Len, uint64(maxPush))
	}
	a, err := l.expect(h)
	if err != nil {
		return err
	}
	l.incoming = a
	if a.block != nil {
		return l.bulk.BeginRecv(l.pushes, a.block.Bytes()[:h.Len])
	}
	if l.drained == nil {
		l.drained = make([]byte, drain)
	}
	var parts [][]byte
	for left := h.Len; left > 0; left -= min(left, drain) {
		parts = append(parts, l.drained[:min(left, drain)])
	}
	return l.bulk.BeginRecv(l.pushes, parts...)
}

// expect has room for an upload, or the reason why not. An older one of that name is what a client gave up.
func (l *link) expect(h wire.Handle) (*arrival, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropArrival(h)
	if len(l.arrivals) >= 2*wire.MaxUploads {
		return nil, fmt.Errorf("%d uploads that no run takes", len(l.arrivals))
	}
	a := &arrival{handle: h}
	if len(l.arrivals) >= wire.MaxUploads || h.Len > maxArriving-min(l.arrivedB, maxArriving) {
		a.err = fmt.Errorf("%w: an upload of %d bytes, %d uploads of %d bytes wait for their run",
			tensor.ErrNoSpace, h.Len, len(l.arrivals), l.arrivedB)
		return a, nil
	}
	var err error
	if a.block, err = l.w.dev.Arena().Alloc(int(h.Len)); err != nil {
		a.err = fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		return a, nil
	}
	l.arrivedB += h.Len
	return a, nil
}

// receive goes on with the upload that is coming.
func (l *link) receive() (worked bool, err error) {
	if l.incoming == nil {
		return false, nil
	}
	_, done, err := l.bulk.ProgressRecv()
	if err != nil || !done {
		return false, err
	}
	a := l.incoming
	l.incoming = nil
	l.pushes++
	l.acks = append(l.acks, a.handle)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals[a.handle] = a
	return true, nil
}

// acknowledge tells the client what has come.
func (l *link) acknowledge() (worked bool, err error) {
	for len(l.acks) > 0 {
		buf, err := l.conn.TryReserve(wire.KindPushed, wire.TransferBytes)
		if errors.Is(err, ipc.ErrFull) {
			return worked, nil
		}
		if err != nil {
			return worked, err
		}
		wire.AppendTransfer(buf[:0], &wire.Transfer{Session: l.session, Handle: l.acks[0]})
		if err := l.conn.Commit(); err != nil {
			return worked, err
		}
		l.acks, worked = l.acks[1:], true
	}
	return worked, nil
}

// pull notes that the client wants a result. It is leased to it, so that it stays.
func (l *link) pull(h wire.Handle) error {
	b, err := l.w.dev.Arena().Leased(h, l.session)
	if err != nil {
		return fmt.Errorf("a result that is wanted: %w", err)
	}
	if h.Len == 0 || h.Len > uint64(b.Len()) {
		b.Release()
		return fmt.Errorf("%d bytes wanted of a result of %d", h.Len, b.Len())
	}
	l.outgoing = append(l.outgoing, outgoing{b, int(h.Len)})
	return nil
}

// send goes on with the results that were asked for.
func (l *link) send() (worked bool, err error) {
	for len(l.outgoing) > 0 {
		o := l.outgoing[0]
		if !l.sending {
			if err := l.bulk.BeginSend(l.pulls, o.block.Bytes()[:o.bytes]); err != nil {
				return worked, err
			}
			l.sending = true
		}
		done, err := l.bulk.ProgressSend()
		if err != nil || !done {
			return worked, err
		}
		o.block.Release()
		l.outgoing, l.sending, worked = l.outgoing[1:], false, true
		l.pulls++
	}
	return worked, nil
}

// arrived returns the block of an upload, of which the caller has a reference, and the reason if there is none: errProtocol if it did
// not come.
func (l *link) arrived(h wire.Handle) (*shm.Block, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.arrivals[h]
	if a == nil {
		return nil, fmt.Errorf("%w: a run with an upload that has not come, %v", errProtocol, h)
	}
	b := a.block
	if b != nil {
		b.Retain()
	}
	l.dropArrival(h)
	return b, a.err
}

// dropArrival forgets an upload of which no value is made. mu is held.
func (l *link) dropArrival(h wire.Handle) {
	a := l.arrivals[h]
	delete(l.arrivals, h)
	if a != nil && a.block != nil {
		l.arrivedB -= h.Len
		a.release()
	}
}
