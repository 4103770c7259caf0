package host

import (
	"context"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// The calls. All ranks make the same ones in the same order, with the same call and counts, which are compared where they
// meet (wordOf). Buffers are bytes that hold elements of call.DType at any alignment. Those of a rank do not
// overlap, unless it says "in place". A call returns when this rank's part is done: results are in place and buffers are
// the caller's again, but another rank may still be at it. Every collective waits until all ranks have come, but for Broadcast, which
// waits for the root, and the root, of more than it copies, until all have taken it.
//
// Errors: plan.ErrBadCall for arguments that do not fit, before anything is said to anybody; all others are *plan.PeerError.

// Reduce folds everybody's src into the root's dst; the others' dst is not used. In place as AllReduce.
func (c *Comm) Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error {
	call.Scale, call.Root = scale, int32(root)
	if err := plan.CheckRoot(root, c.n); err != nil {
		return err
	}
	if err := kernel.CheckFold(call.Op, call.DType, scale, len(src)); err != nil {
		return err
	}
	if root != c.rank {
		dst = nil
	} else if err := plan.CheckLen("dst", dst, len(src)); err != nil {
		return err
	}
	err := c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	if len(src) > c.flat && c.n > 1 {
		return c.reduceLarge(dst, src, root)
	}
	return c.run(c.sharedFold(dst, src))
}

// sharedFold is the move in which those with a dst fold all sources.
func (c *Comm) sharedFold(dst, src []byte) *move {
	r := &c.room
	for p := range r.total {
		r.total[p], r.want[p] = len(src), plan.Slice{Len: len(src)}
	}
	return &move{src: src, dst: dst, fold: true}
}

// ReduceScatter folds everybody's src and stores part r of the result, counts[r] bytes, in rank r's dst. The parts lie in src
// one behind the other. dst may be this rank's part of src.
func (c *Comm) ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	call.Scale = scale
	total, err := plan.CheckCounts(counts, c.n, max(1, sizeOf(call.DType)))
	if err == nil {
		err = kernel.CheckFold(call.Op, call.DType, scale, total)
	}
	if err == nil {
		err = plan.CheckLen("src", src, total)
	}
	if err == nil {
		err = plan.CheckLen("dst", dst, counts[c.rank])
	}
	if err != nil {
		return err
	}
	err = c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.reduceScatter(dst, src, counts)
}

func (c *Comm) reduceScatter(dst, src []byte, counts []int) error {
	if len(src) <= c.flat {
		from := 0
		for _, n := range counts[:c.rank] {
			from += n
		}
		return c.foldSmall(dst, src, from)
	}
	m := &move{src: src, dst: dst, fold: true, split: true}
	c.stretches(counts, m)
	for p := range c.room.total {
		c.room.total[p], c.room.want[p] = len(src), c.room.give[c.rank]
	}
	return c.run(m)
}

// stretches has counts[r] bytes of this rank's source go to rank r.
func (c *Comm) stretches(counts []int, m *move) {
	off := 0
	for p, n := range counts {
		c.room.give[p] = plan.Slice{Off: off, Len: n}
		m.longest = max(m.longest, n)
		off += n
	}
}

// AllGather stores everybody's src, counts[r] bytes from rank r, one behind the other in everybody's dst. src may be this
// rank's part of dst.
func (c *Comm) AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error {
	return c.gather(ctx, call, dst, src, counts, -1)
}

// Gather stores everybody's src, counts[r] bytes from rank r, one behind the other in the root's dst; the others' dst is not
// used. At the root src may be its part of dst.
func (c *Comm) Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	call.Root = int32(root)
	if err := plan.CheckRoot(root, c.n); err != nil {
		return err
	}
	return c.gather(ctx, call, dst, src, counts, root)
}

// gather is AllGather and, with a root of at least 0, Gather.
func (c *Comm) gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	takes := root < 0 || root == c.rank
	total, err := plan.CheckCounts(counts, c.n, 1)
	if err == nil && takes {
		err = plan.CheckLen("dst", dst, total)
	}
	if err == nil {
		err = plan.CheckLen("src", src, counts[c.rank])
	}
	if err != nil {
		return err
	}
	err = c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.gatherAll(dst, src, counts, takes)
}

// gatherSmall is an all-gather of equal parts through lines or flat slots.
func (c *Comm) gatherSmall(dst, src []byte) error {
	n := len(src)
	c.room.total[c.rank] = n
	c.offer(&move{src: src})
	if err := c.meet(); err != nil {
		return err
	}
	for i := range c.n {
		p := (c.rank + i) % c.n
		l, into := &c.peers[p].lines[c.epoch&1], dst[p*n:p*n+n]
		switch {
		case p == c.rank:
			if n > 0 && &into[0] != &src[0] {
				c.fold.set.Copy(into, src)
			}
		case n <= c.inLine:
			copy(into, l.room(n))
		default:
			c.fold.set.Copy(into, c.readFlat(p, 0, n))
		}
	}
	return nil
}

func (c *Comm) gatherAll(dst, src []byte, counts []int, takes bool) error {
	r := &c.room
	r.reset()
	off := 0
	for p, n := range counts {
		r.total[p] = n
		if takes {
			r.want[p], r.into[p] = plan.Slice{Len: n}, plan.Slice{Off: off, Len: n}
		}
		off += n
	}
	return c.run(&move{src: src, dst: dst})
}

// Broadcast stores the root's buf in everybody's.
func (c *Comm) Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error {
	call.Root = int32(root)
	if err := plan.CheckRoot(root, c.n); err != nil {
		return err
	}
	err := c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.broadcast(buf, root)
}

// Scatter stores part r of the root's src, counts[r] bytes, in rank r's dst; the others' src is not used. At the root dst may
// be its part of src.
func (c *Comm) Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	call.Root = int32(root)
	total, err := plan.CheckCounts(counts, c.n, 1)
	if err == nil {
		err = plan.CheckRoot(root, c.n)
	}
	if err == nil && root == c.rank {
		err = plan.CheckLen("src", src, total)
	}
	if err == nil {
		err = plan.CheckLen("dst", dst, counts[c.rank])
	}
	if err != nil {
		return err
	}
	err = c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	r := &c.room
	r.reset()
	m := &move{src: src, dst: dst, split: true}
	c.stretches(counts, m)
	r.total[root] = total
	r.want[root], r.into[root] = r.give[c.rank], plan.Slice{Len: len(dst)}
	return c.run(m)
}

// Barrier returns when every rank has called it.
func (c *Comm) Barrier(ctx context.Context, call plan.Call) error {
	err := c.begin(ctx, &call)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.meet()
}

// sizeOf is the bytes of an element of any type, 0 for one that is not valid.
func sizeOf(dt element.DType) int {
	if !dt.Valid() {
		return 0
	}
	return dt.Size()
}
