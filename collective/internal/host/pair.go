package host

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/shm"
)

// Between two ranks
//
// A message is a letter in the sender's page, in the ring of those to one rank; what does not fit into a letter lies in a block
// of the sender's registered memory. So a send does not wait for its receive, unless letters messages are under way to
// that rank: two ranks may both send first, whatever the size. The receiver counts in its own page what it has taken in, and
// the sender frees what that says. Letters have nothing to do with epochs.
//
//	 0  seq u64      counts from 1; the letter is there when it has the number that its place is waited for with
//	 8  word u64     of the call
//	16  length u64
//	24  place u64    of more than letterText bytes
//	32  call         plan.CallBytes
//	72  text         letterText bytes
const (
	letters    = 8
	letterSize = 128
	letterText = letterSize - 72
)

// letterWait is the word of one rank that is waited for: it comes to want or, for acknowledgements, above it.
type letterWait struct {
	word   *uint64 // nil while this rank waits for several
	want   uint64
	peer   int
	ack    bool
	notice bool // of a broadcast
}

func (w *letterWait) come() bool {
	v := atomic.LoadUint64(w.word)
	return v == w.want || w.ack && v > w.want
}

// waitLetter waits for a word of peer's.
func (c *Comm) waitLetter(w letterWait) error {
	if w.come() {
		return nil
	}
	c.letter = w
	err := c.waitFrom(w.peer)
	c.letter = letterWait{}
	return err
}

// Send sends b to another rank, which calls Recv with as many bytes. Messages between two ranks arrive in order.
func (c *Comm) Send(ctx context.Context, call plan.Call, to int, b []byte) error {
	if err := plan.CheckPeer(to, c.rank, c.n); err != nil {
		return err
	}
	err := c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	p := &c.peers[to]
	seq := p.sent + 1
	acked := p.ack(c.rank)
	if seq > letters {
		if err := c.waitLetter(letterWait{word: acked, want: seq - letters, peer: to, ack: true}); err != nil {
			return err
		}
	}
	if err := c.acknowledged(to, atomic.LoadUint64(acked)); err != nil {
		return err
	}
	letter := c.own.letter(to, seq)
	le := binary.LittleEndian
	var block *shm.Block
	if len(b) <= letterText {
		copy(letter[72:], b)
	} else {
		if block, err = c.block(len(b)); err != nil {
			return c.kill(&plan.PeerError{Rank: c.rank, Call: call, Err: err})
		}
		c.fold.set.Copy(block.Bytes()[:len(b)], b)
		le.PutUint64(letter[24:], c.find(block.Bytes()[:len(b)]))
	}
	p.lent = append(p.lent, block)
	le.PutUint64(letter[8:], c.word)
	le.PutUint64(letter[16:], uint64(len(b)))
	call.Append(letter[32:32])
	c.stats.bytes += uint64(len(b))
	p.sent = seq
	storeRelease(word64(letter, 0), seq)
	p.bell.Ring()
	return nil
}

// acknowledged takes back what the first n messages to p held.
func (c *Comm) acknowledged(p int, n uint64) error {
	peer := &c.peers[p]
	if n > peer.sent {
		return c.broke(p, fmt.Errorf("%d messages acknowledged of %d", n, peer.sent))
	}
	for uint64(len(peer.lent)) > peer.sent-n {
		if b := peer.lent[0]; b != nil {
			b.Release()
		}
		peer.lent = peer.lent[1:]
	}
	return nil
}

// Recv receives what another rank sends to this one, which is len(b) bytes.
func (c *Comm) Recv(ctx context.Context, call plan.Call, from int, b []byte) error {
	if err := plan.CheckPeer(from, c.rank, c.n); err != nil {
		return err
	}
	err := c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	p := &c.peers[from]
	letter := p.letter(c.rank, p.received+1)
	if err := c.waitLetter(letterWait{word: word64(letter, 0), want: p.received + 1, peer: from}); err != nil {
		return err
	}
	le := binary.LittleEndian
	if word := le.Uint64(letter[8:]); word != c.word {
		return c.kill(c.mismatch(from, letter[32:72], uint32(word>>32)))
	}
	if n := le.Uint64(letter[16:]); n != uint64(len(b)) {
		return c.kill(&plan.PeerError{Rank: from, Call: call, Err: fmt.Errorf("%w: it sent %d bytes, this rank receives %d",
			plan.ErrMismatch, n, len(b))})
	}
	text := letter[72:]
	if len(b) > letterText {
		if text, err = c.at(from, le.Uint64(letter[24:]), len(b)); err != nil {
			return err
		}
	}
	c.fold.set.Copy(b, text[:len(b)])
	p.received++
	storeRelease(c.own.ack(from), p.received)
	p.bell.Ring()
	return nil
}
