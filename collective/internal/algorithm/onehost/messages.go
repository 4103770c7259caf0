package onehost

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
)

// # Messages between two ranks
//
// A message lies in the sender's page, in a ring of those to one rank. Longer contents
// lie in a block of the sender's registered memory. So a send does not wait for its
// receive, unless messages of them are under way to that rank: two ranks may both send
// first, whatever the size. Messages have nothing to do with epochs.
//
//  1. The sender fills the message and stores its number last (release).
//  2. The receiver loads the number (acquire), copies the bytes, and stores in its own
//     page how many messages of that sender it has taken (release).
//  3. The sender loads that count (acquire) and frees the blocks of those messages.
//
// The number counts from 1 for each receiver; the message k lies in place k mod messages:
//
//	 0  number u64
//	 8  hash u64     of the call
//	16  length u64
//	24  location u64 of more than messageText bytes
//	32  call         protocol.CallBytes
//	72  text         messageText bytes
const (
	messages    = 8
	messageSize = 128
	messageText = messageSize - 72
)

// ack returns the number of messages from a rank that the owner of the page has taken.
func (p *page) ack(from int) *uint64 { return word64(p.mem, p.shape.acks+from*apart) }

// message returns the place of the number-th message to a rank.
func (p *page) message(to int, number uint64) []byte {
	return stretch(p.mem, p.shape.messages+(to*messages+int(number%messages))*messageSize, messageSize)
}

// send sends b to another rank, which receives as many bytes. Messages between two ranks
// arrive in order.
func (c *exchange) send(to int, b []byte) error {
	p := &c.peers[to]
	number := p.sent + 1
	acked := p.ack(c.rank)
	if number > messages {
		if err := c.waitFor(awaited{word: acked, want: number - messages, rank: to, atLeast: true}); err != nil {
			return err
		}
	}
	if err := c.reclaim(to, atomic.LoadUint64(acked)); err != nil {
		return err
	}
	m := c.self.message(to, number)
	le := binary.LittleEndian
	var block *shm.Block
	if len(b) <= messageText {
		copy(m[72:], b)
	} else {
		var err error
		if block, err = c.memory.block(len(b)); err != nil {
			return c.kill(&protocol.PeerError{Rank: c.rank, Call: *c.call, Err: err})
		}
		c.fold.Copy(block.Bytes()[:len(b)], b)
		le.PutUint64(m[24:], c.memory.find(block.Bytes()[:len(b)]))
	}
	p.lent = append(p.lent, block)
	le.PutUint64(m[8:], c.hash)
	le.PutUint64(m[16:], uint64(len(b)))
	c.call.Append(m[32:32])
	p.sent = number
	storeRelease(word64(m, 0), number)
	p.bell.Ring()
	return nil
}

// reclaim frees what the first n messages to rank p held.
func (c *exchange) reclaim(p int, n uint64) error {
	peer := &c.peers[p]
	if n > peer.sent {
		return c.corrupt(p, fmt.Errorf("%d messages acknowledged of %d", n, peer.sent))
	}
	for uint64(len(peer.lent)) > peer.sent-n {
		if b := peer.lent[0]; b != nil {
			b.Release()
		}
		peer.lent = peer.lent[1:]
	}
	return nil
}

// recv receives what another rank sends to this one, which is len(b) bytes.
func (c *exchange) recv(from int, b []byte) error {
	p := &c.peers[from]
	m := p.message(c.rank, p.received+1)
	if err := c.waitFor(awaited{word: word64(m, 0), want: p.received + 1, rank: from}); err != nil {
		return err
	}
	le := binary.LittleEndian
	if hash := le.Uint64(m[8:]); hash != c.hash {
		return c.kill(c.mismatch(from, m[32:72], uint32(hash>>32)))
	}
	if n := le.Uint64(m[16:]); n != uint64(len(b)) {
		return c.kill(&protocol.PeerError{Rank: from, Call: *c.call,
			Err: fmt.Errorf("%w: it sent %d bytes, this rank receives %d", protocol.ErrMismatch, n, len(b))})
	}
	text := m[72:]
	if len(b) > messageText {
		var err error
		if text, err = c.memory.at(from, le.Uint64(m[24:]), len(b)); err != nil {
			return err
		}
	}
	c.fold.Copy(b, text[:len(b)])
	p.received++
	storeRelease(c.self.ack(from), p.received)
	p.bell.Ring()
	return nil
}
