package onehost

import "github.com/ringside-go/ringside/collective/protocol"

// # All-reduce
//
//	bytes                              way
//	up to flat                         every rank folds everything; one meeting
//	more, all registered               allReduceDirect
//	more, all reachable, some shown    allReduceShown, from shownMin bytes on
//	more, other                        staged: two ranks each fold everything, more
//	                                   ranks a slice of each piece

// shownMin is the bytes from which an all-reduce of shown memory does not go through
// slots. Below it the slots, which need not be taken back (slots.go), are faster than the
// lines of shown memory, which its owner takes back from the readers.
const shownMin = 1 << 20

// refillBytes is how much of a slot is folded before it is filled again. It then still is
// in a level 1 or 2 cache.
const refillBytes = 16 << 10

// foldSmall folds into dst the bytes from from on of what lies in all lines or flat
// slots.
func (c *exchange) foldSmall(dst, src []byte, from int) error {
	inLine := len(src) <= c.inLine
	switch {
	case inLine:
		copy(c.upcoming().room(len(src)), src)
	case c.n > 1:
		c.fillFlat(src)
	}
	c.stats.Small++
	if err := c.meet(); err != nil || len(dst) == 0 {
		return err
	}
	to := from + len(dst)
	if inLine && c.n == 2 {
		x, y := src[from:to], c.met(1 - c.rank).room(len(src))[from:to]
		if c.rank == 1 {
			x, y = y, x
		}
		if c.fold.FoldPair(c.call, dst, x, y) {
			return nil
		}
	}
	w := &c.work
	for p := range w.srcs {
		switch {
		case p == c.rank:
			w.srcs[p] = src[from:to]
		case inLine:
			w.srcs[p] = c.met(p).room(len(src))[from:to]
		default:
			w.srcs[p] = c.readFlat(p, from, to)
		}
	}
	w.dsts[0] = dst
	c.fold.Fold(c.call, w.dsts[:1], w.srcs)
	return nil
}

// allReduceLarge says where this rank's buffers are, and goes on as all ranks' allow.
func (c *exchange) allReduceLarge(dst, src []byte) error {
	m := &move{src: src, dst: dst}
	given := c.locate(src)
	stored := given
	if &dst[0] != &src[0] {
		stored = c.locate(dst)
	}
	reachable := given != 0 && stored != 0 && ((given|stored)&readOnly == 0 || len(src) >= shownMin)
	switch {
	case !reachable:
		c.stage(m, 0)
	case stored == given:
		c.announce(given)
	default:
		c.announce(given | separate | stored&readOnly)
		c.announceResult(stored)
	}
	mine := protocol.PartLines(len(src), c.call.DType.Size(), c.n, c.rank)
	if err := c.meet(); err != nil {
		return err
	}
	c.collect()
	all, none, only := true, true, false
	for p, location := range c.work.location {
		only = only || location&readOnly != 0
		if c.isStaged(p) {
			all = false
		} else {
			none = false
		}
	}
	if all {
		c.stats.Direct++
		if only {
			return c.allReduceShown(m, mine)
		}
		return c.allReduceDirect(m, mine)
	}
	c.stats.Staged++
	if !none { // ranks with reachable buffers have yet to stage
		if reachable {
			c.stage(m, 0)
		} else {
			c.announce(c.held[c.turn])
		}
		if err := c.meet(); err != nil {
			return err
		}
	}
	if c.n == 2 {
		return c.allReducePair(m)
	}
	return c.allReduceStaged(m)
}

// allReduceDirect has every rank fold its slice of all sources in one pass and store it
// into all destinations, between two meetings. So every byte is read once and written
// once. This rank's own destination is the first: a kernel for two ranks fetches the
// lines of the second from the core that wrote them last.
func (c *exchange) allReduceDirect(m *move, mine protocol.Slice) error {
	w := &c.work
	for i := range c.n {
		p := (c.rank + i) % c.n
		if i == 0 {
			w.srcs[p], w.dsts[0] = mine.Of(m.src), mine.Of(m.dst)
			continue
		}
		location := w.location[p]
		src, err := c.memory.at(p, location, len(m.src))
		if err != nil {
			return err
		}
		if location&separate != 0 {
			location = c.announcedResult(p)
		}
		dst, err := c.memory.into(p, location, len(m.src))
		if err != nil {
			return err
		}
		w.srcs[p], w.dsts[i] = mine.Of(src), mine.Of(dst)
	}
	if mine.Len > 0 {
		c.fold.Fold(c.call, w.dsts, w.srcs)
	}
	return c.meet()
}

// allReduceShown has every rank fold its slice of all sources into its own destination,
// and take the other slices from the destinations of the ranks that folded them:
//
//	meet | fold | meet | take | meet
//
// Only its owner stores into shown memory. The last meeting is for the owners: until then
// a rank may be reading their buffers.
func (c *exchange) allReduceShown(m *move, mine protocol.Slice) error {
	w := &c.work
	n, unit := len(m.src), c.call.DType.Size()
	for p := range c.peers {
		if p == c.rank {
			w.base[p], w.made[p] = m.src, m.dst
			continue
		}
		location := w.location[p]
		src, err := c.memory.at(p, location, n)
		if err != nil {
			return err
		}
		dst := src
		if location&separate != 0 {
			if dst, err = c.memory.at(p, c.announcedResult(p), n); err != nil {
				return err
			}
		}
		w.base[p], w.made[p] = src, dst
	}
	if mine.Len > 0 {
		for p := range w.srcs {
			w.srcs[p] = mine.Of(w.base[p])
		}
		w.dsts[0] = mine.Of(m.dst)
		c.fold.Fold(c.call, w.dsts[:1], w.srcs)
	}
	if err := c.meet(); err != nil {
		return err
	}
	for i := 1; i < c.n; i++ {
		p := (c.rank + i) % c.n
		if s := protocol.PartLines(n, unit, c.n, p); s.Len > 0 {
			c.fold.Copy(s.Of(m.dst), s.Of(w.made[p]))
		}
	}
	return c.meet()
}

// allReducePair has each of two ranks fold piece after piece of both, and fill the slot
// of the other's piece with its own next one on the way. The first piece is staged.
func (c *exchange) allReducePair(m *move) error {
	w := &c.work
	other := 1 - c.rank
	for lo, hi := 0, 0; ; lo = hi {
		hi = min(lo+c.chunk, len(m.src))
		slot, src, dst := c.takeSlot(other), m.src[lo:hi], m.dst[lo:hi]
		next := m.src[hi:min(hi+c.chunk, len(m.src))]
		for at := 0; at < len(src); at += refillBytes {
			end := min(at+refillBytes, len(src))
			w.srcs[c.rank], w.srcs[other] = src[at:end], slot[at:end]
			c.fold.Fold(c.call, c.takeOver(dst[at:end], other), w.srcs)
			if at < len(next) {
				end = min(end, len(next))
				c.fold.Copy(slot[at:end], next[at:end])
			}
		}
		if len(next) == 0 {
			return nil
		}
		c.turn ^= 1
		c.announce(c.held[c.turn])
		if err := c.meet(); err != nil {
			return err
		}
	}
}

// allReduceStaged has every rank fold its slice of each piece from the others' slots into
// its own slot. The others take it from there after one more meeting. The first piece is
// staged.
func (c *exchange) allReduceStaged(m *move) error {
	w := &c.work
	unit := c.call.DType.Size()
	for lo := 0; ; {
		hi := min(lo+c.chunk, len(m.src))
		src, dst := m.src[lo:hi], m.dst[lo:hi]
		for p := range w.base {
			// in the slot announced at this meeting
			w.base[p] = c.stagedPiece(p, false, 0, hi-lo)
		}
		if s := protocol.PartLines(hi-lo, unit, c.n, c.rank); s.Len > 0 {
			for p := range w.srcs {
				w.srcs[p] = s.Of(w.base[p])
			}
			w.srcs[c.rank] = s.Of(src)
			w.dsts[0], w.dsts[1] = s.Of(w.base[c.rank]), s.Of(dst)
			c.fold.Fold(c.call, w.dsts[:2], w.srcs)
		}
		if err := c.meet(); err != nil {
			return err
		}
		for i := 1; i < c.n; i++ {
			p := (c.rank + i) % c.n
			if s := protocol.PartLines(hi-lo, unit, c.n, p); s.Len > 0 {
				c.fold.Copy(s.Of(dst), s.Of(w.base[p]))
			}
		}
		if lo = hi; lo == len(m.src) {
			return nil
		}
		c.stage(m, lo/c.chunk)
		if err := c.meet(); err != nil {
			return err
		}
	}
}
