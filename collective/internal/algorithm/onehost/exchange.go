package onehost

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
)

// # How bytes move
//
// Ranks that give something (a source) say at the first meeting where it is. Ranks that
// take it read it from there, or fold what all gave. A source is given in one of two
// ways:
//
//	direct   up to inLine        in the line                 one meeting
//	         up to flat          copied to the flat slot     one meeting
//	         registered, shown   where it lies               two meetings: after the
//	                                                         second no rank reads it
//	staged   other memory        through the staging slots   a meeting for each piece
//
// While a piece is taken from one staging slot, the next is copied to the other.
//
// A source is shared, every rank takes the same bytes of it, or split, every rank takes a
// stretch of its own. A piece of a shared source fills a slot. In a piece of a split one
// each rank's stretch has an equal part of the slot.
//
// Where a source is not in the line or flat slot, its rank says in one word where it is
// (announce): a location (memory.go), or, below 1<<offsetBits, the number of the staging
// slot with the first piece. At later meetings it says the slot of the next piece. Two
// ranks say it beside their marks, more ranks in the payload. At offset 16 of the payload
// is the location of a destination: of an all-reduce whose result is separate, or of a
// reduce's root, 0 if none.

// move is one exchange of sources.
type move struct {
	src, dst []byte
	split    bool
	fold     bool // all ranks' sources into dst, instead of each to its place
	table    bool // ranks know only their own stretches and say them in tables
	// of all stretches of a split source; with a table, known after the first meeting
	longest int
}

// stretches gives counts[r] bytes of m's split source to each rank r.
func (c *exchange) stretches(counts []int, m *move) {
	off := 0
	for p, n := range counts {
		c.work.give[p] = protocol.Slice{Off: off, Len: n}
		m.longest = max(m.longest, n)
		off += n
	}
}

// announce has this rank say at the next meeting where its source is.
func (c *exchange) announce(where uint64) {
	binary.LittleEndian.PutUint64(c.upcoming().room(wordSize), where)
}

// announced returns what rank p said at the meeting just over.
func (c *exchange) announced(p int) uint64 {
	return binary.LittleEndian.Uint64(c.met(p).room(wordSize))
}

// announceResult has this rank say at the next meeting the location of a destination.
func (c *exchange) announceResult(location uint64) {
	binary.LittleEndian.PutUint64(c.upcoming().payload[16:], location)
}

// announcedResult returns the location of a destination that rank p said at the meeting
// just over.
func (c *exchange) announcedResult(p int) uint64 {
	return binary.LittleEndian.Uint64(c.met(p).payload[16:])
}

// collect notes, once, what every rank said at the first meeting about its source.
func (c *exchange) collect() {
	for p := range c.peers {
		c.work.location[p] = c.announced(p)
	}
}

// isStaged reports whether rank p's source, larger than flat, goes through slots.
func (c *exchange) isStaged(p int) bool { return c.work.location[p] < 1<<offsetBits }

// locate returns the location of b, 0 if the others cannot reach it.
func (c *exchange) locate(b []byte) uint64 {
	if c.staged {
		return 0
	}
	return c.memory.find(b)
}

// piece returns the bytes of a stretch that a staging slot takes.
func (c *exchange) piece(split bool) int {
	if split {
		return c.chunk / c.n &^ 63
	}
	return c.chunk
}

// stage copies the k-th piece of m's source to the slot that was not used last, and
// announces it.
func (c *exchange) stage(m *move, k int) {
	c.turn ^= 1
	slot, size := c.slot(c.rank, c.held[c.turn]), c.piece(m.split)
	c.announce(c.held[c.turn])
	if !m.split {
		b := m.src[min(k*size, len(m.src)):min((k+1)*size, len(m.src))]
		c.fold.Copy(slot[:len(b)], b)
		return
	}
	for p, s := range c.work.give {
		if p == c.rank {
			continue
		}
		b := s.Of(m.src)
		b = b[min(k*size, len(b)):min((k+1)*size, len(b))]
		c.fold.Copy(slot[p*size:p*size+len(b)], b)
	}
}

// offer gives this rank's source at the next meeting.
func (c *exchange) offer(m *move) {
	n := c.work.total[c.rank]
	if n == 0 && !m.table {
		return
	}
	switch {
	case n <= c.inLine && !m.table:
		copy(c.upcoming().room(n), m.src[:n])
		c.stats.Small++
	case n <= c.flat:
		c.fillFlat(m.src[:n])
		c.stats.Small++
	default:
		if location := c.locate(m.src[:n]); location == 0 {
			c.stage(m, 0)
			c.stats.Staged++
		} else {
			c.announce(location)
			c.stats.Direct++
		}
	}
}

// source returns what rank p gives, after the first meeting; nil if it is staged.
func (c *exchange) source(p int, m *move) ([]byte, error) {
	n := c.work.total[p]
	switch {
	case p == c.rank:
		return m.src[:n], nil
	case n <= c.inLine && !m.table:
		return c.met(p).room(n), nil
	case n <= c.flat:
		return c.met(p).flat[:n], nil
	case c.isStaged(p):
		return nil, nil
	}
	return c.memory.at(p, c.work.location[p], n)
}

// run does all of m.
func (c *exchange) run(m *move) error {
	c.offer(m)
	if err := c.meet(); err != nil {
		return err
	}
	c.collect()
	if m.table {
		if err := c.readTables(m); err != nil {
			return err
		}
	}
	return c.take(m)
}

// readTables reads which rank sends how much to which. All ranks must come to the same
// number of pieces, so all read all tables.
func (c *exchange) readTables(m *move) error {
	w := &c.work
	le := binary.LittleEndian
	m.longest = 0
	for p := range c.peers {
		table := c.met(p).table
		off := uint64(0)
		for q := range c.n {
			at, n := le.Uint64(table[q*tableEntry:]), le.Uint64(table[q*tableEntry+8:])
			if at != off || n > offsetMask {
				return c.corrupt(p, fmt.Errorf("%d bytes at %d for rank %d, expected at %d", n, at, q, off))
			}
			if q == c.rank {
				w.want[p] = protocol.Slice{Off: int(at), Len: int(n)}
			}
			off += n
			if w.total[p] = int(off); q != p {
				m.longest = max(m.longest, int(n))
			}
		}
		if w.want[p].Len != w.into[p].Len {
			return c.kill(&protocol.PeerError{Rank: p, Call: *c.call,
				Err: fmt.Errorf("%w: it sends %d bytes, this rank expects %d",
					protocol.ErrMismatch, w.want[p].Len, w.into[p].Len)})
		}
	}
	return nil
}

// take takes what was offered at the meeting just over, and makes all meetings that are
// left.
func (c *exchange) take(m *move) error {
	w := &c.work
	pieces, direct := 0, false
	size := c.piece(m.split)
	for p := range w.base {
		var err error
		if w.base[p], err = c.source(p, m); err != nil {
			return err
		}
		if w.total[p] <= c.flat {
			continue
		}
		length := w.total[p]
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

// pieces takes what there is, after the first meeting: all at once, or piece by piece as
// long as a source is staged.
func (c *exchange) pieces(m *move, pieces, size int) error {
	mine := pieces > 0 && c.work.total[c.rank] > c.flat && c.isStaged(c.rank)
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

// stagedPiece returns the piece, n bytes, that rank p has in the slot it announced last.
func (c *exchange) stagedPiece(p int, split bool, size, n int) []byte {
	slot := c.slot(p, c.announced(p))
	if split {
		return slot[c.rank*size : c.rank*size+n]
	}
	return slot[:n]
}

// foldPiece folds the k-th piece of all sources, or all of them if none is staged.
func (c *exchange) foldPiece(m *move, k, pieces, size int) {
	w := &c.work
	n := len(m.dst)
	lo, hi := 0, n
	if pieces > 0 {
		lo, hi = min(k*size, n), min((k+1)*size, n)
	}
	if lo == hi {
		return
	}
	for p := range w.srcs {
		if w.base[p] == nil {
			w.srcs[p] = c.stagedPiece(p, m.split, size, hi-lo)
		} else {
			w.srcs[p] = w.want[p].Of(w.base[p])[lo:hi]
		}
	}
	if c.n == 2 && w.base[1-c.rank] == nil {
		c.fold.Fold(c.call, c.takeOver(m.dst[lo:hi], 1-c.rank), w.srcs)
		return
	}
	w.dsts[0] = m.dst[lo:hi]
	c.fold.Fold(c.call, w.dsts[:1], w.srcs)
}

// pullPiece copies the k-th piece of each staged source to its place, and the other
// sources as a whole with the first piece. A rank begins with the one after it, so that
// ranks do not all read from the same.
func (c *exchange) pullPiece(m *move, k, size int) {
	w := &c.work
	for i := range c.n {
		p := (c.rank + i) % c.n
		if w.want[p].Len == 0 {
			continue
		}
		into := w.into[p].Of(m.dst)
		if b := w.base[p]; b != nil {
			if b = w.want[p].Of(b); k == 0 && &b[0] != &into[0] {
				c.fold.Copy(into, b)
			}
			continue
		}
		if into = into[min(k*size, len(into)):min((k+1)*size, len(into))]; len(into) > 0 {
			c.fold.Copy(into, c.stagedPiece(p, m.split, size, len(into)))
		}
	}
}
