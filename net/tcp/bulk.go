package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// A transfer is a header, the parts, and unless they are empty a trailer.
//
//	header   magic uint32, tag uint64, bytes of the parts uint64, sum of the stream uint32
//	trailer  sum of the stream uint32
const (
	bulkMagic   = 'R' | 'S'<<8 | 'T'<<16 | 'B'<<24
	bulkHeader  = 24
	bulkTrailer = 4
)

var _ ipc.Bulk = (*conn)(nil)

// bulk is the second socket. Its sender and its receiver are two goroutines, or one; the
// waiter's looks at wants, and the poller's at armed.
type bulk struct {
	conn   *conn
	sock   socket
	id     uint32 // at the poller
	forget func() // no more calls of parking
	paced  bool   // until the first large send to a near peer; the sender's

	sent, received atomic.Uint32 // bytes, modulo 2^32

	wants atomic.Uint32 // the events that an unfinished transfer waits for
	armMu sync.Mutex
	armed uint32 // the events that the poller was asked for and has not told of yet

	failed atomic.Pointer[error] // the first error
	send   outTransfer
	recv   inTransfer
}

// transfer is one under way, in either direction.
type transfer struct {
	stream  stream // of the direction
	busy    bool
	header  [bulkHeader]byte
	trailer [bulkTrailer]byte
	parts   [][]byte // not empty ones
	total   int64    // bytes of the parts
	moved   int64    // of header, parts and trailer
	at      cursor   // of moved
	iov     []unix.Iovec
}

type outTransfer struct {
	transfer
	summed cursor
	ahead  int // bytes that are summed and not sent
}

type inTransfer struct {
	transfer
	tag     uint64
	checked bool // the header is what was expected
}

// cursor is a place in a list of parts.
type cursor struct {
	part   int // the first that is not done
	offset int // bytes of it which are
}

// next moves on by at most n bytes of one part and returns them.
func (c *cursor) next(parts [][]byte, n int) []byte {
	b := parts[c.part][c.offset:]
	if len(b) > n {
		c.offset += n
		return b[:n]
	}
	c.part, c.offset = c.part+1, 0
	return b
}

// open registers the socket. It stays the caller's on error.
func (b *bulk) open(c *conn) (err error) {
	b.conn = c
	b.paced = b.sock.bound()
	if b.id, err = c.poller.add(&b.sock, target{fire: b.fired}); err != nil {
		return err
	}
	forget := c.data.OnPark(b.parking)
	b.forget = func() {
		forget()
		c.poller.remove(b.id)
	}
	return nil
}

// close is for our own end: what was written is still sent.
func (b *bulk) close() { b.sock.shutdown(unix.SHUT_WR) }

// start prepares a transfer. The memory of the last one's lists is used again.
func (t *transfer) start(parts [][]byte) {
	t.busy, t.total, t.moved, t.at = true, 0, 0, cursor{}
	t.parts = t.parts[:0]
	for _, p := range parts {
		if len(p) > 0 {
			t.parts = append(t.parts, p)
			t.total += int64(len(p))
		}
	}
}

// size returns the bytes of all of it.
func (t *transfer) size() int64 {
	if t.total == 0 {
		return bulkHeader
	}
	return bulkHeader + t.total + bulkTrailer
}

// gather describes to the kernel what is left of it, with at most room bytes of the
// parts.
func (t *transfer) gather(room int) (iov []unix.Iovec, total int) {
	iov = t.iov[:0]
	if t.moved < bulkHeader {
		iov = append(iov, iovec(t.header[t.moved:]))
		total = int(bulkHeader - t.moved)
	}
	at := t.at
	for at.part < len(t.parts) && len(iov) < maxIovecs && room > 0 {
		b := at.next(t.parts, room)
		iov = append(iov, iovec(b))
		total += len(b)
		room -= len(b)
	}
	if at.part == len(t.parts) && t.total > 0 && len(iov) < maxIovecs {
		b := t.trailer[max(0, t.moved-bulkHeader-t.total):]
		iov = append(iov, iovec(b))
		total += len(b)
	}
	t.iov = iov
	return iov, total
}

// part returns how many of the next n bytes belong to the header, and how many to the
// parts.
func (t *transfer) part(n int) (header, parts int) {
	header = int(min(max(0, bulkHeader-t.moved), int64(n)))
	return header, int(min(int64(n-header), max(0, bulkHeader+t.total-t.moved-int64(header))))
}

// head makes the header.
func (t *outTransfer) head(tag uint64) {
	t.summed, t.ahead = cursor{}, 0
	binary.LittleEndian.PutUint32(t.header[0:], bulkMagic)
	binary.LittleEndian.PutUint64(t.header[4:], tag)
	binary.LittleEndian.PutUint64(t.header[12:], uint64(t.total))
	t.stream.seal(t.header[:])
}

// next sums what is to be sent next, right before the kernel copies it, and describes it
// to the kernel.
func (t *outTransfer) next() (iov []unix.Iovec, total int) {
	for t.ahead < maxTransfer && t.summed.part < len(t.parts) {
		b := t.summed.next(t.parts, maxTransfer-t.ahead)
		t.ahead += len(b)
		if sum := t.stream.add(b); t.summed.part == len(t.parts) {
			binary.LittleEndian.PutUint32(t.trailer[:], sum)
		}
	}
	return t.gather(t.ahead)
}

// took moves on by n bytes and reports whether all is done.
func (t *outTransfer) took(n int) bool {
	_, parts := t.part(n)
	t.moved += int64(n)
	t.ahead -= parts
	for parts > 0 {
		parts -= len(t.at.next(t.parts, parts))
	}
	return t.moved == t.size()
}

// took moves on by n bytes, checks them and reports whether all is done.
func (t *inTransfer) took(n int, c *conn) (done bool, err error) {
	_, parts := t.part(n)
	t.moved += int64(n)
	if !t.checked && t.moved >= bulkHeader {
		if err := t.check(c); err != nil {
			return false, err
		}
	}
	for parts > 0 {
		b := t.at.next(t.parts, parts)
		t.stream.add(b)
		parts -= len(b)
	}
	if t.moved < t.size() {
		return false, nil
	}
	if sum := binary.LittleEndian.Uint32(t.trailer[:]); t.total > 0 && sum != t.stream.sum {
		return false, c.corrupt(damaged(fmt.Sprintf("bulk transfer of %d bytes", t.total), t.stream.sum, sum))
	}
	return true, nil
}

// end lets go of the caller's memory.
func (t *transfer) end() {
	t.busy = false
	clear(t.parts)
	clear(t.iov)
}

// BeginSend starts sending.
func (c *conn) BeginSend(tag uint64, parts ...[]byte) error {
	t := &c.bulk.send
	if t.busy {
		panic("ipc: BeginSend with a send under way")
	}
	if err := c.bulk.err(); err != nil {
		return err
	}
	t.start(parts)
	if t.total >= largeTransfer && c.bulk.paced {
		c.bulk.paced = false
		c.bulk.sock.unpace()
	}
	t.head(tag)
	_, err := c.ProgressSend()
	return err
}

// ProgressSend writes what the kernel takes.
func (c *conn) ProgressSend() (done bool, err error) {
	b := &c.bulk
	t := &b.send
	if err := b.err(); err != nil {
		t.end()
		return false, err
	}
	for t.busy {
		iov, total := t.next()
		n, err := b.sock.send(iov, total)
		b.sent.Add(uint32(n))
		switch {
		case err == unix.EAGAIN:
			b.want(unix.EPOLLOUT)
			return false, nil
		case err != nil:
			t.end()
			return false, b.fail(err)
		case t.took(n):
			t.end()
			b.unwant(unix.EPOLLOUT)
		case n < total:
			// The kernel took what it had room for; asking again now would say so.
			b.want(unix.EPOLLOUT)
			return false, nil
		}
	}
	return true, nil
}

// BeginRecv starts receiving.
func (c *conn) BeginRecv(tag uint64, parts ...[]byte) error {
	t := &c.bulk.recv
	if t.busy {
		panic("ipc: BeginRecv with a receive under way")
	}
	if err := c.bulk.err(); err != nil {
		return err
	}
	t.start(parts)
	t.tag, t.checked = tag, false
	return nil
}

// ProgressRecv reads what has arrived.
func (c *conn) ProgressRecv() (got int, done bool, err error) {
	b := &c.bulk
	t := &b.recv
	if err := b.err(); err != nil {
		t.end()
		return 0, false, err
	}
	for t.busy {
		iov, total := t.gather(maxTransfer)
		n, err := b.sock.recv(iov, total)
		b.received.Add(uint32(n))
		switch {
		case err == unix.EAGAIN:
			b.want(unix.EPOLLIN)
			return t.got(), false, nil
		case err != nil:
			t.end()
			return 0, false, b.fail(err)
		case n == 0:
			t.end()
			return 0, false, b.fail(c.state.PeerError(ipc.ErrPeerGone))
		}
		finished, err := t.took(n, c)
		if err != nil {
			t.end()
			return 0, false, b.fail(err)
		}
		if finished {
			t.end()
			b.unwant(unix.EPOLLIN)
			break
		}
		if n < total {
			b.want(unix.EPOLLIN)
			return t.got(), false, nil
		}
	}
	return t.got(), true, nil
}

// got is how many bytes of the parts are in place.
func (t *inTransfer) got() int { return int(min(max(0, t.moved-bulkHeader), t.total)) }

// check compares the header with what was expected.
func (t *inTransfer) check(c *conn) error {
	if err := t.stream.opens(t.header[:], "header of a bulk transfer"); err != nil {
		return c.corrupt(err)
	}
	magic := binary.LittleEndian.Uint32(t.header[0:])
	tag, n := binary.LittleEndian.Uint64(t.header[4:]), binary.LittleEndian.Uint64(t.header[12:])
	if magic != bulkMagic || n > math.MaxInt64 {
		return c.corrupt(fmt.Errorf("bulk transfer begins with %#x, expected %#x", magic, uint32(bulkMagic)))
	}
	if tag != t.tag || int64(n) != t.total {
		return &ipc.BulkMismatchError{Peer: c.state.Peer, Tag: t.tag, PeerTag: tag, Bytes: t.total, PeerBytes: int64(n)}
	}
	t.checked = true
	return nil
}

// err is why there can be no more transfers, nil while there can. Of a peer that is gone
// the socket tells, behind what it had sent.
func (b *bulk) err() error {
	if e := b.failed.Load(); e != nil {
		return *e
	}
	if b.conn.state.Load()&(ipc.StateClosed|ipc.StateCorrupt) != 0 {
		return b.conn.Err()
	}
	return nil
}

// fail makes the first error the one of all later calls, and ends the socket, which tells
// the peer.
func (b *bulk) fail(err error) error {
	var open *sealError
	switch {
	case errors.As(err, &open):
		err = b.conn.corrupt(err)
	case errors.Is(err, net.ErrClosed):
		if e := b.conn.Err(); e != nil {
			err = e
		}
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		err = b.conn.state.PeerError(ipc.ErrPeerGone)
	case errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		err = b.conn.state.PeerError(fmt.Errorf("%w: %w", ipc.ErrPeerGone, err))
	case !errors.Is(err, ipc.ErrPeerGone) && !errors.Is(err, ipc.ErrBulkMismatch) && !errors.Is(err, ipc.ErrCorrupt):
		err = b.conn.state.PeerError(fmt.Errorf("bulk socket: %w", err))
	}
	if b.failed.CompareAndSwap(nil, &err) {
		b.sock.shutdown(unix.SHUT_RDWR)
		b.conn.data.Wake()
		b.conn.room.Wake()
	}
	return *b.failed.Load()
}

// want notes that a transfer waits for an event. parking asks the poller for it.
func (b *bulk) want(event uint32) {
	if b.wants.Load()&event == 0 {
		b.wants.Or(event)
	}
}

func (b *bulk) unwant(event uint32) {
	if b.wants.Load()&event != 0 {
		b.wants.And(^event)
	}
}

// parking asks the poller for what is waited for. That is told at once if it is there
// already, so nothing can come between the last look and the sleep.
func (b *bulk) parking() {
	wants := b.wants.Load()
	if wants == 0 {
		return
	}
	b.armMu.Lock()
	defer b.armMu.Unlock()
	if wants&^b.armed == 0 {
		return
	}
	b.armed |= wants
	if b.conn.poller.arm(&b.sock, b.id, b.armed) != nil {
		b.sock.shutdown(unix.SHUT_RDWR) // the next read finds it
		b.conn.data.Wake()
	}
}

// fired is the poller's news.
func (b *bulk) fired() {
	b.armMu.Lock()
	b.armed = 0
	b.armMu.Unlock()
	b.conn.data.Wake()
	if b.conn.room != b.conn.data {
		b.conn.room.Wake()
	}
}
