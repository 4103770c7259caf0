package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
)

// carrier carries out this rank's steps of plans: programs on the device, and collectives
// with the session's other workers.
//
// A failure that only one worker may have, such as too little memory for its part, must
// not leave the others waiting. The worker that fails goes through the rest of the plan
// and takes part in its collectives with meaningless bytes. At the end of a batch the
// workers vote (see vote.go), so that the batch has failed on all of them or on none.
type carrier struct {
	*base
	*team
	// ctx is the context of calls of the groups. It is cancelled when the session ends.
	ctx context.Context

	some   someFailed // of the plan that runs
	next   uint64     // id of the next value in the space; the worker chooses its ids
	ids    []uint64   // ids of the values of the plan that runs, by shard.Var
	ballot []byte     // memory for votes that travel with a value

	// took is how long collectives ran, hidden the part of it in which the worker did not
	// wait for them.
	took, hidden time.Duration
}

// movement is one tensor of a collective that was started.
type movement struct {
	group    *collective.Group
	work     *collective.Work // nil if the call has returned
	err      error            // of a call that has returned
	src, dst *shm.Block       // u holds a reference to each; nil for no bytes
	began    time.Time        // zero while the worker does not measure
	moved    int64            // bytes sent

	lacks   bool           // this worker lacks the value, and sends meaningless bytes
	near    bool           // the devices move the values, without host memory
	pending device.Pending // the result, if near
	flight  *flight        // of a transfer, if near
}

// done is closed when what was started has ended. It is nil if the call has returned.
func (u *movement) done() <-chan struct{} {
	switch {
	case u.work != nil:
		return u.work.Done()
	case u.flight != nil:
		return u.flight.done
	}
	return nil
}

// release releases the memory of a movement.
func (u *movement) release() {
	for _, b := range []*shm.Block{u.src, u.dst} {
		if b != nil {
			b.Release()
		}
	}
	if u.pending != nil {
		u.pending.Drop()
	}
	u.src, u.dst, u.pending = nil, nil, nil
}

// carry does this rank's steps of a plan. inputs are ids in the space, 0 for a value that
// this worker does not have. It returns the ids of the plan's outputs, 0 for those of
// other stages.
//
// If failed is not nil, carry runs no program: it only takes part in the collectives,
// with meaningless bytes, and returns that error. It does the same after a first failure
// of its own. With a *someFailed it returns the outputs that do not depend on the
// failures, and 0 for the others. An error that is errTeam ends the session.
func (c *carrier) carry(ctx context.Context, r *rankPlan, inputs []uint64, scalars []float64, failed error) (outs []uint64, err error) {
	if cap(c.ids) < r.values {
		c.ids = make([]uint64, r.values)
	}
	ids := c.ids[:r.values]
	clear(ids)
	copy(ids, inputs)
	for i, id := range inputs {
		if id == 0 && failed == nil && r.plan.Inputs[i].Stage == r.stage {
			failed = fmt.Errorf("%w: an input of which this worker has no part", tensor.ErrUnknown)
		}
	}
	// If all collectives are inline nothing can be cancelled, and the context would be a
	// large part of the cost of a small plan.
	cancel := func() {}
	if !r.inline {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	c.some.all = nil
	first := c.next // values that are made here have ids from here on
	pending := map[int][]movement{}
	for i := range r.steps {
		step := &r.steps[i]
		switch step.Kind {
		case shard.RunProgram:
			if failed == nil {
				failed = c.runStep(step, ids, scalars)
			}
		case shard.Start:
			pending[step.Collective.ID], failed = c.start(ctx, step, ids, failed)
		case shard.Wait:
			err := c.wait(step.Collective, pending[step.Collective.ID], ids, &failed)
			delete(pending, step.Collective.ID)
			if err != nil {
				cancel()
				abandon(pending)
				c.freeFrom(first, nil)
				return nil, err
			}
		}
		for _, v := range step.Frees {
			c.space.Free(ids[v])
		}
	}
	if late := c.space.Sync(); failed == nil {
		failed = late
	}
	if failed != nil {
		c.freeFrom(first, nil)
		return make([]uint64, len(r.plan.Outputs)), originError(failed, r.steps)
	}
	if outs, err = c.outputs(r, ids, first); err == nil && len(c.some.all) > 0 {
		err = &someFailed{c.some.all}
	}
	return outs, err
}

// lacks reports whether a failure of this worker prevented the value.
func (c *carrier) lacks(id uint64) bool {
	if len(c.some.all) == 0 {
		return false
	}
	_, exists := c.space.Lookup(id)
	return !exists
}

// outputs returns the ids of a plan's outputs, a different one for each (see unique). It
// frees all other values whose ids are first or larger.
func (c *carrier) outputs(r *rankPlan, ids []uint64, first uint64) (outs []uint64, err error) {
	outs = make([]uint64, len(r.plan.Outputs))
	for i, o := range r.plan.Outputs {
		if err == nil && o.Stage == r.stage && !c.lacks(ids[o.Var]) {
			outs[i], err = c.unique(ids[o.Var], first, outs[:i])
		}
	}
	if err != nil {
		clear(outs)
	}
	c.freeFrom(first, outs)
	return outs, err
}

// freeFrom frees the values whose ids are first or larger, except outs.
func (c *carrier) freeFrom(first uint64, outs []uint64) {
	keep := make(map[uint64]bool, len(outs))
	for _, id := range outs {
		keep[id] = true
	}
	for id := first; id < c.next; id++ {
		if !keep[id] {
			c.space.Free(id)
		}
	}
}

// unique returns id if this plan made the value (its id is first or larger) and taken
// does not have it. Otherwise it makes an alias of the value and returns the alias's id.
func (c *carrier) unique(id, first uint64, taken []uint64) (uint64, error) {
	if id >= first && !slices.Contains(taken, id) {
		return id, nil
	}
	as := c.newID()
	return as, c.space.Alias(as, id)
}

// newID returns an id for a new value.
func (c *carrier) newID() uint64 {
	id := c.next
	c.next++
	return id
}

// keep makes a value of a block, whose reference it takes over.
func (c *carrier) keep(d tensor.DType, shape tensor.Shape, b *shm.Block) (uint64, error) {
	id := c.newID()
	return id, c.space.Import(id, d, shape, b, false)
}

// runStep runs one program.
func (c *carrier) runStep(step *planStep, ids []uint64, scalars []float64) error {
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
	step.first = c.next
	c.next += uint64(len(run.Program.Instrs))
	if err := c.runProgram(step.program, step.hash, step.first, step.inputs, step.scalars); err != nil {
		err = step.origin(err)
		some, ok := err.(*someFailed)
		if !ok {
			return err
		}
		c.some.all = append(c.some.all, some.all...)
	}
	for _, k := range run.Kept {
		ids[k.Var] = step.first + uint64(k.Instr)
	}
	return nil
}

// origin returns the error of a step's program. If it names an instruction, the result
// names the instruction of the client's program from which that was made. A failure with
// Rest becomes a *someFailed, without the failures that name no instruction.
func (step *planStep) origin(err error) error {
	if f, ok := err.(*device.Failure); ok && f.Rest && f.Base == step.first {
		some := new(someFailed)
		for _, x := range append([]*device.Failure{f}, f.More...) {
			if at, ok := step.origin(x.Err).(*tensor.RunError); ok {
				some.all = append(some.all, asAgreed(at))
			}
		}
		return some
	}
	var at *tensor.RunError
	if errors.As(err, &at) && at.Instr >= 0 && at.Instr < len(step.Run.Origin) {
		return &tensor.RunError{Instr: step.Run.Origin[at.Instr], Op: at.Op, Inputs: at.Inputs, Err: at.Err}
	}
	return err
}

// originError returns err or, if err is a *device.Failure, the error of the step whose
// program failed (see origin).
func originError(err error, steps []planStep) error {
	var late *device.Failure
	if !errors.As(err, &late) {
		return err
	}
	for i := range steps {
		if step := &steps[i]; step.Kind == shard.RunProgram && step.first == late.Base {
			return step.origin(late.Err)
		}
	}
	return late.Err
}

// start starts a collective: one call for each of its tensors.
func (c *carrier) start(ctx context.Context, step *planStep, ids []uint64, failed error) ([]movement, error) {
	x := step.Collective
	if x.Kind.Paired() {
		return c.transfer(ctx, x, ids, failed)
	}
	if c.near[x.Dim].peers != nil {
		return c.startNear(ctx, step, ids, failed)
	}
	size, group := x.DType.Size(), c.groups[x.Dim]
	all := make([]movement, len(x.Moves))
	for k := range x.Moves {
		m, u := &x.Moves[k], &all[k]
		r := collective.Raw{Kind: x.Kind, Op: x.Op, DType: elementType(x.DType), Scale: x.Scale, Send: m.Send, Recv: m.Recv}
		in, out := m.InShape.Elems()*size, m.OutShape.Elems()*size
		if u.lacks = c.lacks(ids[m.In]); failed == nil && !u.lacks {
			failed = c.buffers(u, ids[m.In], out, step.dead[k], x.Kind == protocol.AllReduce)
		}
		r.Src, r.Dst = bytesOr(u.src, in), bytesOr(u.dst, out)
		c.show(group, u.src)
		c.show(group, u.dst)
		c.sends(u, group, sentBytes(x, m, c.mesh.Coord(c.place, x.Dim)))
		if step.inline {
			asked := time.Now()
			u.err = c.call(ctx, &r, group)
			c.took += time.Since(asked)
			c.waited(x.Kind, u, u.began)
		} else {
			u.work = r.Start(ctx, group)
		}
	}
	return all, failed
}

// sends counts one call in g, which sends n bytes, and notes in u when it began.
func (c *carrier) sends(u *movement, g *collective.Group, n int64) {
	u.group = g
	c.traffic.calls++
	c.traffic.moved += uint64(n)
	u.moved = n
	u.began = c.monitor.now()
}

// transfer starts sending a value to a worker of another stage, or receiving one.
func (c *carrier) transfer(ctx context.Context, x *shard.Collective, ids []uint64, failed error) ([]movement, error) {
	pair, size := [2]int(x.Group), x.DType.Size()
	if c.links[pair].Link != nil {
		return c.transferNear(ctx, x, ids, failed)
	}
	pipe := c.pipes[pair]
	m, u := &x.Moves[0], &movement{group: pipe, began: c.monitor.now()}
	if x.Kind == protocol.Recv {
		n := m.OutShape.Elems() * size
		if failed == nil {
			failed = c.alloc(u, n)
		}
		u.work = collective.RecvAsync(ctx, pipe, bytesOr(u.dst, n), 0)
		return []movement{*u}, failed
	}
	n := m.InShape.Elems() * size
	if u.lacks = c.lacks(ids[m.In]); failed == nil && !u.lacks {
		failed = c.buffers(u, ids[m.In], 0, false, false)
	}
	c.sends(u, pipe, int64(n))
	c.traffic.byHost++
	u.work = collective.SendAsync(ctx, pipe, bytesOr(u.src, n), 1)
	return []movement{*u}, failed
}

// buffers sets u.src to the host memory of value id, which a collective reads, and u.dst
// to memory of out bytes for its result. Both are the same memory if the value is dead,
// the collective works in place, and nothing else refers to the memory.
func (c *carrier) buffers(u *movement, id uint64, out int, dead, inPlace bool) error {
	blocks, err := c.space.Host(id)
	if err != nil {
		return err
	}
	u.src = blocks[0]
	if dead && inPlace {
		c.space.Free(id)
		if u.src != nil && u.src.Refs() == 1 && !u.src.ReadOnly() {
			u.dst = u.src
			u.dst.Retain()
			return nil
		}
	}
	if err := c.alloc(u, out); err != nil {
		u.release()
		return err
	}
	return nil
}

// alloc sets u.dst to n bytes of host memory for a result.
func (c *carrier) alloc(u *movement, n int) (err error) {
	if n == 0 {
		return nil
	}
	if u.dst, err = c.dev.Arena().Alloc(n); err != nil {
		return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
	}
	return nil
}

// showBytes is the least size of a tensor whose memory is shown to the other workers. A
// collective copies smaller ones, through memory of its own.
const showBytes = 8 << 10

// show lets the workers of g on this host read the memory of a block, so that a
// collective reads it there: they map each segment once. The movement has a reference to
// the block until the collective has ended here, and it ends here only after the last
// worker has read the block. A client's memory cannot be shown, nor a segment that could
// shrink while it is read. These are copied, as they are for workers of other hosts.
func (c *carrier) show(g *collective.Group, b *shm.Block) {
	if b == nil || b.ReadOnly() || b.Len() < showBytes {
		return
	}
	if seg, err := c.dev.Arena().Segment(b.Handle().Segment); err == nil && seg.Backing() == shm.Memfd {
		c.shown[seg.ID()] = struct{}{}
		_ = g.Show(seg) // a worker that cannot be reached fails the next call
	}
}

// wait waits for a collective's end and makes values of the results. It returns errTeam
// if the collective failed, and stores any other error in failed.
func (c *carrier) wait(x *shard.Collective, all []movement, ids []uint64, failed *error) error {
	var broken error
	waiting, took := time.Now(), time.Duration(0)
	for k := range all {
		u := &all[k]
		if done := u.done(); done != nil {
			asked := c.monitor.now()
			c.finish(done)
			if u.work != nil {
				u.err = u.work.Err()
				took += u.work.Took()
			} else if u.err = u.flight.broken; *failed == nil {
				*failed = u.flight.err
			}
			c.waited(x.Kind, u, asked)
		}
		if err := u.err; err != nil && broken == nil {
			broken = fmt.Errorf("%w: %v: %w", errTeam, x.Kind, err)
		}
		if u.src != nil {
			u.src.Release()
			u.src = nil
		}
	}
	if !x.Kind.Paired() { // a transfer takes as long as the other stage needs
		c.took += took
		c.hidden += max(0, took-time.Since(waiting))
	}
	for k := range all {
		u, m := &all[k], &x.Moves[k]
		if x.Kind == protocol.Send {
			u.release()
			continue
		}
		if broken != nil || *failed != nil || u.lacks {
			u.release()
			continue
		}
		if u.near {
			ids[m.Out], *failed = c.finishNear(u, device.Value{DType: x.DType, Shape: m.OutShape})
			continue
		}
		ids[m.Out], *failed = c.keep(x.DType, m.OutShape, u.dst)
		u.dst = nil
	}
	return broken
}

// waited tells the monitor that a collective has ended. The worker began to wait for it
// at asked.
func (c *carrier) waited(kind protocol.Kind, u *movement, asked time.Time) {
	event := wire.EventCollective
	if u.done() != nil {
		event = wire.EventOverlapped
	}
	if c.monitor.on {
		c.monitor.collective(c.id, &c.usage, event, wire.PackCollective(uint8(kind), wayOf(u)), u.began, asked, u.moved)
	}
}

// wayOf returns how the ranks of a movement reach each other.
func wayOf(u *movement) wire.Way {
	switch hosts := len(u.group.Hosts()); {
	case u.near:
		return wire.WayNear
	case hosts == 1:
		return wire.WayShared
	case hosts == u.group.Size():
		return wire.WayTCP
	}
	return wire.WayBoth
}

// abandon waits until the movements that are still under way have ended, after a failure
// that ends the groups. The caller has cancelled them: the worker at the other end of a
// pipe may have failed as well and receive nothing more, so they might never end.
func abandon(pending map[int][]movement) {
	for _, all := range pending {
		for k := range all {
			if done := all[k].done(); done != nil {
				<-done
			}
			all[k].release()
		}
	}
}

// bytesOr returns the first n bytes of a block, or n meaningless ones if there is none.
func bytesOr(b *shm.Block, n int) []byte {
	if b == nil {
		return make([]byte, n)
	}
	return b.Bytes()[:n]
}

// elementType returns the element type in which collectives carry d: a bool is folded as
// a byte.
func elementType(d tensor.DType) element.DType {
	if d == tensor.Bool {
		return element.U8
	}
	return d
}

// sentBytes returns the bytes that a rank sends in a collective: in a ring, or directly
// to each other rank in an all-to-all.
func sentBytes(x *shard.Collective, m *shard.Move, place int) int64 {
	size, p := int64(x.DType.Size()), int64(len(x.Group))
	in, out := size*int64(m.InShape.Elems()), size*int64(m.OutShape.Elems())
	switch x.Kind {
	case protocol.AllReduce:
		return 2 * in * (p - 1) / p
	case protocol.ReduceScatter:
		return in * (p - 1) / p
	case protocol.AllGather:
		return out * (p - 1) / p
	}
	return in - size*int64(m.Send[place])
}
