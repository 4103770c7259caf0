package host

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// hello is the first message between two ranks; the page's descriptor comes with it.
//
//	byte 0        4      8    12      16             24
//	    | version | rank | to | ranks | hash of options | bytes of the page |     little endian
const helloBytes = 32

// agreed is the hash of what all ranks must have alike.
func (c *Comm) agreed() uint64 {
	staged := 0
	if c.staged {
		staged = 1
	}
	return plan.HashCounts(append([]int{c.flat, c.chunk, staged}, c.fold.groups...))
}

// greet exchanges pages with everybody. A timeout that is short for calls does not bound it: ranks join when they are ready.
func (c *Comm) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.timeout, DefaultTimeout))
	defer cancel()
	le := binary.LittleEndian
	var lost error // the first that could not be greeted: the others are all the same, so that they find who is missing, not this rank
	for p, conn := range c.conns {
		if p == c.rank {
			continue
		}
		b, err := conn.Reserve(ctx, kindHello, helloBytes)
		if err == nil {
			le.PutUint32(b, pageVersion)
			le.PutUint32(b[4:], uint32(c.rank))
			le.PutUint32(b[8:], uint32(p))
			le.PutUint32(b[12:], uint32(c.n))
			le.PutUint64(b[16:], c.agreed())
			le.PutUint64(b[24:], uint64(c.seg.Size()))
			err = conn.Commit(c.seg.File())
		}
		if err != nil && lost == nil {
			lost = &plan.PeerError{Rank: p, Err: fmt.Errorf("%w: greeting: %w", lostOrLate(err), err)}
		}
	}
	if lost != nil {
		return lost
	}
	for p, conn := range c.conns {
		if p == c.rank {
			continue
		}
		m, err := conn.Recv(ctx)
		if err != nil {
			return &plan.PeerError{Rank: p, Err: fmt.Errorf("%w: waiting for its greeting: %w", lostOrLate(err), err)}
		}
		err = c.greeted(p, m)
		conn.Release()
		if err != nil {
			return &plan.PeerError{Rank: p, Err: err}
		}
	}
	if c.n == 2 {
		c.two = shareLine(c.peers, c.rank)
	}
	return nil
}

// greeted judges the greeting of p and maps its page.
func (c *Comm) greeted(p int, m ipc.Message) error {
	if m.Kind != kindHello || len(m.Body) != helloBytes || len(m.Files) != 1 {
		ipc.CloseFiles(m.Files)
		return fmt.Errorf("%w: %w: greeting of kind %#x with %d bytes and %d files, expected %#x, %d and 1", plan.ErrPeerLost,
			ipc.ErrCorrupt, m.Kind, len(m.Body), len(m.Files), kindHello, helloBytes)
	}
	le := binary.LittleEndian
	for _, field := range []struct {
		what      string
		want, got uint64
	}{
		{"version", pageVersion, uint64(le.Uint32(m.Body))},
		{"rank", uint64(p), uint64(le.Uint32(m.Body[4:]))},
		{"the rank it talks to", uint64(c.rank), uint64(le.Uint32(m.Body[8:]))},
		{"number of ranks", uint64(c.n), uint64(le.Uint32(m.Body[12:]))},
		{"hash of the options Flat, Chunk, Staged and Fold", c.agreed(), le.Uint64(m.Body[16:])},
		{"size of the page", uint64(c.seg.Size()), le.Uint64(m.Body[24:])},
	} {
		if field.want != field.got {
			ipc.CloseFiles(m.Files)
			return fmt.Errorf("%w: %s is %d there, expected %d", plan.ErrMismatch, field.what, field.got, field.want)
		}
	}
	s, err := mapFile(m.Files[0], uint64(p), c.seg.Size(), &shm.Options{Sealed: true, Prefault: true})
	if err != nil {
		return fmt.Errorf("%w: its page: %w", plan.ErrPeerLost, err)
	}
	c.peers[p].seg = s
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	if c.peers[p].page, err = attach(s.Bytes(), c.own.shape, p, futex); err != nil {
		return fmt.Errorf("%w: its page: %w", plan.ErrPeerLost, err)
	}
	return nil
}
