package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// scatterBytes is the size from which on each worker reduces a part of a sum, which the
// reader puts together, instead of all workers reducing everything.
const scatterBytes = 64 << 10

// change is a value that gets another layout when all workers have what it then is.
type change struct {
	v    *placed
	to   shard.Layout
	made uint64 // its part in the new layout
}

// end gives the value its new layout if all workers have theirs, otherwise the old one
// stays.
func (l *ledger) end(c *change, all bool) {
	if !all {
		l.space.Free(c.made)
		return
	}
	l.space.Free(c.v.id)
	c.v.id, c.v.layout = c.made, c.to
}

// gather gives values layouts in which they can be read: sums that are not taken yet are
// taken. failed is the failure of this worker, as in carry.
//
// The values stay as they are until the caller ends the changes, when it knows whether
// all workers have theirs. agreed reports that the last change has told that: err is the
// same on all workers then. Otherwise the caller calls agree.
func (l *ledger) gather(ctx context.Context, ids []uint64, failed error) (changes []change, agreed bool, err error) {
	for _, id := range ids {
		v := l.values[id]
		if v == nil {
			if failed == nil {
				failed = fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
			}
			break // on all workers
		}
		to, ok := l.readableLayout(v)
		if !ok && !slices.ContainsFunc(changes, func(c change) bool { return c.v == v }) {
			changes = append(changes, change{v: v, to: to})
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.v.stage != l.stage {
			continue // the workers of its stage do it
		}
		r, err := l.redistribution(c.v, c.to)
		if err != nil {
			return changes, false, err
		}
		if i == len(changes)-1 && l.rides(r) {
			c.made, err = l.sumAndAgree(ctx, r, c.v.id, failed)
			return changes, true, err
		}
		outs, err := l.carry(ctx, r, []uint64{c.v.id}, nil, failed)
		if failed = err; err == nil {
			c.made = outs[0]
		} else if ends(err) {
			return changes, false, err
		}
	}
	return changes, false, failed
}

// readable gathers values on all workers or on none. All workers call it for the same
// values, and fail together.
func (l *ledger) readable(_ context.Context, ids []uint64) error {
	changes, agreed, err := l.gather(l.ctx, ids, nil)
	if !agreed && len(changes) > 0 && !ends(err) {
		err = l.agree(l.ctx, err)
	}
	for i := range changes {
		l.end(&changes[i], err == nil)
	}
	return err
}

// readableLayout returns the layout in which v can be read, and whether it has that.
func (l *ledger) readableLayout(v *placed) (to shard.Layout, ok bool) {
	to, ok = v.layout, true
	mesh := l.stages[v.stage].Mesh
	for k := range mesh {
		if _, partial := v.layout[k].Partial(); !partial {
			continue
		}
		ok = false
		to[k] = shard.Replicate
		if len(mesh) == 1 && len(v.shape) > 0 && v.shape[0] >= mesh[k].Size && v.bytes() >= scatterBytes {
			to[k] = shard.Shard(0)
		}
	}
	return to, ok
}

// firstWith reports whether this worker has the lowest rank of those with its part of v.
// Another shift may choose another of them, so that they share the work of a Save.
func (l *ledger) firstWith(v *placed, shift int) bool {
	for k := range l.mesh {
		if _, ok := v.layout[k].Sharded(); !ok && l.mesh.Coord(l.place, k) != shift%l.mesh[k].Size {
			return false
		}
	}
	return true
}

// fetch adds this rank's part of a value to the answer, unless another rank has the same
// part and adds it.
func (l *ledger) fetch(id uint64, v *placed, done *wire.Done) error {
	r := l.results.next(done, id, v.dtype, v.shape)
	r.Layout = v.layout.Bits()
	if r.Elsewhere = v.stage != l.stage || !l.firstWith(v, 0); r.Elsewhere {
		return nil
	}
	if v.id != 0 {
		mine, ok := l.space.Lookup(v.id)
		if !ok {
			return fmt.Errorf("%w: %d", tensor.ErrUnknown, v.id)
		}
		return l.results.add(done, l.space, v.id, mine.Bytes(), l.replies.inlineBytes())
	}
	return l.results.addBlock(done, v.whole, v.bytes(), l.replies.inlineBytes())
}

// part returns this worker's part of the i-th value of a Save, and whether this worker is
// to write it. Workers that have the same parts share the values between them.
func (l *ledger) part(i int, id uint64) (p part, mine bool, err error) {
	v := l.values[id]
	if v == nil {
		return p, false, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if v.failed != nil {
		return p, false, v.failed
	}
	if v.stage != l.stage {
		return p, false, nil
	}
	if v.lies {
		if err := l.settle(v); err != nil {
			return p, false, err
		}
	}
	if !l.firstWith(v, i) {
		return p, false, nil
	}
	start, local := l.mesh.Local(v.layout, v.shape, l.place)
	p.Start, p.Dims = start, local
	p.id, p.bytes = v.id, local.Elems()*v.dtype.Size()
	if v.id == 0 {
		p.block = v.whole
	}
	return p, true, nil
}
