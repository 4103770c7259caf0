package worker

import (
	"fmt"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/transfer"
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

func (a *arrival) release() {
	if a.block != nil {
		a.block.Release()
		a.block = nil
	}
}

// step moves the bytes that can be moved now. An error ends the connection.
func (d *dataConn) step() error {
	for {
		worked, err := d.conn.Step()
		if err != nil {
			return err
		}
		if d.conn.Recv.Moved > 0 {
			d.arrived()
		}
		for d.conn.Send.Moved > 0 {
			d.conn.Send.Drop()
		}
		heard := false
		if d.incoming == nil && len(d.conn.Send.Blocks) < maxPulls {
			if heard, err = d.conn.Hear(d.heed); err != nil {
				return err
			}
		}
		if !worked && !heard {
			return nil
		}
	}
}

// heed handles a request of the client.
func (d *dataConn) heed(kind uint32, h wire.Handle) error {
	switch kind {
	case wire.KindPush:
		return d.push(h)
	case wire.KindPull:
		return d.pull(h)
	}
	return fmt.Errorf("unexpected %s (kind %d)", wire.KindName(kind), kind)
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
	b := transfer.Block{Handle: h}
	if a.block != nil {
		b.Parts = [][]byte{a.block.Bytes()[:h.Len]}
	} else {
		if d.drained == nil {
			d.drained = make([]byte, drain)
		}
		for left := h.Len; left > 0; left -= min(left, drain) {
			b.Parts = append(b.Parts, d.drained[:min(left, drain)])
		}
	}
	d.conn.Recv.Add(b)
	return nil
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

// arrived keeps the upload that has arrived, and tells the client.
func (d *dataConn) arrived() {
	a := d.incoming
	d.incoming = nil
	d.conn.Recv.Drop()
	d.conn.Say(wire.KindPushed, a.handle)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrivals[a.handle] = a
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
	d.conn.Send.Add(transfer.Block{Handle: h, Memory: b, Parts: [][]byte{b.Bytes()[:h.Len]}})
	return nil
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
