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

	inLine int // bytes of the largest contribution that travels in a line
	flat   int // bytes of the largest contribution that travels in a flat slot
	chunk  int // bytes of a staging slot
	spread int // the largest broadcast whose root does not wait
	staged bool

	held  [2]uint64              // numbers of the staging slots that this rank fills
	turn  int                    // index in held; the other one is filled next
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

// work is the memory that every call works with. All slices but even are indexed by rank.
type work struct {
	give []protocol.Slice // the part of this rank's source that goes to rank p
	want []protocol.Slice // the part of p's source that comes to this rank
	into []protocol.Slice // where in this rank's destination that part goes

	total    []int    // bytes of p's source, 0 for none
	location []uint64 // of p's source, as p said at the first meeting

	base, made [][]byte // p's source, nil while it is staged; p's destination
	srcs, dsts [][]byte // operands and results of a fold
	even       []int    // filled by Request.Parts: counts of parts of one length
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
// Reading a slot brings its cache lines to the reader's core. If the rank that filled the
// slot filled it again, its core would first have to fetch these lines back, although
// their contents are no longer needed. So of two ranks, the one that has read a slot
// fills it next. docs/decisions.md has the measurement.
//
// This is safe. A rank reads the slot after one meeting and has filled it before a later
// one; between these two meetings the other rank does not touch the slot. The other rank
// has read another slot meanwhile, and fills that.
//
//   - Flat slots: one in each page is used. For meetings of even epochs each rank fills
//     that of its own page, for meetings of odd epochs that of the other's (sharePages).
//     So a rank fills the slot that it read at the meeting before.
//   - Staging slots: a rank holds two, at first those of its page, and fills them in
//     turn. In an all-reduce each rank fills one and then holds the one that it reads
//     (takeSlot). In a call in which one rank alone fills a slot, the rank keeps it.
//
// Of more than two ranks each fills the slots of its own page.

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
// meeting just over. This rank holds that slot from now on and fills it next; p holds the
// slot that this rank has filled. Each rank gives the slots of its own page the numbers 0
// and 1, and those of the other's page 2 and 3. So 2 is added to or taken from p's
// number.
func (c *exchange) takeSlot(p int) []byte {
	number := c.announced(p)
	c.held[c.turn], c.held[c.turn^1] = c.held[c.turn^1], number&3^2
	return c.slot(p, number)
}

// takeOver returns the destinations of a fold into dst that reads a slot of p, the other
// of two ranks: dst and, if the fold is by vectors, the slot itself. The contents of the
// slot are no longer needed. But storing there makes its cache lines this core's alone,
// and the rank that fills the slot next gets them faster.
func (c *exchange) takeOver(dst []byte, p int) [][]byte {
	w := &c.work
	w.dsts[0] = dst
	if c.n != 2 || c.fold.Level() == kernel.Go {
		return w.dsts[:1]
	}
	w.dsts[1] = w.srcs[p]
	return w.dsts[:2]
}
