package host

import (
	"encoding/binary"

	"github.com/ringside-go/ringside/collective/plan"
)

// How bytes move
//
// Ranks that have something to give (a source) say at the first meeting where it is; ranks that take pull it from there,
// or fold what all gave. How a source is given depends on its size and on where it lies:
//
//	up to Comm.inLine   in the line itself                one meeting
//	up to Flat          copied to the flat slot           one meeting
//	registered, shown   in place                          two meetings: the second says that nobody reads it any more
//	other               through the staging slots         a meeting for each piece; the next piece is copied into the other
//	                                                      slot meanwhile, and nobody waits for the end
//
// A source is shared, everybody takes the same bytes of it, or split, every rank its own stretch. A piece of a shared source
// fills a slot; of a split one, everybody's stretch has an equal part of the slot.
//
// Where the first meeting does not hold the source, a rank says there in 8 bytes where it is: a place (see memory.go), with bit 63 if the
// result of an all-reduce goes elsewhere and bit 62 if one of the two can only be read; or, below 2^placeBits, that it is staged, and the slot that has the first piece. At later
// meetings it says the slot of the next piece. Two ranks say it beside their marks: who has seen that the other is there has it, and need
// not fetch another line. What is said rarely is in the payload:
//
//	16 place of the destination: of an all-reduce that goes elsewhere, of a reduce the root's, 0 if it has none

// rooms is what a call works with, made once.
type rooms struct {
	give, want, into []plan.Slice // by rank: what of its source goes to whom; what to take of theirs; where that goes in dst
	total            []int        // by rank: the bytes of its source, 0 for none
	place            []uint64     // by rank: of its source as it said at the first meeting
	base, made       [][]byte     // by rank: its source, nil while staged; its destination, of an all-reduce
	srcs, dsts       [][]byte
	known            known
}

func newRooms(n int) rooms {
	return rooms{
		give: make([]plan.Slice, n), want: make([]plan.Slice, n), into: make([]plan.Slice, n),
		total: make([]int, n), place: make([]uint64, n), base: make([][]byte, n), made: make([][]byte, n), srcs: make([][]byte, n), dsts: make([][]byte, n),
	}
}

func (r *rooms) reset() {
	clear(r.give)
	clear(r.want)
	clear(r.into)
	clear(r.total)
}

// move is one exchange of sources.
type move struct {
	src, dst []byte
	split    bool
	fold     bool // all ranks' sources into dst, instead of pulling each to its place
	table    bool // ranks know only their own stretches and say them in tables
	longest  int  // of all stretches of a split source; with a table, known after the first meeting
}

// piece is the bytes of a stretch that a staging slot takes.
func (c *Comm) piece(split bool) int {
	if split {
		return c.chunk / c.n &^ 63
	}
	return c.chunk
}

// stage copies the k-th piece of m's source to the slot that was not used last, and says so.
func (c *Comm) stage(m *move, k int) {
	c.turn ^= 1
	slot, size := c.slot(c.rank, c.held[c.turn]), c.piece(m.split)
	c.say(c.held[c.turn])
	if !m.split {
		b := m.src[min(k*size, len(m.src)):min((k+1)*size, len(m.src))]
		c.fold.set.Copy(slot[:len(b)], b)
		return
	}
	for p, s := range c.room.give {
		if p == c.rank {
			continue
		}
		b := s.Of(m.src)
		b = b[min(k*size, len(b)):min((k+1)*size, len(b))]
		c.fold.set.Copy(slot[p*size:p*size+len(b)], b)
	}
}

// offer gives this rank's source at the next meeting.
func (c *Comm) offer(m *move) {
	n := c.room.total[c.rank]
	if n == 0 && !m.table {
		return
	}
	c.stats.bytes += uint64(n)
	switch {
	case n <= c.inLine && !m.table:
		copy(c.own.lines[(c.epoch+1)&1].room(n), m.src[:n])
		c.stats.small++
	case n <= c.flat:
		c.fillFlat(m.src[:n])
		c.stats.small++
	default:
		if place := c.place(m.src[:n]); place == 0 {
			c.stage(m, 0)
			c.stats.staged++
		} else {
			c.say(place)
			c.stats.direct++
		}
	}
}

// place is where b can be reached in place, 0 if it cannot.
func (c *Comm) place(b []byte) uint64 {
	if c.staged {
		return 0
	}
	return c.find(b)
}

// source finds what p gives, after the first meeting. nil: it is staged.
func (c *Comm) source(p int, m *move) ([]byte, error) {
	n := c.room.total[p]
	l := &c.peers[p].lines[c.epoch&1]
	switch {
	case p == c.rank:
		return m.src[:n], nil
	case n <= c.inLine && !m.table:
		return l.room(n), nil
	case n <= c.flat:
		return l.flat[:n], nil
	}
	if c.isStaged(p) {
		return nil, nil
	}
	return c.at(p, c.room.place[p], n)
}

// run does all of m.
func (c *Comm) run(m *move) error {
	c.offer(m)
	if err := c.meet(); err != nil {
		return err
	}
	c.hear()
	if m.table {
		if err := c.readTables(m); err != nil {
			return err
		}
	}
	return c.take(m)
}

// take takes what was offered at the meeting just over, and has all meetings that are left.
func (c *Comm) take(m *move) error {
	r := &c.room
	pieces, direct := 0, false
	size := c.piece(m.split)
	for p := range r.base {
		var err error
		if r.base[p], err = c.source(p, m); err != nil {
			return err
		}
		if r.total[p] <= c.flat {
			continue
		}
		length := r.total[p]
		if m.split {
			length = m.longest
		}
		if c.isStaged(p) {
			pieces = max(pieces, (length+size-1)/size)
		} else {
			direct = true
		}
	}
	if err := c.pieces(m, pieces, size); err != nil {
		return err
	}
	if direct {
		return c.meet()
	}
	return nil
}

// say has this rank say, at the next meeting, where its source is.
func (c *Comm) say(where uint64) {
	binary.LittleEndian.PutUint64(c.own.lines[(c.epoch+1)&1].room(8), where)
}

// heard is what p said at the meeting just over.
func (c *Comm) heard(p int) uint64 {
	return binary.LittleEndian.Uint64(c.peers[p].lines[c.epoch&1].room(8))
}

// hear notes, once, what everybody said at the first meeting about its source.
func (c *Comm) hear() {
	for p := range c.peers {
		c.room.place[p] = c.heard(p)
	}
}

// isStaged says whether p's source, larger than flat, goes through slots.
func (c *Comm) isStaged(p int) bool { return c.room.place[p] < 1<<placeBits }

// pieces takes what there is to take, after the first meeting: all at once, or piece by piece as long as a source is staged.
func (c *Comm) pieces(m *move, pieces, size int) error {
	mine := pieces > 0 && c.room.total[c.rank] > c.flat && c.isStaged(c.rank)
	for k := 0; ; k++ {
		if m.fold {
			c.foldPiece(m, k, pieces, size)
		} else {
			c.pullPiece(m, k, size)
		}
		if k+1 >= pieces {
			return nil
		}
		if mine {
			c.stage(m, k+1)
		}
		if err := c.meet(); err != nil {
			return err
		}
	}
}

// stagedPiece is the piece, n bytes, that p has in the slot it said at the last meeting.
func (c *Comm) stagedPiece(p int, split bool, size, n int) []byte {
	slot := c.slot(p, c.heard(p))
	if split {
		return slot[c.rank*size : c.rank*size+n]
	}
	return slot[:n]
}

// foldPiece folds the k-th piece of everybody's source, or all of them if none is staged.
func (c *Comm) foldPiece(m *move, k, pieces, size int) {
	r := &c.room
	n := len(m.dst)
	if n == 0 {
		return
	}
	lo, hi := 0, n
	if pieces > 0 {
		lo, hi = min(k*size, n), min((k+1)*size, n)
	}
	if lo == hi {
		return
	}
	for p := range r.srcs {
		if r.base[p] == nil {
			r.srcs[p] = c.stagedPiece(p, m.split, size, hi-lo)
		} else {
			r.srcs[p] = r.want[p].Of(r.base[p])[lo:hi]
		}
	}
	if c.n == 2 && r.base[1-c.rank] == nil {
		c.fold.fold(c.call, c.takeOver(m.dst[lo:hi], 1-c.rank), r.srcs)
		return
	}
	r.dsts[0] = m.dst[lo:hi]
	c.fold.fold(c.call, r.dsts[:1], r.srcs)
}

// pullPiece copies the k-th piece of each staged source to its place, and the others as a whole with the first. Ranks
// begin with the one after them, so that they do not all read from the same.
func (c *Comm) pullPiece(m *move, k, size int) {
	r := &c.room
	for i := range c.n {
		p := (c.rank + i) % c.n
		if r.want[p].Len == 0 {
			continue
		}
		into := r.into[p].Of(m.dst)
		if b := r.base[p]; b != nil {
			if b = r.want[p].Of(b); k == 0 && &b[0] != &into[0] {
				c.fold.set.Copy(into, b)
			}
			continue
		}
		if into = into[min(k*size, len(into)):min((k+1)*size, len(into))]; len(into) > 0 {
			c.fold.set.Copy(into, c.stagedPiece(p, m.split, size, len(into)))
		}
	}
}
