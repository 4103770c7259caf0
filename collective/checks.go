package collective

import (
	"context"
	"fmt"
	"math"

	"github.com/ringside-go/ringside/collective/protocol"
)

// request returns the request of a call on slices, for check to complete. counts are in
// elements; peer is the root, or the other rank of a send or receive.
func request[T Element](kind protocol.Kind, op Op, dst, src []T, counts []int, peer int) (r protocol.Request) {
	r.Dst, r.Src, r.Counts, r.Peer = bytesOf(dst), bytesOf(src), counts, peer
	r.Call.Kind, r.Call.Op, r.Call.DType = kind, op, dtypeOf[T]()
	r.Call.Count = int64(max(len(dst), len(src)))
	return r
}

// call makes the call of a request.
func call[T Element](ctx context.Context, g *Group, kind protocol.Kind, op Op, dst, src []T, counts []int, peer int) error {
	r := request(kind, op, dst, src, counts, peer)
	return g.do(ctx, &r)
}

// start starts the call of a request.
func start[T Element](ctx context.Context, g *Group, kind protocol.Kind, op Op, dst, src []T, counts []int, peer int) *Work {
	r := request(kind, op, dst, src, counts, peer)
	return g.begin(ctx, &r)
}

// has returns ErrRank unless rank is one of the group's.
func (g *Group) has(rank int, what string) error {
	if rank < 0 || rank >= g.size {
		return fmt.Errorf("%w: %s %d, expected 0 to %d", ErrRank, what, rank, g.size-1)
	}
	return nil
}

// inBytes returns counts of elements in bytes; nil stays nil.
func inBytes(counts []int, size int) ([]int, error) {
	if counts == nil {
		return nil, nil
	}
	out := make([]int, len(counts))
	for i, n := range counts {
		if n < 0 || n > math.MaxInt/size {
			return nil, fmt.Errorf("%w: %d elements of rank %d", ErrLength, n, i)
		}
		out[i] = n * size
	}
	return out, nil
}

// check refuses a request whose ranks, lengths, buffers or operation do not belong
// together, and completes the others.
func (g *Group) check(r *protocol.Request) error {
	c := &r.Call
	root := g.rank == r.Peer
	switch c.Kind {
	case protocol.Barrier:
		return nil
	case protocol.AllReduce: // the most frequent call, without the rest
		if len(r.Dst) == len(r.Src) && (same(r.Dst, r.Src) || !overlap(r.Dst, r.Src)) {
			return g.checkFold(c)
		}
	case protocol.Send, protocol.Recv:
		return g.has(r.Peer, "peer") // a rank may be its own
	case protocol.Broadcast, protocol.Reduce, protocol.Gather, protocol.Scatter:
		if err := g.has(r.Peer, "root"); err != nil {
			return err
		}
		c.Root = int32(r.Peer)
		if !root && c.Kind == protocol.Scatter {
			r.Src = nil
		} else if !root && c.Kind != protocol.Broadcast {
			r.Dst = nil
		}
	}
	if r.Counts != nil || r.Recv != nil {
		if err := g.convertCounts(r); err != nil {
			return err
		}
	}
	if err := r.Check(g.rank, g.size); err != nil {
		return fmt.Errorf("%w: %v of %v: %w", ErrLength, c.Kind, c.DType, err)
	}
	g.setCount(r)
	if overlap(r.Dst, r.Src) && !g.mayOverlap(r) {
		return fmt.Errorf("%w: %v", ErrOverlap, c.Kind)
	}
	if !c.Kind.Folds() {
		return nil
	}
	return g.checkFold(c)
}

// convertCounts makes the counts of r bytes, and notes those that all ranks know.
func (g *Group) convertCounts(r *protocol.Request) (err error) {
	counts, size := r.Counts, r.Call.DType.Size()
	if r.Counts, err = inBytes(counts, size); err == nil {
		r.Recv, err = inBytes(r.Recv, size)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", r.Call.Kind, err)
	}
	if r.Call.Kind != protocol.AllToAll {
		r.Call.Counts = protocol.HashCounts(counts)
	}
	return nil
}

// setCount corrects the count of a checked call whose longest buffer not all ranks have.
func (g *Group) setCount(r *protocol.Request) {
	one := len(r.Src)
	switch c := &r.Call; c.Kind {
	case protocol.Reduce:
		c.Count = int64(one / c.DType.Size())
	case protocol.AllToAll:
		if r.Counts != nil {
			c.Count = 0 // counts are between pairs
		}
	case protocol.Scatter:
		one = len(r.Dst)
		fallthrough
	case protocol.Gather:
		whole := one * g.size
		if r.Counts != nil {
			whole = sum(r.Counts)
		}
		c.Count = int64(whole / c.DType.Size())
	}
}

// mayOverlap reports whether the buffers of a checked call, which share memory, are the
// same, or one is its own place among the parts of the other, in a call that allows it.
func (g *Group) mayOverlap(r *protocol.Request) bool {
	one, all := r.Dst, r.Src
	switch r.Call.Kind {
	case protocol.AllReduce, protocol.Reduce:
		return same(one, all)
	case protocol.AllToAll:
		return false
	case protocol.AllGather, protocol.Gather:
		one, all = all, one
	}
	counts, _ := r.Parts(make([]int, g.size))
	return same(one, protocol.Packed(counts)[g.rank].Of(all))
}
