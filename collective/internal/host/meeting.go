package host

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// Epochs
//
// All ranks go through the same epochs, one at a time, and every epoch is a meeting: a rank writes its line of the
// epoch's parity (payload, then the mark, which is of the epoch and of the call), and waits until the lines of all others have the
// same mark. So nobody is more than one epoch ahead. That is what makes two of everything enough: who writes what belongs to
// epoch e, before the meeting, has met everybody in e-1, and they came there when they were done with what e-2 left.
//
//	       epoch e-1              epoch e                 epoch e+1
//	write | meet | read odd  ...  write even | meet | read even   write odd ...
//
// A mark has 32 bits of each, so that one look says both that a rank has come and that it is in the same call:
//
//	63          31           0
//	| epoch      | of the word |
//
// What a line says before has the epoch that was two before, so it does not matter that epochs wrap there. Two calls that differ look the same
// once in 2^32 times.
//
// Memory order: the mark is stored with release after everything a rank wrote for the meeting, and loaded with acquire
// before anything is read; so what any rank did before a meeting synchronizes before what every other does after it.

// begin starts a call: it takes the comm, which the caller gives back with c.mu.Unlock whatever begin returns.
func (c *Comm) begin(ctx context.Context, call *plan.Call) error {
	c.mu.Lock()
	seq := call.Seq
	call.Seq = c.other.call.Seq
	if c.other.word == 0 || *call != c.other.call {
		c.other.set(call)
		for parity, q := range c.said {
			if q == &c.other {
				c.said[parity] = nil
			}
		}
	}
	call.Seq = seq
	if err := c.again(ctx, &c.other, seq); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return c.kill(&plan.PeerError{Rank: c.rank, Call: *call, Err: ipc.ContextError(ctx)})
	}
	return nil
}

// again starts a call like q's, the seq-th: it writes it where a rank that finds another word at the next meeting looks what it is.
func (c *Comm) again(ctx context.Context, q *Prepared, seq uint64) error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	q.call.Seq = seq
	c.call, c.word, c.ctx, c.timing = &q.call, q.word+seq*golden, ctx, false
	c.stats.calls++
	c.declare(q, (c.epoch+1)&1, seq)
	return nil
}

// declare writes q, the seq-th call, for those who find another word at a meeting of that parity.
func (c *Comm) declare(q *Prepared, parity, seq uint64) {
	b := c.own.lines[parity].call
	if c.said[parity] != q { // else all but the number stands there
		copy(b, q.text[:])
		c.said[parity] = q
	}
	binary.LittleEndian.PutUint64(b, seq)
}

const golden = 0x9e3779b97f4a7c15 // odd, so that no two Seqs have one multiple

// wordOf is what ranks compare of calls: a loop makes the same again and again but for Seq, so it need not be made anew.
func wordOf(call plan.Call) uint64 {
	seq := call.Seq
	call.Seq = 0
	return call.Word() + seq*golden
}

// markOf is what a rank in the call of that word says at a meeting.
func markOf(epoch, word uint64) uint64 { return epoch<<32 | word>>32 }

// payload is what this rank says at the next meeting.
func (c *Comm) payload() []byte { return c.own.lines[(c.epoch+1)&1].payload }

// meet waits until everybody is at this meeting and in the same call.
func (c *Comm) meet() error {
	c.epoch++
	parity := c.epoch & 1
	mark := markOf(c.epoch, c.word)
	storeRelease(c.own.lines[parity].mark, mark)
	for p := range c.peers {
		if p != c.rank {
			c.peers[p].bell.Ring()
		}
	}
	if c.n > 2 {
		c.tellCore()
	}
	for p := range c.peers {
		if p != c.rank && !await(c.peers[p].lines[parity].mark, mark, c.spins) {
			if err := c.waitFrom(p); err != nil {
				return err
			}
			if err := c.alike(mark); err != nil {
				return err
			}
			break
		}
	}
	if c.window.epoch == c.epoch-1 {
		return c.taken()
	}
	return nil
}

// alike says whether everybody, who has come to this meeting, has said the same there.
func (c *Comm) alike(mark uint64) error {
	for p := range c.peers {
		if p != c.rank && atomic.LoadUint64(c.peers[p].lines[c.epoch&1].mark) != mark {
			return c.kill(c.differs(p))
		}
	}
	return nil
}

// here says whether what this rank waits for has come.
func (c *Comm) here() bool {
	if c.letter.word != nil {
		return c.letter.come()
	}
	for ; c.next < c.n; c.next++ {
		if c.missing(c.next) {
			return false
		}
	}
	return true
}

// ahead is by how many epochs the meeting to which p came last is after this one.
func (c *Comm) ahead(p int) int32 {
	return int32(atomic.LoadUint64(c.peers[p].lines[c.epoch&1].mark)>>32) - int32(c.epoch)
}

// missing says whether p keeps this rank waiting.
func (c *Comm) missing(p int) bool {
	switch {
	case p == c.rank:
		return false
	case c.letter.word != nil:
		return p == c.letter.peer && !c.letter.come()
	case c.readers != 0:
		return atomic.LoadUint64(c.peers[p].acknowledged()) < c.readers
	}
	return c.ahead(p) != 0
}
