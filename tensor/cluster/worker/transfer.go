package worker

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// maxArriving bounds the bytes of one session's uploads that arrived and that no Run has
// made a value of yet. Clients send less ahead, but for a single upload that is larger.
const maxArriving = 4 << 30

// arrival is an upload that came over a data connection.
type arrival struct {
	handle wire.Handle
	block  *shm.Block // nil if there was no memory for it
	err    error      // why there was none
}

// outgoing is a result that the client has requested.
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

// step moves the bytes that can be moved now. An error ends the connection.
func (d *dataConn) step() error {
	for {
		worked := false
		for _, part := range []func() (bool, error){d.listen, d.receive, d.acknowledge, d.send} {
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

// listen receives the client's requests while there is room for more.
func (d *dataConn) listen() (worked bool, err error) {
	for d.incoming == nil && len(d.outgoing) < maxPulls {
		m, ok, err := d.conn.TryRecv()
		if err != nil || !ok {
			return worked, err
		}
		worked = true
		var t wire.Transfer
		err = wire.Parse(m.Body, &t)
		kind, files := m.Kind, m.Files
		d.conn.Release()
		ipc.CloseFiles(files)
		switch {
		case err != nil:
		case kind == wire.KindPush:
			err = d.push(t.Handle)
		case kind == wire.KindPull:
			err = d.pull(t.Handle)
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
func (d *dataConn) push(h wire.Handle) error {
	if h.Len == 0 || h.Len > maxPush {
		return fmt.Errorf("upload of %d bytes, expected 1 to %d", h.Len, uint64(maxPush))
	}
	a, err := d.expect(h)
	if err != nil {
		return err
	}
	d.incoming = a
	if a.block != nil {
		return d.bulk.BeginRecv(d.pushes, a.block.Bytes()[:h.Len])
	}
	if d.drained == nil {
		d.drained = make([]byte, drain)
	}
	var parts [][]byte
	for left := h.Len; left > 0; left -= min(left, drain) {
		parts = append(parts, d.drained[:min(left, drain)])
	}
	return d.bulk.BeginRecv(d.pushes, parts...)
}

// expect allocates memory for an upload, or notes the error. An older upload of the same
// handle is one that the client gave up.
func (d *dataConn) expect(h wire.Handle) (*arrival, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropArrival(h)
	if len(d.arrivals) >= 2*wire.MaxUploads {
		return nil, fmt.Errorf("%d uploads that no run takes, at most %d", len(d.arrivals), 2*wire.MaxUploads)
	}
	a := &arrival{handle: h}
	if len(d.arrivals) >= wire.MaxUploads || h.Len > maxArriving-min(d.arrivedB, maxArriving) {
		a.err = fmt.Errorf("%w: upload of %d bytes, while %d uploads of %d bytes wait for their run",
			tensor.ErrNoSpace, h.Len, len(d.arrivals), d.arrivedB)
		return a, nil
	}
	var err error
	if a.block, err = d.arena.Alloc(int(h.Len)); err != nil {
		a.err = fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		return a, nil
	}
	d.arrivedB += h.Len
	return a, nil
}

// receive goes on with the upload that is arriving.
func (d *dataConn) receive() (worked bool, err error) {
	if d.incoming == nil {
		return false, nil
	}
	_, done, err := d.bulk.ProgressRecv()
	if err != nil || !done {
		return false, err
	}
	a := d.incoming
	d.incoming = nil
	d.pushes++
	d.acks = append(d.acks, a.handle)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrivals[a.handle] = a
	return true, nil
}

// acknowledge tells the client which uploads have arrived.
func (d *dataConn) acknowledge() (worked bool, err error) {
	for len(d.acks) > 0 {
		body := wire.Append(nil, &wire.Transfer{Session: d.session, Handle: d.acks[0]})
		err := ipc.TrySend(d.conn, ipc.Message{Kind: wire.KindPushed, Body: body})
		if errors.Is(err, ipc.ErrFull) {
			return worked, nil
		}
		if err != nil {
			return worked, err
		}
		d.acks, worked = d.acks[1:], true
	}
	return worked, nil
}

// pull notes that the client wants a result. The result is leased to the client, so that
// it stays.
func (d *dataConn) pull(h wire.Handle) error {
	b, err := d.arena.Leased(h, d.session)
	if err != nil {
		return fmt.Errorf("result requested: %w", err)
	}
	if h.Len == 0 || h.Len > uint64(b.Len()) {
		b.Release()
		return fmt.Errorf("%d bytes requested of a result of %d", h.Len, b.Len())
	}
	d.outgoing = append(d.outgoing, outgoing{b, int(h.Len)})
	return nil
}

// send goes on with the results that the client requested.
func (d *dataConn) send() (worked bool, err error) {
	for len(d.outgoing) > 0 {
		o := d.outgoing[0]
		if !d.sending {
			if err := d.bulk.BeginSend(d.pulls, o.block.Bytes()[:o.bytes]); err != nil {
				return worked, err
			}
			d.sending = true
		}
		done, err := d.bulk.ProgressSend()
		if err != nil || !done {
			return worked, err
		}
		o.block.Release()
		d.outgoing, d.sending, worked = d.outgoing[1:], false, true
		d.pulls++
	}
	return worked, nil
}

// open returns the block of an upload. The error is errProtocol if the upload did not
// arrive.
func (d *dataConn) open(u *wire.Upload, n int) (*shm.Block, error) {
	h := u.Handle
	if u.Lies() { // of such an upload the client sends this worker's part
		if n == 0 {
			return nil, nil
		}
		h.Len = uint64(n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.arrivals[h]
	if a == nil {
		return nil, fmt.Errorf("%w: a run with an upload that has not arrived, %v", errProtocol, h)
	}
	b := a.block
	if b != nil {
		b.Retain()
	}
	d.dropArrival(h)
	return b, a.err
}

// dropArrival forgets an upload. The caller holds mu.
func (d *dataConn) dropArrival(h wire.Handle) {
	a := d.arrivals[h]
	delete(d.arrivals, h)
	if a != nil && a.block != nil {
		d.arrivedB -= h.Len
		a.release()
	}
}
