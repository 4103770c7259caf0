package onehost

import (
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
)

// exchange moves and folds the bytes of calls among the ranks.
type exchange struct {
	meeting
	memory memory
	fold   kernel.Folder
	work   work
	pair   pairLine

	inLine int // the largest contribution that travels in a line
	flat   int // and in a flat slot
	chunk  int
	spread int // the largest broadcast whose root does not wait
	staged bool

	held  [2]uint64              // the staging slots that this rank fills
	turn  int                    // of those, the one that was used last
	noted [entries]protocol.Call // the calls in this rank's entries, but for Seq
	stats Stats
}

// Stats are counters of a comm since New.
type Stats struct {
	Calls  uint64 // collectives, sends and receives begun
	Small  uint64 // contributions by lines and flat slots
	Direct uint64 // contributions that were read where they lie
	Staged uint64 // contributions through staging slots
}

// work is what a call works with, made once.
type work struct {
	// by rank: of this rank's source for it; of its source; in dst
	give, want, into []protocol.Slice
	total            []int // by rank: the bytes of its source, 0 for none
	// by rank: of its source, as it said at the first meeting
	location []uint64
	// by rank: its source, nil while staged; its destination
	base, made [][]byte
	srcs, dsts [][]byte
	even       []int // counts of parts of one length
}

// newWork returns the work of n ranks.
func newWork(n int) work {
	return work{
		give: make([]protocol.Slice, n), want: make([]protocol.Slice, n), into: make([]protocol.Slice, n),
		total: make([]int, n), location: make([]uint64, n),
		base: make([][]byte, n), made: make([][]byte, n),
		srcs: make([][]byte, n), dsts: make([][]byte, n),
		even: make([]int, n),
	}
}

// reset clears what the calls that move bytes fill in.
func (w *work) reset() {
	clear(w.give)
	clear(w.want)
	clear(w.into)
	clear(w.total)
}

// # Which rank fills a slot
//
// The lines of a slot come to the core that reads them. If the rank that filled a slot
// filled it again, the lines would have to come back first, with nothing of use in them.
// So of two ranks, the one that has read a slot fills it next. docs/decisions.md has the
// measurement.
//
// This is safe: between the meeting after which a rank reads a slot and the meeting
// before which it has filled it, no other rank touches that slot. The rank that had
// filled it has read another one meanwhile, and fills that.
//
//   - Flat slots: each page has one that is used. At meetings of even epochs each rank
//     fills its own, at those of odd epochs the other's (sharePages). So the slot that a
//     rank fills is the one that it read at the meeting before.
//   - Staging slots: a rank holds two, at first those of its page, and fills them by
//     turns. At an all-reduce both ranks have filled one, and these change hands as they
//     are read (takeSlot). A slot that only one rank gives stays with it.
//
// More than two ranks fill their own.

// fillFlat gives b through a flat slot at the next meeting.
func (c *exchange) fillFlat(b []byte) {
	slot := c.upcoming().flat[:len(b)]
	c.fold.Copy(slot, b)
	if c.n == 2 && len(b) > 0 {
		demote(slot)
	}
}

// readFlat returns the bytes [from, to), at least one, of what rank p gave through a flat
// slot at the meeting just over. The rank that fills the slot next fetches its lines for
// writing.
func (c *exchange) readFlat(p, from, to int) []byte {
	b := c.met(p).flat[from:to]
	if c.n == 2 {
		fetch(b)
	}
	return b
}

// slot returns a staging slot as rank p numbers them: 0 and 1 are in its page; of two
// ranks, 2 and 3 are in the other's.
func (c *exchange) slot(p int, number uint64) []byte {
	if c.n == 2 && number&2 != 0 {
		p = 1 - p
	}
	return c.peers[p].stage[number&1]
}

// takeSlot returns the staging slot that p, the other of two ranks, has filled for the
// meeting just over. This rank holds it from now on and fills it next. p takes the slot
// that this rank has filled.
func (c *exchange) takeSlot(p int) []byte {
	number := c.announced(p)
	c.held[c.turn], c.held[c.turn^1] = c.held[c.turn^1], number&3^2
	return c.slot(p, number)
}

// takeOver returns the destinations of a fold into dst that reads a slot of p, the other
// of two ranks: dst and, where vectors store it on the way, the slot. The slot's contents
// are of no use any more, but its lines then belong to this core alone, and the rank that
// fills the slot next gets them faster.
func (c *exchange) takeOver(dst []byte, p int) [][]byte {
	w := &c.work
	w.dsts[0] = dst
	if c.n != 2 || c.fold.Level() == kernel.Go {
		return w.dsts[:1]
	}
	w.dsts[1] = w.srcs[p]
	return w.dsts[:2]
}
