package wide

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// The calls. All ranks make the same ones in the same order, with the same call and counts; they are compared where data
// meets (plan.Call.Word). What call says is the caller's, its Root may count other ranks than this comm does, but Op and
// DType say what is computed, and two calls of a comm do not have one Seq, unless they are alike. Buffers are bytes that hold elements of call.DType at any alignment. Those of a rank do not
// overlap, unless it says "in place". A call returns when this rank's part is done: results are in place and buffers are
// the caller's again, but another rank may still be at it (Barrier says more).
//
// Errors: plan.ErrBadCall for arguments that do not fit, before anything is sent; all others are *plan.PeerError.

// AllReduce folds everybody's src, element by element, and stores the result in everybody's dst, of the same length, in place
// if dst is src. With scale other than 1 (floating-point numbers only) the result is multiplied before it is rounded.
func (c *Comm) AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error {
	if err := kernel.CheckFold(call.Op, call.DType, scale, len(src)); err != nil {
		return err
	}
	if err := plan.CheckLen("dst", dst, len(src)); err != nil {
		return err
	}
	call = scaling(call, scale)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(src) <= c.oneShot {
		piece := min(len(src), c.chunk)
		c.memory.reset(room(c.n*slots, piece) + c.folder.room(call.DType, c.fold, piece))
		c.folder.prepare(call, scale, c.fold, piece, &c.memory)
		return c.run(ctx, call, c.exchange(dst, src))
	}
	t := c.cutting()
	t.src, t.all, t.everyone = src, dst, true
	for p := range c.n {
		t.parts[p], t.owners[p] = plan.Part(len(src), call.DType.Size(), c.n, p), true
	}
	t.dst = t.parts[c.rank].Of(dst)
	return c.runCutting(ctx, call, scale, t)
}

// Reduce folds everybody's src into the root's dst; the others' dst is not used. In place as AllReduce.
func (c *Comm) Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error {
	if err := plan.CheckRoot(root, c.n); err != nil {
		return err
	}
	if err := kernel.CheckFold(call.Op, call.DType, scale, len(src)); err != nil {
		return err
	}
	if root == c.rank {
		if err := plan.CheckLen("dst", dst, len(src)); err != nil {
			return err
		}
	} else {
		dst = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call = scaling(call, scale)
	t := c.cutting()
	t.src = src
	if c.n <= 2 || len(src) <= c.oneShot {
		// The root folds all.
		for p := range c.n {
			t.parts[p], t.owners[p] = plan.Slice{}, p == root
		}
		t.parts[root] = plan.Slice{Len: len(src)}
		t.dst = dst
		return c.runCutting(ctx, call, scale, t)
	}
	// The others fold a part each, so that the root gets the buffer once and not from everybody.
	t.all, t.to = dst, root
	for p := range c.n {
		t.parts[p], t.owners[p] = othersPart(len(src), call.DType.Size(), c.n, root, p), p != root
	}
	return c.runCutting(ctx, call, scale, t)
}

// othersPart is the part of p of what is divided among all but the root.
func othersPart(n, unit, ranks, root, p int) plan.Slice {
	switch {
	case p == root:
		return plan.Slice{}
	case p > root:
		p--
	}
	return plan.Part(n, unit, ranks-1, p)
}

// ReduceScatter folds everybody's src and stores part r of the result, counts[r] bytes, in rank r's dst. The parts lie in src
// one behind the other. dst may be this rank's part of src.
func (c *Comm) ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error {
	total, err := plan.CheckCounts(counts, c.n, max(1, call.DType.Size()))
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
	c.mu.Lock()
	defer c.mu.Unlock()
	call = scaling(call, scale)
	t := c.cutting()
	t.src, t.dst = src, dst
	if t.dst == nil {
		t.dst = []byte{}
	}
	off := 0
	for p, n := range counts {
		t.parts[p], t.owners[p] = plan.Slice{Off: off, Len: n}, true
		off += n
	}
	return c.runCutting(ctx, call, scale, t)
}

// cutting prepares the comm's job of that type.
func (c *Comm) cutting() *cutting {
	t := &c.jobs.cutting
	t.src, t.dst, t.all, t.everyone, t.to = nil, nil, nil, false, -1
	if len(t.parts) != c.n {
		t.parts, t.owners = make([]plan.Slice, c.n), make([]bool, c.n)
	}
	return t
}

func (c *Comm) runCutting(ctx context.Context, call plan.Call, scale float64, t *cutting) error {
	part := t.parts[c.rank].Len
	piece := min(part, c.chunk)
	c.memory.reset(t.room(c, part) + c.folder.room(call.DType, c.fold, piece))
	c.folder.prepare(call, scale, c.fold, piece, &c.memory)
	t.prepare(c)
	return c.run(ctx, call, t)
}

// AllGather stores everybody's src, counts[r] bytes from rank r, one behind the other in everybody's dst. src may be this
// rank's part of dst.
func (c *Comm) AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error {
	total, err := plan.CheckCounts(counts, c.n, 1)
	if err == nil {
		err = plan.CheckLen("dst", dst, total)
	}
	if err == nil {
		err = plan.CheckLen("src", src, counts[c.rank])
	}
	if err != nil {
		return err
	}
	m := c.moving()
	defer c.mu.Unlock()
	off := 0
	for p, n := range counts {
		part := dst[off : off+n]
		off += n
		if p == c.rank {
			place(part, src)
			continue
		}
		m.sendTo(p, src)
		m.recvFrom(p, part)
	}
	return c.run(ctx, call, m)
}

// place copies src to where it belongs, unless it is there.
func place(dst, src []byte) {
	if !same(dst, src) {
		kernel.Copy(dst, src)
	}
}

// Broadcast stores the root's buf in everybody's.
func (c *Comm) Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error {
	if err := plan.CheckRoot(root, c.n); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n <= 2 || len(buf) <= c.oneShot {
		parent, children := plan.Tree(c.rank, root, c.n)
		return c.run(ctx, call, &spreading{c: c, buf: buf, parent: parent, children: children})
	}
	r := &relaying{c: c, buf: buf, root: root, parts: make([]plan.Slice, c.n)}
	for p := range c.n {
		r.parts[p] = othersPart(len(buf), 64, c.n, root, p)
	}
	if last := &r.parts[c.n-1]; root != c.n-1 {
		last.Len = len(buf) - last.Off
	} else {
		last = &r.parts[c.n-2]
		last.Len = len(buf) - last.Off
	}
	return c.run(ctx, call, r)
}

// Scatter stores part r of the root's src, counts[r] bytes, in rank r's dst; the others' src is not used. At the root dst may
// be its part of src.
func (c *Comm) Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
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
	m := c.moving()
	defer c.mu.Unlock()
	if root != c.rank {
		m.recvFrom(root, dst)
		return c.run(ctx, call, m)
	}
	off := 0
	for p, n := range counts {
		part := src[off : off+n]
		off += n
		if p == c.rank {
			place(dst, part)
			continue
		}
		m.sendTo(p, part)
	}
	return c.run(ctx, call, m)
}

// Gather stores everybody's src, counts[r] bytes from rank r, one behind the other in the root's dst; the others' dst is not
// used. At the root src may be its part of dst.
func (c *Comm) Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error {
	total, err := plan.CheckCounts(counts, c.n, 1)
	if err == nil {
		err = plan.CheckRoot(root, c.n)
	}
	if err == nil && root == c.rank {
		err = plan.CheckLen("dst", dst, total)
	}
	if err == nil {
		err = plan.CheckLen("src", src, counts[c.rank])
	}
	if err != nil {
		return err
	}
	m := c.moving()
	defer c.mu.Unlock()
	if root != c.rank {
		m.sendTo(root, src)
		return c.run(ctx, call, m)
	}
	off := 0
	for p, n := range counts {
		part := dst[off : off+n]
		off += n
		if p == c.rank {
			place(part, src)
			continue
		}
		m.recvFrom(p, part)
	}
	return c.run(ctx, call, m)
}

// AllToAll sends part r of src, sendCounts[r] bytes, to rank r, and stores what rank r sends, recvCounts[r] bytes, as part r
// of dst. What a rank sends another is what that one expects. In place, if dst is src, it takes a copy.
func (c *Comm) AllToAll(ctx context.Context, call plan.Call, dst, src []byte, sendCounts, recvCounts []int) error {
	out, err := plan.CheckCounts(sendCounts, c.n, 1)
	if err == nil {
		err = plan.CheckLen("src", src, out)
	}
	var in int
	if err == nil {
		in, err = plan.CheckCounts(recvCounts, c.n, 1)
	}
	if err == nil {
		err = plan.CheckLen("dst", dst, in)
	}
	if err == nil && sendCounts[c.rank] != recvCounts[c.rank] {
		err = fmt.Errorf("%w: rank %d sends itself %d bytes and expects %d", plan.ErrBadCall, c.rank, sendCounts[c.rank], recvCounts[c.rank])
	}
	if err != nil {
		return err
	}
	m := c.moving()
	defer c.mu.Unlock()
	if same(dst, src) {
		c.memory.reset(len(src))
		copied := c.memory.take(len(src))
		kernel.Copy(copied, src)
		src = copied
	}
	from, to := 0, 0
	for p := range c.n {
		part, place := src[from:from+sendCounts[p]], dst[to:to+recvCounts[p]]
		from += sendCounts[p]
		to += recvCounts[p]
		if p == c.rank {
			kernel.Copy(place, part)
			continue
		}
		m.sendTo(p, part)
		m.recvFrom(p, place)
	}
	return c.run(ctx, call, m)
}

// Barrier returns when every rank has called it.
func (c *Comm) Barrier(ctx context.Context, call plan.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run(ctx, call, meeting{c})
}

// moving locks the comm and prepares its job of that type.
func (c *Comm) moving() *moving {
	c.mu.Lock()
	c.jobs.moving.reset(c.n)
	return &c.jobs.moving
}

// scaling has ranks that scale differently differ in their calls.
func scaling(call plan.Call, scale float64) plan.Call {
	if call.Scale == 0 {
		call.Scale = scale
	}
	return call
}
