package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// gather makes values lie so that they can be read: what is a sum not yet taken is taken now. failed is as in program. The values are
// as before until moves are ended, once it is known whether all workers could do it: by the last of them, if that says so (agreed; then
// err is the same on all), else by agree.
func (s *session) gather(ctx context.Context, ids []uint64, failed error) (moves []move, agreed bool, err error) {
	for _, id := range ids {
		v := s.values[id]
		if v == nil {
			if failed == nil {
				failed = fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
			}
			break // on all of them
		}
		to, ok := s.readable(v)
		if !ok && !slices.ContainsFunc(moves, func(m move) bool { return m.v == v }) {
			moves = append(moves, move{v: v, to: to})
		}
	}
	for i := range moves {
		m := &moves[i]
		if m.v.stage != s.stage {
			continue // another stage does it
		}
		c, err := s.redistribution(m.v, m.to)
		if err != nil {
			return moves, false, err
		}
		if i == len(moves)-1 && s.rides(c) {
			m.made, err = s.sumAndAgree(ctx, c, m.v.id, failed)
			return moves, true, err
		}
		all, err := s.carry(ctx, c, []uint64{m.v.id}, nil, failed)
		if failed = err; err == nil {
			m.made = all[0]
		} else if ends(err) {
			return moves, false, err
		}
	}
	return moves, false, failed
}

// makeReadable is gather for all workers or none. All do so for the same values, and fail together.
func (s *session) makeReadable(ctx context.Context, ids []uint64) error {
	moves, agreed, err := s.gather(ctx, ids, nil)
	if !agreed && len(moves) > 0 && !ends(err) {
		err = s.agree(ctx, err)
	}
	for i := range moves {
		moves[i].end(s, err == nil)
	}
	return err
}

// move is a value that is to lie otherwise, once all have what it then is.
type move struct {
	v    *placed
	to   shard.Layout
	made uint64 // what it then is
}

// end is when they have, or one of them has not.
func (m *move) end(s *session, all bool) {
	if !all {
		s.space.Free(m.made)
		return
	}
	s.space.Free(m.v.id)
	m.v.id, m.v.layout = m.made, m.to
}

// scatterFrom is from what size on the terms of a sum are folded each worker a part, for the reader to put together, instead of
// everything by everybody.
const scatterFrom = 64 << 10

// readable says whether v can be read as it lies, and if not, how it is to lie.
func (s *session) readable(v *placed) (to shard.Layout, ok bool) {
	to, ok = v.layout, true
	mesh := s.stages[v.stage].Mesh
	for k := range mesh {
		if _, partial := v.layout[k].Partial(); !partial {
			continue
		}
		ok = false
		to[k] = shard.Replicate
		if len(mesh) == 1 && len(v.shape) > 0 && v.shape[0] >= mesh[k].Size && v.shape.Elems()*v.dtype.Size() >= scatterFrom {
			to[k] = shard.Shard(0)
		}
	}
	return to, ok
}

// redistribution is the plan that makes v lie otherwise.
func (s *session) redistribution(v *placed, to shard.Layout) (*carried, error) {
	s.key = append(appendLayout(appendLayout(s.key[:0], v.layout), to), byte(v.dtype))
	for _, n := range v.shape {
		s.key = binary.AppendUvarint(s.key, uint64(n))
	}
	if c := s.plans[string(s.key)]; c != nil {
		return c, nil
	}
	plan, err := shard.Redistribute(s.mesh, v.dtype, v.shape, v.layout, to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", errProtocol, errInternal, err)
	}
	if len(s.plans) >= maxPlans {
		clear(s.plans)
	}
	c := s.prepare(plan, s.place, 0)
	s.plans[string(s.key)] = c
	return c, nil
}

// shows says whether this rank has something to tell the client that waits for results: a part of one, or, being the first, that all
// is done.
func (s *session) shows(done *wire.Done) bool {
	return s.rank == 0 || slices.ContainsFunc(done.Results, func(r wire.Result) bool { return !r.Elsewhere })
}

// show puts this rank's part of a value into done, unless another has the same one to show.
func (s *session) show(id uint64, v *placed, done *wire.Done) error {
	r := s.result(done)
	r.ID, r.Layout, r.DType, r.Dims = id, v.layout.Bits(), uint8(v.dtype), r.Dims[:0]
	for _, n := range v.shape {
		r.Dims = append(r.Dims, int64(n))
	}
	r.Inline, r.Handle, r.Elsewhere = nil, wire.Handle{}, v.stage != s.stage
	for k := range s.mesh {
		if _, ok := v.layout[k].Sharded(); !ok && s.mesh.Coord(s.place, k) > 0 {
			r.Elsewhere = true
		}
	}
	if r.Elsewhere {
		return nil
	}
	b, n := v.whole, v.shape.Elems()*v.dtype.Size()
	if v.id != 0 {
		part, _ := s.space.Lookup(v.id)
		b, n = part.Block, part.bytes()
	}
	return s.lend(&r.Value, b, n)
}
