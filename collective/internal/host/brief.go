package host

import (
	"context"
	"encoding/binary"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ring"
)

// Brief calls are prepared barriers, and sums of up to briefSize bytes, of two ranks: all that they say fits beside the mark in the line
// of two. What makes them quick is that word and mark are stored next to each other in time (trade): a word stored earlier fetches the
// line, the other rank, who is looking, takes it back, and the mark has to fetch it once more. And a call that finds the other there
// writes nothing down for the way of those that wait; later does.

// half is a rank's half of the line of two.
type half struct {
	mark uint64
	word uint64 // briefSize bytes, of which the first count
}

// duo is where two ranks meet, and what a brief call needs of the other's page and of one's own, by parity of epochs. mine nil: not two.
type duo struct {
	mine, theirs [2]*half
	call         [2][]byte // what this rank is in, see declare
	bell         *ring.Bell
}

// isBrief says whether a call of n bytes is such a one.
func (c *Comm) isBrief(call *plan.Call, n int) bool {
	if c.two.mine[0] == nil {
		return false
	}
	if call.Kind == plan.AllReduce {
		return call.Op == element.Sum && call.Scale == 1 && c.fold.groups == nil && n > 0 && n <= briefSize && kernel.AddsWords(call.DType)
	}
	return call.Kind == plan.Barrier
}

// Claim, where the next call of the comm is a brief one of q, has the line that it will write fetched already: the caller has something to
// do yet before the call. Who was first at the last meeting is the last to leave it; while it prepares the next, the other stands there
// already, so the line comes with what that one has said. Zen 4, ns of a barrier and of an f32 sum of 4 B with cores near, medians of 200
// blocks: 64 and 77 without, 60 and 67 with it; with cores far 261 and 298, 233 and 250. Claimed when the last meeting ends it is
// too early (70 and 84): the other has not stored yet, and takes it back. Like a call, it is nothing for two goroutines.
func (q *Prepared) Claim() {
	if q.brief {
		claim(q.comm.two.mine[(q.comm.epoch+1)&1])
	}
}

// meetBrief is again and meet of a brief call before which there was no broadcast since the last meeting. It says word and returns what the
// other has said. Of what it writes only the mark is waited for, by whoever comes later: so it is short up to there.
func (q *Prepared) meetBrief(ctx context.Context, seq, word uint64) (uint64, error) {
	c := q.comm
	if e := c.dead.Load(); e != nil {
		return 0, e
	}
	c.epoch++
	parity := c.epoch & 1
	if c.said[parity] == q {
		binary.LittleEndian.PutUint64(c.two.call[parity], seq)
	} else {
		c.declare(q, parity, seq)
	}
	mark := markOf(c.epoch, q.word+seq*golden)
	theirs, here := trade(c.two.mine[parity], c.two.theirs[parity], mark, word, c.spins)
	c.two.bell.Ring() // who sleeps has come, so this may be late
	c.stats.calls++
	q.call.Seq = seq
	if here {
		return theirs, nil
	}
	return q.later(ctx, seq, mark)
}

// later waits for the other, who was not there at once.
//
//go:noinline
func (q *Prepared) later(ctx context.Context, seq, mark uint64) (uint64, error) {
	c := q.comm
	c.call, c.word, c.ctx, c.timing = &q.call, q.word+seq*golden, ctx, false
	if err := c.waitFrom(1 - c.rank); err != nil {
		return 0, err
	}
	if err := c.alike(mark); err != nil {
		return 0, err
	}
	return c.two.theirs[c.epoch&1].word, nil
}

// addBrief is AllReduce of a brief sum: it returns once both words were added in the order of ranks.
func (q *Prepared) addBrief(ctx context.Context, seq uint64, dst, src []byte) error {
	mine := wordFrom(src)
	theirs, err := q.meetBrief(ctx, seq, mine)
	if err != nil {
		return err
	}
	q.addWords(dst, mine, theirs)
	return nil
}

// wordFrom is the 1 to 8 bytes of b as a word, little endian; what is beyond them is 0.
func wordFrom(b []byte) uint64 {
	switch len(b) {
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	}
	var w [briefSize]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// putWord stores the first bytes of a word in b, of at most 8.
func putWord(b []byte, word uint64) {
	switch len(b) {
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(word))
	case 8:
		binary.LittleEndian.PutUint64(b, word)
	default:
		var w [briefSize]byte
		binary.LittleEndian.PutUint64(w[:], word)
		copy(b, w[:])
	}
}
