package crosshost

import (
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// # Sends that cross
//
// A Send is done when the peer's sockets have taken all of it. So two ranks that send
// each other more than sockets hold, and receive only then, would wait for each other.
// Therefore:
//
//  1. A Send that does not get through says so (protocol.Waiting, with its length and its
//     place among the transfers of that direction).
//  2. A rank that reads this while it is itself in a Send takes the transfer into memory
//     of its own.
//  3. Its Recv finds it there. The data of a Send that is received in time is never
//     copied.

// maxEarly is the most bytes that a comm holds of Sends that were not received yet.
const maxEarly = 1 << 30

// push sends the pieces of the call to rank p until the socket takes no more.
func (c *engine) push(p int, l *peer) *protocol.PeerError {
	for l.sent < l.sends && l.broken == nil {
		if !l.sending {
			b, ok := c.job.send(p, l.sent)
			if !ok {
				return nil
			}
			l.out[0], l.size[0] = b, uint64(len(b))
			if err := l.bulk.BeginSend(c.hash, l.out[:]...); err != nil {
				return c.transferFailed(p, l, err)
			}
			l.sending = true
			l.outIndex++
		}
		done, err := l.bulk.ProgressSend()
		if err != nil {
			return c.transferFailed(p, l, err)
		}
		if !done {
			if c.call.Kind == protocol.Send && l.asked != l.outIndex {
				l.asked = l.outIndex
				c.ask(p)
			}
			return nil
		}
		l.sending, l.out[0] = false, nil
		l.sent++
		c.moves++
		c.stats.sentBytes.Add(l.size[0])
	}
	return nil
}

// pull receives the pieces that have arrived from rank p.
func (c *engine) pull(p int, l *peer) *protocol.PeerError {
	for (l.rcvd < l.recvs || l.receiving) && l.broken == nil {
		if len(l.early) > 0 && l.early[0].done && l.rcvd < l.recvs {
			if ok, e := c.takeEarly(p, l); !ok {
				return e
			}
			continue
		}
		if !l.receiving {
			b, ok := c.job.recv(p, l.rcvd)
			if !ok {
				return nil
			}
			if err := c.beginRecv(l, c.hash, b); err != nil {
				return c.transferFailed(p, l, err)
			}
		}
		got, done, err := l.bulk.ProgressRecv()
		if err != nil {
			return c.transferFailed(p, l, err)
		}
		if got != l.got {
			l.got = got
			l.arrived++
			c.moves++
		}
		if !done {
			return nil
		}
		l.receiving, l.in[0] = false, nil
		c.moves++
		c.stats.recvBytes.Add(l.size[1])
		if k := len(l.early); k > 0 && !l.early[k-1].done {
			l.early[k-1].done = true
			continue
		}
		l.rcvd++
	}
	return nil
}

// beginRecv begins to receive a piece of the call with that hash.
func (c *engine) beginRecv(l *peer, hash uint64, b []byte) error {
	l.in[0], l.size[1], l.got = b, uint64(len(b)), 0
	if err := l.bulk.BeginRecv(hash, l.in[:]...); err != nil {
		return err
	}
	l.receiving = true
	l.inIndex++
	return nil
}

// transferFailed returns the call's error for an error of the bulk transfers with rank p.
// It is nil while a message of p that was not read yet may give the reason.
func (c *engine) transferFailed(p int, l *peer, err error) *protocol.PeerError {
	if mismatch := (*ipc.BulkMismatchError)(nil); errors.As(err, &mismatch) {
		return &protocol.PeerError{Rank: p, Call: c.call, Err: fmt.Errorf("%w (%v)", &protocol.MismatchError{Ours: c.call}, err)}
	}
	if errors.Is(err, ipc.ErrPeerGone) && l.gone == nil {
		// A message of p, on the other socket, may give the reason: read those first.
		l.broken, l.brokenAt = err, c.tick
		return nil
	}
	return c.lost(p, err)
}

// takeIn begins to receive the Send of rank p that n announces, if this rank is in a Send
// too.
func (c *engine) takeIn(p int, l *peer, n protocol.Notice) *protocol.PeerError {
	if c.job == nil || c.call.Kind != protocol.Send || l.receiving || n.Index != l.inIndex || n.Bytes > uint64(maxEarly-c.earlyBytes) {
		return nil
	}
	e := &early{call: n.Call, buf: make([]byte, n.Bytes)}
	if err := c.beginRecv(l, n.Call.Hash(), e.buf); err != nil {
		return c.transferFailed(p, l, err)
	}
	c.earlyBytes += len(e.buf)
	l.early = append(l.early, e)
	return nil
}

// takeEarly copies the oldest early piece of p into the buffer of the call. It returns
// false if the call has no buffer for it yet, or expects another piece.
func (c *engine) takeEarly(p int, l *peer) (bool, *protocol.PeerError) {
	b, ok := c.job.recv(p, l.rcvd)
	if !ok {
		return false, nil
	}
	e := l.early[0]
	if e.call.Hash() != c.hash || len(e.buf) != len(b) {
		return false, c.differ(p, c.call, e.call)
	}
	kernel.Copy(b, e.buf)
	c.earlyBytes -= len(e.buf)
	l.early[0] = nil
	l.early = l.early[1:]
	l.rcvd++
	c.moves++
	return true, nil
}
