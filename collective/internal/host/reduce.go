package host

import (
	"context"
	"encoding/binary"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// AllReduce folds everybody's src, element by element, and stores the result in everybody's dst, of the same length, in place
// if dst is src. With scale other than 1 (floating-point numbers only) the result is multiplied before it is rounded.
//
// Up to Flat bytes everybody folds everything, one meeting. Above, if both buffers of all ranks are registered, every rank
// folds its slice of all sources in one pass and stores it into all destinations, between two meetings: every byte is
// read once and written once. What some have only shown is otherwise, see readable.go. Else through the staging slots: two ranks each fold all, more a slice of each piece.
func (c *Comm) AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	call.Scale = scale
	if err := kernel.CheckFold(call.Op, call.DType, scale, len(src)); err != nil {
		return err
	}
	if err := plan.CheckLen("dst", dst, len(src)); err != nil {
		return err
	}
	err := c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.allReduce(dst, src)
}

func (c *Comm) allReduce(dst, src []byte) error {
	if len(src) <= c.flat || c.n == 1 {
		return c.foldSmall(dst, src, 0)
	}
	return c.allReduceLarge(dst, src)
}

// foldSmall has everybody fold, into its dst, its stretch of what lies in lines or flat slots.
func (c *Comm) foldSmall(dst, src []byte, from int) error {
	inLine := len(src) <= c.inLine
	switch {
	case inLine:
		copy(c.own.lines[(c.epoch+1)&1].room(len(src)), src)
	case c.n > 1:
		c.fillFlat(src)
	}
	c.stats.small++
	c.stats.bytes += uint64(len(src))
	if err := c.meet(); err != nil || len(dst) == 0 {
		return err
	}
	to := from + len(dst)
	if inLine && c.n == 2 {
		x, y := src[from:to], c.peers[1-c.rank].lines[c.epoch&1].room(len(src))[from:to]
		if c.rank == 1 {
			x, y = y, x
		}
		if c.fold.pair(c.call, dst, x, y) {
			return nil
		}
	}
	r := &c.room
	for p := range r.srcs {
		l := &c.peers[p].lines[c.epoch&1]
		switch {
		case p == c.rank:
			r.srcs[p] = src[from:to]
		case inLine:
			r.srcs[p] = l.room(len(src))[from:to]
		default:
			r.srcs[p] = c.readFlat(p, from, to)
		}
	}
	r.dsts[0] = dst
	c.fold.fold(c.call, r.dsts[:1], r.srcs)
	return nil
}

// takeOver is the destinations of a fold into dst that reads a slot of rank p, the other one of two: that slot, too, where vectors store
// it on the way. What is in it is of no use to anybody, but its lines are then this core's alone, and whoever fills the slot anew, this rank
// (slots.go) or its owner, has them at once or gets them many at a time. Lines that two cores have for reading are taken from the other one by
// one, some 9 ns each on Zen 4: with owners that fill their slots, 64 KiB staged take 12.6 µs so, and 4.9 when stored to (1 MiB 128 and 62; where
// the cores are far apart 580 and 155). Emerald Rapids takes them as fast either way, and an all-reduce there 9 to 13 % longer for the stores.
func (c *Comm) takeOver(dst []byte, p int) [][]byte {
	r := &c.room
	r.dsts[0] = dst
	if c.n != 2 || c.fold.set.Level() == kernel.Go {
		return r.dsts[:1]
	}
	r.dsts[1] = r.srcs[p]
	return r.dsts[:2]
}

// elsewhere says, beside the place of the source of an all-reduce, that its result goes to another.
const elsewhere = 1 << 63

func (c *Comm) allReduceLarge(dst, src []byte) error {
	c.stats.bytes += uint64(len(src))
	if k := &c.room.known; k.is(dst, src) {
		return c.allReduceKnown(k, dst, src)
	}
	m := &move{src: src, dst: dst}
	given := c.place(src)
	stored := given
	if &dst[0] != &src[0] {
		stored = c.place(dst)
	}
	registered := given != 0 && stored != 0 && ((given|stored)&readable == 0 || len(src) >= readableMin)
	switch {
	case !registered:
		c.stage(m, 0)
	case stored == given:
		c.say(given)
	default:
		c.say(given | elsewhere | stored&readable)
		binary.LittleEndian.PutUint64(c.payload()[16:], stored)
	}
	if err := c.meet(); err != nil {
		return err
	}
	return c.allReduceMet(m, registered)
}

// allReduceMet goes on when everybody has said where its source is.
func (c *Comm) allReduceMet(m *move, registered bool) error {
	c.hear()
	all, none, only := true, true, false
	for p := range c.peers {
		only = only || c.room.place[p]&readable != 0
		if c.isStaged(p) {
			all = false
		} else {
			none = false
		}
	}
	if all {
		c.stats.direct++
		if only {
			return c.allReduceReadable(m)
		}
		return c.allReduceDirect(m)
	}
	c.stats.staged++
	if !none { // those who hoped for the direct way have yet to stage
		if registered {
			c.stage(m, 0)
		} else {
			c.say(c.held[c.turn])
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

// places finds the sources of all ranks, in their order, and their destinations, as said at the meeting just over: slice s of each. This rank's
// own destination is the first, since a kernel for two ranks fetches the lines of the second from the core that wrote them last.
func (c *Comm) places(m *move, s plan.Slice) error {
	r := &c.room
	for i := range c.n {
		p := (c.rank + i) % c.n
		if i == 0 {
			r.srcs[p], r.dsts[0] = s.Of(m.src), s.Of(m.dst)
			continue
		}
		place := c.room.place[p]
		src, err := c.at(p, place&^elsewhere, len(m.src))
		if err != nil {
			return err
		}
		if place&elsewhere != 0 {
			place = binary.LittleEndian.Uint64(c.peers[p].lines[c.epoch&1].payload[16:])
		}
		dst, err := c.into(p, place, len(m.src))
		if err != nil {
			return err
		}
		r.srcs[p], r.dsts[i] = s.Of(src), s.Of(dst)
	}
	return nil
}

// slice is the part of n bytes that rank p of ranks folds: whole cache lines where there are enough, so that no two ranks store
// to the same.
func slice(n, unit, ranks, p int) plan.Slice {
	const line = 64
	if n < ranks*line {
		return plan.Part(n, unit, ranks, p)
	}
	s := plan.Part(n/line*line, line, ranks, p)
	if p == ranks-1 {
		s.Len = n - s.Off
	}
	return s
}

func (c *Comm) allReduceDirect(m *move) error {
	s := slice(len(m.src), c.call.DType.Size(), c.n, c.rank)
	if err := c.places(m, s); err != nil {
		return err
	}
	c.learn(m)
	if s.Len > 0 {
		c.fold.fold(c.call, c.room.dsts, c.room.srcs)
	}
	return c.meet()
}

// refillBytes is how much of a slot is folded before it is filled again. It then still is in a level 1 or 2 cache.
const refillBytes = 16 << 10

// allReducePair has each of two ranks fold piece after piece of both, and fill the slot of the other's piece with its own next one on the
// way. The first piece is staged.
func (c *Comm) allReducePair(m *move) error {
	r := &c.room
	peer := 1 - c.rank
	for lo, hi := 0, 0; ; lo = hi {
		hi = min(lo+c.chunk, len(m.src))
		slot, src, dst := c.takeSlot(peer), m.src[lo:hi], m.dst[lo:hi]
		next := m.src[hi:min(hi+c.chunk, len(m.src))]
		for at := 0; at < len(src); at += refillBytes {
			end := min(at+refillBytes, len(src))
			r.srcs[c.rank], r.srcs[peer] = src[at:end], slot[at:end]
			c.fold.fold(c.call, c.takeOver(dst[at:end], peer), r.srcs)
			if at < len(next) {
				end = min(end, len(next))
				c.fold.set.Copy(slot[at:end], next[at:end])
			}
		}
		if len(next) == 0 {
			return nil
		}
		c.turn ^= 1
		c.say(c.held[c.turn])
		if err := c.meet(); err != nil {
			return err
		}
	}
}

// allReduceStaged has every rank fold its slice of each piece from the others' slots into its own, from where the others take
// it after one more meeting. The first piece is staged.
func (c *Comm) allReduceStaged(m *move) error {
	r := &c.room
	for lo := 0; ; {
		hi := min(lo+c.chunk, len(m.src))
		src, dst := m.src[lo:hi], m.dst[lo:hi]
		for p := range r.base {
			r.base[p] = c.stagedPiece(p, false, 0, hi-lo) // of the slot said at this meeting
		}
		unit := c.call.DType.Size()
		if s := slice(hi-lo, unit, c.n, c.rank); s.Len > 0 {
			for p := range r.srcs {
				r.srcs[p] = s.Of(r.base[p])
			}
			r.srcs[c.rank] = s.Of(src)
			r.dsts[0], r.dsts[1] = s.Of(r.base[c.rank]), s.Of(dst)
			c.fold.fold(c.call, r.dsts[:2], r.srcs)
		}
		if err := c.meet(); err != nil {
			return err
		}
		for i := 1; i < c.n; i++ {
			p := (c.rank + i) % c.n
			if s := slice(hi-lo, unit, c.n, p); s.Len > 0 {
				c.fold.set.Copy(s.Of(dst), s.Of(r.base[p]))
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

// reduceLarge reduces to a root what is larger than flat. If all sources and the root's destination are registered, every rank
// folds a slice and stores it there; else the root does it all.
func (c *Comm) reduceLarge(dst, src []byte, root int) error {
	m := c.sharedFold(dst, src)
	le := binary.LittleEndian
	le.PutUint64(c.payload()[16:], 0)
	if root == c.rank {
		if place := c.place(dst); place&readable == 0 {
			le.PutUint64(c.payload()[16:], place)
		}
	}
	c.offer(m)
	if err := c.meet(); err != nil {
		return err
	}
	c.hear()
	into := le.Uint64(c.peers[root].lines[c.epoch&1].payload[16:])
	all := into != 0
	for p := range c.peers {
		all = all && !c.isStaged(p)
	}
	if !all {
		return c.take(m)
	}
	r := &c.room
	s := slice(len(src), c.call.DType.Size(), c.n, c.rank)
	for p := range r.srcs {
		b, err := c.source(p, m)
		if err != nil {
			return err
		}
		r.srcs[p] = s.Of(b)
	}
	if root == c.rank {
		r.dsts[0] = s.Of(dst)
	} else {
		b, err := c.into(root, into, len(src))
		if err != nil {
			return err
		}
		r.dsts[0] = s.Of(b)
	}
	if s.Len > 0 {
		c.fold.fold(c.call, r.dsts[:1], r.srcs)
	}
	return c.meet()
}
