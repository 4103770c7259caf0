package crosshost

import (
	"context"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Do makes one call. All ranks make the same calls in the same order, with the same Call
// and counts, which they compare where data meets (protocol.Call.Hash). The call's Root
// may count other ranks than the comm does. Two calls of a comm do not have one Seq,
// unless they are alike. Buffers hold elements of the call's DType at any alignment. A
// rank's Dst and Src do not overlap, with these exceptions: they may be the same slice in
// an all-reduce, a reduce and an all-to-all, which then takes a copy; and the buffer of
// this rank's part may be its place in the buffer of all parts.
//
// Do returns when this rank's part is done: results are in place, and buffers are the
// caller's again. Other ranks may still be in the call. Barrier returns when every rank
// has called it.
//
// Errors: protocol.ErrBadCall for arguments that do not fit, before anything is sent; all
// others are *protocol.PeerError.
func (c *Comm) Do(ctx context.Context, r protocol.Request) error {
	if err := kernel.CheckRequest(&r, c.rank, c.n); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.jobs.forget()
	return c.run(ctx, r.Call, c.jobOf(&r))
}

// jobOf prepares the job of a call that was checked. mu is held.
func (c *Comm) jobOf(r *protocol.Request) job {
	switch r.Kind() {
	case protocol.AllReduce:
		return c.allReduce(r)
	case protocol.Reduce:
		return c.reduce(r)
	case protocol.ReduceScatter:
		return c.reduceScatter(r)
	case protocol.Broadcast:
		if c.n > 2 && len(r.Dst) > c.oneShot {
			return c.broadcast(r)
		}
	}
	return c.move(r)
}

// allReduce cuts the buffer into a part for every rank. Of a small buffer every rank's
// part is the whole.
func (c *Comm) allReduce(r *protocol.Request) job {
	t := c.cutting()
	if len(r.Src) <= c.oneShot {
		t.src, t.dst, t.overwrites = r.Src, r.Dst, same(r.Dst, r.Src)
		for p := range c.n {
			t.parts[p], t.owners[p] = protocol.Slice{Len: len(r.Src)}, true
		}
		return c.prepare(t)
	}
	t.src, t.all, t.everyone = r.Src, r.Dst, true
	for p := range c.n {
		t.parts[p], t.owners[p] = protocol.Part(len(r.Src), r.Call.DType.Size(), c.n, p), true
	}
	t.dst = t.parts[c.rank].Of(r.Dst)
	return c.prepare(t)
}

// reduce has the root fold everything, or, of large buffers, each of the other ranks a
// part: then the root receives the buffer once, and not from every rank.
func (c *Comm) reduce(r *protocol.Request) job {
	t := c.cutting()
	t.src = r.Src
	var dst []byte
	if r.Peer == c.rank {
		dst = r.Dst
	}
	if c.n <= 2 || len(r.Src) <= c.oneShot {
		for p := range c.n {
			t.parts[p], t.owners[p] = protocol.Slice{}, p == r.Peer
		}
		t.parts[r.Peer] = protocol.Slice{Len: len(r.Src)}
		t.dst = dst
		return c.prepare(t)
	}
	t.all, t.to = dst, r.Peer
	for p := range c.n {
		t.parts[p], t.owners[p] = othersPart(len(r.Src), r.Call.DType.Size(), c.n, r.Peer, p), p != r.Peer
	}
	return c.prepare(t)
}

// othersPart returns the part of rank p of n bytes that are divided among all but the
// root.
func othersPart(n, unit, ranks, root, p int) protocol.Slice {
	switch {
	case p == root:
		return protocol.Slice{}
	case p > root:
		p--
	}
	return protocol.Part(n, unit, ranks-1, p)
}

// reduceScatter has every rank fold its part.
func (c *Comm) reduceScatter(r *protocol.Request) job {
	t := c.cutting()
	t.src, t.dst = r.Src, r.Dst
	if t.dst == nil {
		t.dst = []byte{}
	}
	counts, _ := r.Parts(c.jobs.even)
	off := 0
	for p, n := range counts {
		t.parts[p], t.owners[p] = protocol.Slice{Off: off, Len: n}, true
		off += n
	}
	return c.prepare(t)
}

// cutting returns the comm's job of that type, cleared.
func (c *Comm) cutting() *cutting {
	t := &c.jobs.cutting
	t.src, t.dst, t.all, t.everyone, t.overwrites, t.to = nil, nil, nil, false, false, -1
	if len(t.parts) != c.n {
		t.parts, t.owners = make([]protocol.Slice, c.n), make([]bool, c.n)
	}
	return t
}

// prepare takes the memory for t.
func (c *Comm) prepare(t *cutting) job {
	c.memory.reset(room(c.n*slots, min(t.parts[c.rank].Len, c.chunk)))
	t.prepare(c)
	return t
}

// broadcast sends a large buffer to several ranks: a part to each, which passes it on.
func (c *Comm) broadcast(r *protocol.Request) job {
	buf, root := r.Dst, r.Peer
	t := &relaying{c: c, buf: buf, root: root, parts: make([]protocol.Slice, c.n)}
	for p := range c.n {
		t.parts[p] = othersPart(len(buf), 64, c.n, root, p)
	}
	last := &t.parts[c.n-1]
	if root == c.n-1 {
		last = &t.parts[c.n-2]
	}
	last.Len = len(buf) - last.Off
	return t
}

// move is a call that moves one piece between any two ranks at most, of a barrier an
// empty one. An all-to-all in place sends from a copy.
func (c *Comm) move(r *protocol.Request) job {
	m, kind, src := &c.jobs.moving, r.Kind(), r.Src
	m.reset(c.n)
	switch {
	case kind == protocol.Send, kind == protocol.Broadcast:
		src = r.Dst
	case kind == protocol.AllToAll && same(r.Dst, src):
		c.memory.reset(len(src))
		src = c.memory.take(len(src))
		kernel.Copy(src, r.Src)
	}
	// whether src, and Dst, has a part for each rank
	splits := kind == protocol.Scatter || kind == protocol.AllToAll
	joins := kind == protocol.Gather || kind == protocol.AllGather || kind == protocol.AllToAll
	counts, recv := r.Parts(c.jobs.even)
	if kind != protocol.AllToAll {
		recv = counts
	}
	from, to := 0, 0
	for p := range c.n {
		out, in, gives, takes := src, r.Dst, true, true
		switch kind {
		case protocol.Send:
			gives, takes = p == r.Peer, false
		case protocol.Recv:
			gives, takes = false, p == r.Peer
		case protocol.Broadcast, protocol.Scatter:
			gives, takes = c.rank == r.Peer, p == r.Peer
		case protocol.Gather:
			gives, takes = p == r.Peer, c.rank == r.Peer
		}
		if gives && splits {
			out = src[from : from+counts[p]]
			from += counts[p]
		}
		if takes && joins {
			in = r.Dst[to : to+recv[p]]
			to += recv[p]
		}
		if p == c.rank {
			if gives && takes {
				place(in, out)
			}
			continue
		}
		if gives {
			m.sendTo(p, out)
		}
		if takes {
			m.recvFrom(p, in)
		}
	}
	return m
}

// place copies src to dst, unless it is there.
func place(dst, src []byte) {
	if !same(dst, src) {
		kernel.Copy(dst, src)
	}
}
