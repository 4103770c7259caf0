package onehost

import (
	"context"
	"encoding/binary"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// Do makes one call. All ranks make the same calls in the same order, with the same Call
// and counts, which they compare where they meet. Buffers hold elements of the call's
// DType at any alignment. A rank's Dst and Src do not overlap, with these exceptions:
// they may be the same slice in an all-reduce, a reduce and an all-to-all, which then
// takes a copy; and the buffer of this rank's part may be its place in the buffer of all
// parts.
//
// Do returns when this rank's part is done: results are in place, and buffers are the
// caller's again. Other ranks may still be in the call. Every collective waits until all
// ranks have come, but for Broadcast. That waits for the root; the root, of more than it
// copies, waits until all have taken the values.
//
// Errors: protocol.ErrBadCall for arguments that do not fit, before anything is said to
// other ranks; all others are *protocol.PeerError.
func (c *Comm) Do(ctx context.Context, r protocol.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Run(ctx, &r)
}

// Run is Do without the lock, for a caller that makes one call at a time: while it is
// under way no method of the Comm may be called but Abort, Alloc, Free, Show and Err.
func (c *Comm) Run(ctx context.Context, r *protocol.Request) error {
	if err := kernel.CheckRequest(r, c.rank, c.n); err != nil {
		return err
	}
	if err := c.begin(ctx, r); err != nil {
		return err
	}
	return c.perform(r)
}

// begin starts a call that is not persistent, and encodes it unless the last one of its
// kind was the same.
func (c *Comm) begin(ctx context.Context, r *protocol.Request) error {
	e := &c.last[r.Kind()]
	again := r.Call
	again.Seq = e.call.Seq
	if e.hash == 0 || again != e.call {
		e.set(&r.Call)
		for parity, d := range c.declared {
			if d == e {
				c.declared[parity] = nil
			}
		}
	}
	if err := c.start(ctx, e, r.Call.Seq); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return c.kill(&protocol.PeerError{Rank: c.rank, Call: *c.call, Err: ipc.ContextError(ctx)})
	}
	return nil
}

// start starts e as the seq-th call.
func (c *Comm) start(ctx context.Context, e *encoded, seq uint64) error {
	if dead := c.dead.Load(); dead != nil {
		return dead
	}
	e.call.Seq = seq
	c.call, c.hash, c.ctx, c.timing = &e.call, e.hash+seq*golden, ctx, false
	if !e.call.Kind.Paired() { // those are counted apart
		c.recent[seq%recentCalls] = c.hash
	}
	c.stats.Calls++
	c.declare(e, (c.epoch+1)&1, seq)
	return nil
}

// declare writes e, as the seq-th call, for ranks that find another mark at a meeting of
// that parity.
func (c *Comm) declare(e *encoded, parity, seq uint64) {
	b := c.self.lines[parity].call
	if c.declared[parity] != e { // else all but the number stands there
		copy(b, e.text[:])
		c.declared[parity] = e
	}
	binary.LittleEndian.PutUint64(b, seq)
}

// perform moves the bytes of a call that was checked and started.
func (c *Comm) perform(r *protocol.Request) error {
	switch r.Kind() {
	case protocol.AllReduce:
		if len(r.Src) <= c.flat || c.n == 1 {
			return c.foldSmall(r.Dst, r.Src, 0)
		}
		return c.allReduceLarge(r.Dst, r.Src)
	case protocol.Reduce:
		return c.reduce(r)
	case protocol.ReduceScatter:
		return c.reduceScatter(r)
	case protocol.AllGather:
		if r.Counts == nil && len(r.Src) <= c.flat {
			return c.gatherSmall(r.Dst, r.Src)
		}
		return c.gather(r, true)
	case protocol.Gather:
		return c.gather(r, c.rank == r.Peer)
	case protocol.Broadcast:
		if c.rank == r.Peer {
			return c.give(r.Dst)
		}
		return c.receive(r.Dst, r.Peer)
	case protocol.Scatter:
		return c.scatter(r)
	case protocol.AllToAll:
		return c.allToAll(r)
	case protocol.Send:
		return c.send(r.Peer, r.Dst)
	case protocol.Recv:
		return c.recv(r.Peer, r.Dst)
	}
	return c.meet() // Barrier
}

// reduce folds all sources into the root's destination.
func (c *Comm) reduce(r *protocol.Request) error {
	w := &c.work
	for p := range w.total {
		w.total[p], w.want[p] = len(r.Src), protocol.Slice{Len: len(r.Src)}
	}
	m := &move{src: r.Src, fold: true}
	if c.rank == r.Peer {
		m.dst = r.Dst
	}
	if len(r.Src) > c.flat && c.n > 1 {
		return c.reduceLarge(m, r.Peer)
	}
	return c.run(m)
}

// reduceLarge reduces what is larger than flat. If all sources and the root's destination
// are registered, every rank folds a slice and stores it there; else the root folds
// everything.
func (c *Comm) reduceLarge(m *move, root int) error {
	c.announceResult(0)
	if root == c.rank {
		if location := c.locate(m.dst); location&readOnly == 0 {
			c.announceResult(location)
		}
	}
	c.offer(m)
	if err := c.meet(); err != nil {
		return err
	}
	c.collect()
	into := c.announcedResult(root)
	all := into != 0
	for p := range c.peers {
		all = all && !c.isStaged(p)
	}
	if !all {
		return c.take(m)
	}
	w := &c.work
	s := protocol.PartLines(len(m.src), c.call.DType.Size(), c.n, c.rank)
	for p := range w.srcs {
		b, err := c.source(p, m)
		if err != nil {
			return err
		}
		w.srcs[p] = s.Of(b)
	}
	dst := m.dst
	if root != c.rank {
		var err error
		if dst, err = c.memory.into(root, into, len(m.src)); err != nil {
			return err
		}
	}
	if s.Len > 0 {
		w.dsts[0] = s.Of(dst)
		c.fold.Fold(c.call, w.dsts[:1], w.srcs)
	}
	return c.meet()
}

// reduceScatter folds all sources and stores in each destination its rank's part.
func (c *Comm) reduceScatter(r *protocol.Request) error {
	w := &c.work
	counts, _ := r.Parts(w.even)
	if len(r.Src) <= c.flat {
		from := 0
		for _, n := range counts[:c.rank] {
			from += n
		}
		return c.foldSmall(r.Dst, r.Src, from)
	}
	m := &move{src: r.Src, dst: r.Dst, fold: true, split: true}
	c.stretches(counts, m)
	for p := range w.total {
		w.total[p], w.want[p] = len(r.Src), w.give[c.rank]
	}
	return c.run(m)
}

// gatherSmall is an all-gather of parts of one length through lines or flat slots.
func (c *Comm) gatherSmall(dst, src []byte) error {
	n := len(src)
	c.work.total[c.rank] = n
	c.offer(&move{src: src})
	if err := c.meet(); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	for i := range c.n {
		p := (c.rank + i) % c.n
		into := dst[p*n : p*n+n]
		switch {
		case p == c.rank:
			if &into[0] != &src[0] {
				c.fold.Copy(into, src)
			}
		case n <= c.inLine:
			copy(into, c.met(p).room(n))
		default:
			c.fold.Copy(into, c.readFlat(p, 0, n))
		}
	}
	return nil
}

// gather stores all sources, one after the other, in the destination if this rank takes
// them.
func (c *Comm) gather(r *protocol.Request, takes bool) error {
	w := &c.work
	counts, _ := r.Parts(w.even)
	w.reset()
	off := 0
	for p, n := range counts {
		w.total[p] = n
		if takes {
			w.want[p], w.into[p] = protocol.Slice{Len: n}, protocol.Slice{Off: off, Len: n}
		}
		off += n
	}
	return c.run(&move{src: r.Src, dst: r.Dst})
}

// scatter stores each part of the root's source in its rank's destination.
func (c *Comm) scatter(r *protocol.Request) error {
	w := &c.work
	counts, _ := r.Parts(w.even)
	w.reset()
	m := &move{src: r.Src, dst: r.Dst, split: true}
	c.stretches(counts, m)
	for _, n := range counts {
		w.total[r.Peer] += n
	}
	w.want[r.Peer], w.into[r.Peer] = w.give[c.rank], protocol.Slice{Len: len(r.Dst)}
	return c.run(m)
}

// allToAll sends part p of the source to each rank p, and stores what p sends as part p
// of the destination. Only the sender knows the counts of all its parts, so it says them
// in its table.
func (c *Comm) allToAll(r *protocol.Request) error {
	src := r.Src
	if len(src) > 0 && len(r.Dst) > 0 && &r.Dst[0] == &src[0] {
		src = append([]byte(nil), src...)
	}
	w := &c.work
	counts, recv := r.Parts(w.even)
	w.reset()
	m := &move{src: src, dst: r.Dst, split: true, table: true}
	c.stretches(counts, m)
	off := 0
	for p, n := range recv {
		w.into[p] = protocol.Slice{Off: off, Len: n}
		off += n
	}
	w.total[c.rank] = len(src)
	table := c.upcoming().table
	for p, s := range w.give {
		binary.LittleEndian.PutUint64(table[p*tableEntry:], uint64(s.Off))
		binary.LittleEndian.PutUint64(table[p*tableEntry+8:], uint64(s.Len))
	}
	return c.run(m)
}
