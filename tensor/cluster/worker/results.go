package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// maxInlined bounds the bytes of results that one answer carries inline.
const maxInlined = 4 << 10

// results hands values to a session's client: as handles of blocks that are leased to it,
// or inline in the answer.
//
// add and addBlock put results into an answer. hand asks the space for the host blocks of
// all values at once, so that a device waits and copies once per batch.
type results struct {
	arena     *shm.Arena
	session   uint64
	mapped    bool                // the client maps segments of the arena
	announced map[uint64]struct{} // those that it has

	wanted  []uint64 // values of the answer that are to be leased,
	sizes   []int    // their bytes,
	at      []int    // and their places in it
	leased  []wire.Handle
	inlined []byte // of results in the answer
}

// begin begins an answer.
func (r *results) begin() {
	r.wanted, r.sizes, r.at = r.wanted[:0], r.sizes[:0], r.at[:0]
	r.leased, r.inlined = r.leased[:0], r.inlined[:0]
}

// next returns one more element of done.Results, which reuses the memory of an older one.
func (r *results) next(done *wire.Done, id uint64, d tensor.DType, shape tensor.Shape) *wire.Result {
	n := len(done.Results)
	done.Results = slices.Grow(done.Results, 1)[:n+1]
	x := &done.Results[n]
	x.ID, x.DType, x.Dims = id, uint8(d), append(x.Dims[:0], shape...)
	x.Inline, x.Handle, x.Layout, x.Elsewhere = nil, wire.Handle{}, 0, false
	return x
}

// add puts the n bytes of value id into the last result of done: now if they travel
// inline, at most inlineMax of them, otherwise by hand.
func (r *results) add(done *wire.Done, space device.Space, id uint64, n, inlineMax int) error {
	x := &done.Results[len(done.Results)-1]
	if n == 0 {
		x.Inline = []byte{}
		return nil
	}
	if n > inlineMax || len(r.inlined)+n > maxInlined {
		r.wanted, r.sizes, r.at = append(r.wanted, id), append(r.sizes, n), append(r.at, len(done.Results)-1)
		return nil
	}
	b, err := space.Read(id, 0, n)
	if err != nil {
		return err
	}
	r.inline(x, b)
	return nil
}

// inline copies b into an answer.
func (r *results) inline(x *wire.Result, b []byte) {
	at := len(r.inlined)
	r.inlined = append(r.inlined, b...)
	x.Inline = r.inlined[at:]
}

// addBlock puts the first n bytes of an upload that is no value yet into the last result
// of done. The caller keeps its reference to b, which is nil for no bytes.
func (r *results) addBlock(done *wire.Done, b *shm.Block, n, inlineMax int) error {
	x := &done.Results[len(done.Results)-1]
	switch {
	case b == nil || n == 0:
		x.Inline = []byte{}
	case n <= inlineMax && len(r.inlined)+n <= maxInlined:
		r.inline(x, b.Bytes()[:n])
	default:
		return r.lend(x, b, n)
	}
	return nil
}

// hand puts the handles of the values of the answer into it, and returns their number.
func (r *results) hand(done *wire.Done, space device.Space) (int, error) {
	blocks, err := space.Host(r.wanted...)
	if err != nil {
		return 0, err
	}
	for i, b := range blocks {
		if err == nil {
			err = r.lend(&done.Results[r.at[i]], b, r.sizes[i])
		}
		b.Release()
	}
	return len(blocks), err
}

// lend leases a block to the client. A block of the client's memory needs no lease: the
// client keeps that as long as it likes.
func (r *results) lend(x *wire.Result, b *shm.Block, n int) error {
	if !b.ReadOnly() {
		if err := r.arena.Lease(b, r.session); err != nil {
			return fmt.Errorf("%w: %w: %w", errProtocol, errInternal, err)
		}
		r.leased = append(r.leased, b.Handle())
	}
	x.Handle = b.Handle()
	x.Handle.Len = uint64(n)
	return nil
}

// revoke ends the leases of an answer that is not given.
func (r *results) revoke() {
	for _, h := range r.leased {
		_ = r.arena.Unlease(h, r.session)
	}
	r.leased = r.leased[:0]
}

// announce tells the client of the segments that the answer's handles are in.
func (r *results) announce(ctx context.Context, to replier) error {
	if !r.mapped {
		return nil
	}
	for _, h := range r.leased {
		if _, ok := r.announced[h.Segment]; ok {
			continue
		}
		seg, err := r.arena.Segment(h.Segment)
		if err != nil {
			return fmt.Errorf("%w: result in %w", errInternal, err)
		}
		m := wire.Segment{Session: r.session, ID: seg.ID(), Bytes: uint64(seg.Size()), Memory: wire.MemoryHost}
		if err := to.send(ctx, wire.KindSegment, &m, seg.File()); err != nil {
			return err
		}
		r.announced[h.Segment] = struct{}{}
	}
	return nil
}
