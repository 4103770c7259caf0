package collective

import (
	"context"
	"fmt"
)

func checkAllReduce[T Element](ctx context.Context, c *caseRun, tr *truth[T], op Op, inPlace bool) error {
	mine := tr.inputs[c.g.Rank()]
	src, _ := buffer[T](c, 0, len(mine))
	dst, guard := src, []byte(nil)
	copy(src, mine)
	if !inPlace {
		dst, guard = buffer[T](c, 1, len(mine))
	}
	if err := AllReduce(ctx, c.g, dst, src, op); err != nil {
		return err
	}
	if !inPlace {
		if err := compare(src, mine, nil); err != nil {
			return fmt.Errorf("the source changed: %w", err)
		}
	}
	return compare(dst, tr.folded, guard)
}

func checkReduce[T Element](ctx context.Context, c *caseRun, tr *truth[T], op Op, root int, inPlace bool) error {
	mine := tr.inputs[c.g.Rank()]
	src, _ := buffer[T](c, 0, len(mine))
	dst, guard := src, []byte(nil)
	copy(src, mine)
	switch {
	case c.g.Rank() != root:
		dst = nil
	case !inPlace:
		dst, guard = buffer[T](c, 1, len(mine))
	}
	if err := Reduce(ctx, c.g, dst, src, op, root); err != nil {
		return err
	}
	if c.g.Rank() != root || !inPlace {
		if err := compare(src, mine, nil); err != nil {
			return fmt.Errorf("the source changed: %w", err)
		}
	}
	if c.g.Rank() != root {
		return nil
	}
	return compare(dst, tr.folded, guard)
}

// part is rank's stretch of x.
func part[T any](x []T, counts []int, rank int) []T {
	off := sum(counts[:rank])
	return x[off : off+counts[rank] : off+counts[rank]]
}

func checkReduceScatter[T Element](ctx context.Context, c *caseRun, tr *truth[T], op Op, counts []int, inPlace bool) error {
	rank, n := c.g.Rank(), c.g.Size()
	even := len(tr.folded)%n == 0
	if even { // then the call without counts is meant
		for i := range counts {
			counts = append([]int(nil), counts...)
			counts[i] = len(tr.folded) / n
		}
	}
	src, _ := buffer[T](c, 0, len(tr.folded))
	copy(src, tr.inputs[rank])
	dst, guard := part(src, counts, rank), []byte(nil)
	if !inPlace {
		dst, guard = buffer[T](c, 1, counts[rank])
	}
	var err error
	if even {
		err = ReduceScatter(ctx, c.g, dst, src, op)
	} else {
		err = ReduceScatterV(ctx, c.g, dst, src, counts, op)
	}
	if err != nil {
		return err
	}
	if !inPlace {
		if err := compare(src, tr.inputs[rank], nil); err != nil {
			return fmt.Errorf("the source changed: %w", err)
		}
	}
	return compare(dst, part(tr.folded, counts, rank), guard)
}

func checkBroadcast[T Element](ctx context.Context, c *caseRun, tr *truth[T], root int) error {
	buf, guard := buffer[T](c, 0, len(tr.inputs[root]))
	copy(buf, tr.inputs[c.g.Rank()])
	if err := Broadcast(ctx, c.g, buf, root); err != nil {
		return err
	}
	return compare(buf, tr.inputs[root], guard)
}

// gathered is rank r's part of input r, one behind the other.
func gathered[T Element](tr *truth[T], counts []int) []T {
	var out []T
	for r, n := range counts {
		out = append(out, tr.inputs[r][:n]...)
	}
	return out
}

func checkAllGather[T Element](ctx context.Context, c *caseRun, tr *truth[T], counts []int, even, inPlace bool) error {
	rank := c.g.Rank()
	dst, guard := buffer[T](c, 0, sum(counts))
	clear(dst)
	src := part(dst, counts, rank)
	if !inPlace {
		src, _ = buffer[T](c, 1, counts[rank])
	}
	copy(src, tr.inputs[rank])
	var err error
	if even {
		err = AllGather(ctx, c.g, dst, src)
	} else {
		err = AllGatherV(ctx, c.g, dst, src, counts)
	}
	if err != nil {
		return err
	}
	return compare(dst, gathered(tr, counts), guard)
}

func checkGather[T Element](ctx context.Context, c *caseRun, tr *truth[T], counts []int, even bool, root int, inPlace bool) error {
	rank := c.g.Rank()
	var dst []T
	var guard []byte
	if rank == root {
		dst, guard = buffer[T](c, 0, sum(counts))
		clear(dst)
	}
	src, _ := buffer[T](c, 1, counts[rank])
	if inPlace && rank == root {
		src = part(dst, counts, rank)
	}
	copy(src, tr.inputs[rank])
	var err error
	if even {
		err = Gather(ctx, c.g, dst, src, root)
	} else {
		err = GatherV(ctx, c.g, dst, src, counts, root)
	}
	if err != nil || rank != root {
		return err
	}
	return compare(dst, gathered(tr, counts), guard)
}

func checkScatter[T Element](ctx context.Context, c *caseRun, tr *truth[T], counts []int, even bool, root int, inPlace bool) error {
	rank := c.g.Rank()
	var src []T
	if rank == root {
		src, _ = buffer[T](c, 0, sum(counts))
		copy(src, tr.inputs[root])
	}
	dst, guard := buffer[T](c, 1, counts[rank])
	if inPlace && rank == root {
		dst, guard = part(src, counts, rank), nil
	}
	var err error
	if even {
		err = Scatter(ctx, c.g, dst, src, root)
	} else {
		err = ScatterV(ctx, c.g, dst, src, counts, root)
	}
	if err != nil {
		return err
	}
	return compare(dst, part(tr.inputs[root], counts, rank), guard)
}

func checkAllToAll[T Element](ctx context.Context, c *caseRun, tr *truth[T], even bool) error {
	rank, n := c.g.Rank(), c.g.Size()
	each := len(tr.inputs[0]) / n
	size := func(from, to int) int { // elements that one rank has for another
		if even {
			return each
		}
		return each * ((from + 2*to) % 4) / 4
	}
	send, recv := make([]int, n), make([]int, n)
	var want []T
	for r := range n {
		send[r], recv[r] = size(rank, r), size(r, rank)
	}
	for r := range n {
		off := 0
		for to := range rank {
			off += size(r, to)
		}
		want = append(want, tr.inputs[r][off:off+recv[r]]...)
	}
	src, _ := buffer[T](c, 0, sum(send))
	copy(src, tr.inputs[rank])
	dst, guard := buffer[T](c, 1, sum(recv))
	var err error
	if even {
		err = AllToAll(ctx, c.g, dst, src)
	} else {
		err = AllToAllV(ctx, c.g, dst, src, send, recv)
	}
	if err != nil {
		return err
	}
	return compare(dst, want, guard)
}

// checkRing sends to the next rank and receives from the one before; a rank alone sends
// to itself.
func checkRing[T Element](ctx context.Context, c *caseRun, tr *truth[T]) error {
	rank, n := c.g.Rank(), c.g.Size()
	src, _ := buffer[T](c, 0, len(tr.inputs[rank]))
	copy(src, tr.inputs[rank])
	dst, guard := buffer[T](c, 1, len(src))
	from := (rank + n - 1) % n
	var err error
	if n == 1 {
		if err = Send(ctx, c.g, src, 0); err == nil {
			err = Recv(ctx, c.g, dst, 0)
		}
	} else {
		err = SendRecv(ctx, c.g, src, (rank+1)%n, dst, from)
	}
	if err != nil {
		return err
	}
	return compare(dst, tr.inputs[from], guard)
}
