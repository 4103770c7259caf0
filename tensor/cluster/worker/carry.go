package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
)

// carried is a plan as one worker carries it out.
type carried struct {
	plan   *shard.Plan
	stage  int // of this worker, in the plan
	steps  []carriedStep
	values int
	alone  bool // every collective is waited for at once, so that none is ever under way beside a step
}

// carriedStep is a step of this rank with its program compiled. A program that could not be is one that fails.
type carriedStep struct {
	*shard.Step
	program Program
	hash    tensor.Hash
	err     error
	scalars []float64
	inputs  []uint64
	// ends says for every tensor of a collective that nobody needs it afterwards: the result may take its place.
	ends []bool
	// alone is a collective that is waited for at once: it needs no goroutine.
	alone bool
}

// prepare compiles the programs of one rank of a plan, which is of a stage.
func (s *session) prepare(p *shard.Plan, rank, stage int) *carried {
	mine := p.Ranks[rank].Steps
	c := &carried{plan: p, stage: stage, steps: make([]carriedStep, len(mine)), values: len(p.Inputs), alone: true}
	note := func(v shard.Value) { c.values = max(c.values, int(v)+1) }
	started := map[int]*carriedStep{} // and not yet waited for
	reads := func(v shard.Value) {
		for _, from := range started {
			for k, m := range from.Collective.Moves {
				from.ends[k] = from.ends[k] && m.In != v
			}
		}
	}
	for i := range mine {
		step := &c.steps[i]
		step.Step = &mine[i]
		switch step.Kind {
		case shard.RunProgram:
			encoded := step.Run.Program.Append(nil)
			step.hash = tensor.HashOf(encoded)
			step.program, step.err = s.w.dev.Compile(step.hash, encoded)
			step.scalars, step.inputs = make([]float64, len(step.Run.Scalars)), make([]uint64, len(step.Run.Inputs))
			for _, v := range step.Run.Inputs {
				reads(v)
			}
			for _, k := range step.Run.Kept {
				note(k.Value)
			}
		case shard.Start:
			step.ends = make([]bool, len(step.Collective.Moves))
			for k, m := range step.Collective.Moves {
				if step.Collective.Kind != plan.Send {
					note(m.Out)
				}
				if step.Collective.Kind == plan.Recv {
					continue
				}
				step.ends[k] = true
				for _, n := range step.Collective.Moves[:k] {
					step.ends[k] = step.ends[k] && n.In != m.In
				}
				reads(m.In)
			}
			step.alone = i+1 < len(mine) && mine[i+1].Kind == shard.Wait && mine[i+1].Collective.ID == step.Collective.ID
			c.alone = c.alone && step.alone
			started[step.Collective.ID] = step
		case shard.Wait:
			from := started[step.Collective.ID]
			delete(started, step.Collective.ID)
			for k, m := range step.Collective.Moves {
				from.ends[k] = from.ends[k] && slices.Contains(step.Frees, m.In)
			}
		}
	}
	return c
}

// underway is a tensor of a collective that was started.
type underway struct {
	work     *collective.Work // nil if it is done already
	err      error            // then
	src, dst *shm.Block       // one reference each; nil for no bytes
	began    time.Time        // while somebody looks
	moved    int64            // bytes that were sent
}

// carry does this rank's steps of a plan. inputs are ids in the space, 0 for what is not there; outs those of the plan's outputs, 0 for
// what is on another stage. With
// failed, or from the first failure on, it only goes through the motions: it takes part in the collectives with bytes that mean
// nothing, and returns that error. What ends the session is errTeam.
func (s *session) carry(ctx context.Context, c *carried, inputs []uint64, scalars []float64, failed error) (outs []uint64, err error) {
	if cap(s.ids) < c.values {
		s.ids = make([]uint64, c.values)
	}
	ids := s.ids[:c.values]
	clear(ids)
	copy(ids, inputs)
	for i, id := range inputs {
		if id == 0 && failed == nil && c.plan.Inputs[i].Stage == c.stage {
			failed = fmt.Errorf("%w: an input of which this worker has no part", tensor.ErrUnknown)
		}
	}
	cancel := func() {}
	if !c.alone { // else there is nothing to cancel, and a context of its own costs as much as the other books of a small batch
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	first := s.next // what is made here has ids from here on
	pending := map[int][]underway{}
	for i := range c.steps {
		step := &c.steps[i]
		switch step.Kind {
		case shard.RunProgram:
			if failed == nil {
				failed = s.runStep(step, ids, scalars)
			}
		case shard.Start:
			pending[step.Collective.ID], failed = s.start(ctx, step, ids, failed)
		case shard.Wait:
			err := s.wait(step.Collective, pending[step.Collective.ID], ids, &failed)
			delete(pending, step.Collective.ID)
			if err != nil {
				cancel()
				s.abandon(pending)
				s.freeFrom(first, nil)
				return nil, err
			}
		}
		for _, v := range step.Frees {
			s.space.Free(ids[v])
		}
	}
	outs = make([]uint64, len(c.plan.Outputs))
	for i, o := range c.plan.Outputs {
		if failed == nil && o.Stage == c.stage {
			outs[i], failed = s.own(ids[o.Value], first, outs[:i])
		}
	}
	if failed != nil {
		clear(outs)
	}
	s.freeFrom(first, outs)
	return outs, failed
}

// freeFrom frees what has an id from first on, but for outs.
func (s *session) freeFrom(first uint64, outs []uint64) {
	keep := make(map[uint64]bool, len(outs))
	for _, id := range outs {
		keep[id] = true
	}
	for id := first; id < s.next; id++ {
		if !keep[id] {
			s.space.Free(id)
		}
	}
}

// own is id if it was made from first on and is in nobody's hands yet, else another value in the same place.
func (s *session) own(id, first uint64, taken []uint64) (uint64, error) {
	mine := id >= first
	for _, t := range taken {
		mine = mine && t != id
	}
	if mine {
		return id, nil
	}
	v, ok := s.space.Lookup(id)
	if !ok {
		return 0, fmt.Errorf("%w: %d of a plan", tensor.ErrUnknown, id)
	}
	if v.Block != nil {
		v.Block.Retain()
	}
	return s.keep(v.DType, v.Shape, v.Block)
}

// keep makes a value of a block, whose reference it takes over.
func (s *session) keep(d tensor.DType, shape tensor.Shape, b *shm.Block) (uint64, error) {
	id := s.next
	s.next++
	return id, s.space.Import(id, d, shape, b)
}

// runStep runs one program.
func (s *session) runStep(step *carriedStep, ids []uint64, scalars []float64) error {
	if step.err != nil {
		return step.err
	}
	run := step.Run
	for i, v := range run.Inputs {
		step.inputs[i] = ids[v]
	}
	for i, x := range run.Scalars {
		step.scalars[i] = x.Of(scalars)
	}
	base := s.next
	s.next += uint64(len(run.Program.Instrs))
	err := s.runProgram(step.program, step.hash, base, step.inputs, step.scalars)
	var at *tensor.RunError
	if errors.As(err, &at) && at.Instr >= 0 && at.Instr < len(run.Origin) {
		return &tensor.RunError{Instr: run.Origin[at.Instr], Op: at.Op, Inputs: at.Inputs, Err: at.Err}
	}
	if err != nil {
		return err
	}
	for _, k := range run.Kept {
		ids[k.Value] = base + uint64(k.Instr)
	}
	return nil
}

// start starts a collective: one call for each of its tensors.
func (s *session) start(ctx context.Context, step *carriedStep, ids []uint64, failed error) ([]underway, error) {
	c := step.Collective
	if c.Kind.Paired() {
		return s.transfer(ctx, c, ids, failed)
	}
	size := c.DType.Size()
	all := make([]underway, len(c.Moves))
	for k := range c.Moves {
		m, u := &c.Moves[k], &all[k]
		r := collective.Raw{Kind: c.Kind, Op: c.Op, DType: planType(c.DType), Scale: c.Scale, Send: m.Send, Recv: m.Recv}
		in, out := m.InShape.Elems()*size, m.OutShape.Elems()*size
		if failed == nil {
			failed = s.buffers(u, ids[m.In], in, out, c.Kind == plan.AllReduce && step.ends[k])
		}
		if failed != nil {
			r.Src, r.Dst = make([]byte, in), make([]byte, out)
		} else {
			r.Src, r.Dst = bytesOf(u.src, in), bytesOf(u.dst, out)
			s.expose(s.groups[c.Dim], u.src)
			s.expose(s.groups[c.Dim], u.dst)
		}
		s.calls++
		u.moved = sent(c, m, s.mesh.Coord(s.place, c.Dim))
		s.moved += uint64(u.moved)
		u.began = s.w.watch.now()
		if step.alone {
			asked := time.Now()
			u.err = r.Do(ctx, s.groups[c.Dim])
			s.took += time.Since(asked)
			s.waited(c.Kind, u, u.began)
		} else {
			u.work = r.Start(ctx, s.groups[c.Dim])
		}
	}
	return all, failed
}

// buffers finds the memory that a collective reads, and has some for its result: the same where that may be.
func (s *session) buffers(u *underway, id uint64, in, out int, inPlace bool) error {
	v, ok := s.space.Lookup(id)
	if !ok {
		return fmt.Errorf("%w: %d of a plan", tensor.ErrUnknown, id)
	}
	inPlace = inPlace && v.Block != nil && v.Block.Refs() == 1 && !v.Block.ReadOnly()
	if v.Block != nil && in > 0 {
		u.src = v.Block
		u.src.Retain()
	}
	if out == 0 {
		return nil
	}
	if inPlace {
		u.dst = v.Block
		u.dst.Retain()
		return nil
	}
	var err error
	if u.dst, err = s.w.dev.Arena().Alloc(out); err != nil {
		u.release()
		return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
	}
	return nil
}

// exposeBytes is from what size on a tensor is shown to the others: smaller ones go beside a flag, or through a slot once.
const exposeBytes = 8 << 10

// expose lets the workers of g that share this host read the memory that a block of ours lies in, so that a collective takes it from there: they map
// it for reading, each segment once. The block stays as it is until the collective has ended here, which is after the last of them has read
// it: underway has a reference to it. A client's memory they can't read, nor what could be taken away under their eyes; that is
// copied, as for those on other hosts.
func (s *session) expose(g *collective.Group, b *shm.Block) {
	if b == nil || b.ReadOnly() || b.Len() < exposeBytes {
		return
	}
	if seg, err := s.w.dev.Arena().Segment(b.Handle().Segment); err == nil && seg.Backing() == shm.Memfd {
		_ = g.Show(seg) // who can't be reached fails the call that comes next
	}
}

func (u *underway) release() {
	for _, b := range []*shm.Block{u.src, u.dst} {
		if b != nil {
			b.Release()
		}
	}
	u.src, u.dst = nil, nil
}

func bytesOf(b *shm.Block, n int) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()[:n]
}

// wait waits for a collective's end and makes values of what came. Its error is errTeam; any other goes to failed.
func (s *session) wait(c *shard.Collective, all []underway, ids []uint64, failed *error) error {
	var broken error
	waiting, took := time.Now(), time.Duration(0)
	for k := range all {
		u := &all[k]
		if u.work != nil {
			asked := s.w.watch.now()
			<-u.work.Done()
			u.err = u.work.Err()
			took += u.work.Took()
			s.waited(c.Kind, u, asked)
		}
		if err := u.err; err != nil && broken == nil {
			broken = fmt.Errorf("%w: %v: %w", errTeam, c.Kind, err)
		}
		if u.src != nil {
			u.src.Release()
			u.src = nil
		}
	}
	if !c.Kind.Paired() { // a transfer takes as long as the other stage does
		s.took += took
		s.hidden += max(0, took-time.Since(waiting))
	}
	for k := range all {
		u, m := &all[k], &c.Moves[k]
		if c.Kind == plan.Send {
			continue
		}
		if broken != nil || *failed != nil {
			u.release()
			continue
		}
		ids[m.Out], *failed = s.keep(c.DType, m.OutShape, u.dst)
		u.dst = nil
	}
	return broken
}

// abandon waits for what is still under way, after a failure that ends the groups. It was cancelled: a worker at the other end of a pipe
// may itself be here, and take nothing any more.
func (s *session) abandon(pending map[int][]underway) {
	for _, all := range pending {
		for k := range all {
			if all[k].work != nil {
				<-all[k].work.Done()
			}
			all[k].release()
		}
	}
}

// planType returns the element type in which collectives carry d: a bool is folded as a byte.
func planType(d tensor.DType) element.DType {
	if d == tensor.Bool {
		return element.U8
	}
	return d
}

// sent is the bytes that a rank sends in a collective: in a ring, or straight to each other rank in an all-to-all.
func sent(c *shard.Collective, m *shard.Move, place int) int64 {
	size, p := int64(c.DType.Size()), int64(len(c.Group))
	in, out := size*int64(m.InShape.Elems()), size*int64(m.OutShape.Elems())
	switch c.Kind {
	case plan.AllReduce:
		return 2 * in * (p - 1) / p
	case plan.ReduceScatter:
		return in * (p - 1) / p
	case plan.AllGather:
		return out * (p - 1) / p
	}
	return in - size*int64(m.Send[place])
}
