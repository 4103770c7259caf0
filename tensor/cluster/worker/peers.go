package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor/device"
)

// Collectives on values of GPUs run where the values are, if all workers along a dim of
// the mesh are processes of one host whose devices reach each other (device.Connector).
// Otherwise they are staged: a value is copied to the device's arena of host memory, the
// group's collective runs there, and the result is copied back. Both have the same bits.
//
// Transfers between stages go from GPU to GPU as well, if the two workers are such
// processes (device.Linker), and by host memory otherwise.
//
// The group of the dim, or the pipe, stays the way by which the workers meet, and by
// which they hear that one of them is gone. Votes go by groups alone.

// closeWithin bounds how long a worker waits for the others to leave their memory.
const closeWithin = time.Second

// nearness is how a worker and the others along a dim of its mesh run collectives.
type nearness struct {
	peers    device.Peers // nil: staged, or in host memory where the values are there
	obstacle device.Obstacle
}

// connectPeers finds out whether the workers of a group can run collectives where their
// values are. All of them learn the same.
func (t *team) connectPeers(ctx context.Context, g *collective.Group) (n nearness, err error) {
	connector, can := t.worker.dev.(device.Connector)
	meet := meetings(ctx, g)
	if n.obstacle, err = capable(g, can, meet); err == nil && n.obstacle == device.None {
		n.peers, n.obstacle, err = connector.Connect(g.Rank(), g.Size(), meet)
	}
	return n, err
}

// capable finds out whether all workers of a group are on one host and can, as the caller
// can.
func capable(g *collective.Group, can bool, meet device.Meet) (device.Obstacle, error) {
	if len(g.Hosts()) > 1 {
		return device.Hosts, nil
	}
	mine := []byte{0}
	if can {
		mine[0] = 1
	}
	all, err := meet(mine)
	if err == nil && slices.ContainsFunc(all, func(b []byte) bool { return b[0] != 1 }) {
		return device.NotConnector, nil
	}
	return device.None, err
}

// meetings returns the meetings of a group, each of which is a call of it.
func meetings(ctx context.Context, g *collective.Group) device.Meet {
	return meetIn(g.Size(), func(r *collective.Raw) error { return r.Do(ctx, g) })
}

// meetIn returns the meetings of a group of so many ranks. do makes a call of it.
func meetIn(size int, do func(r *collective.Raw) error) device.Meet {
	var all []byte
	return func(mine []byte) ([][]byte, error) {
		all = slices.Grow(all[:0], size*len(mine))[:size*len(mine)]
		if err := do(&collective.Raw{Kind: protocol.AllGather, DType: element.U8, Scale: 1, Src: mine, Dst: all}); err != nil {
			return nil, err
		}
		return slices.Collect(slices.Chunk(all, len(mine))), nil
	}
}

// closePeers leaves the others' memory, before the groups end.
func (t *team) closePeers() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	for k, n := range t.near {
		if n.peers == nil {
			continue
		}
		t.left(n.peers.Close(meetings(ctx, t.groups[k])))
	}
	for _, pair := range t.pairs() {
		l := t.links[pair]
		if l == nil || l.Link == nil {
			continue
		}
		if l.last != nil {
			<-l.last.done
		}
		t.left(l.Close(meetings(ctx, t.pipes[pair])))
	}
}

// left says that another worker's memory could not be left as it should.
func (t *team) left(err error) {
	if err != nil {
		t.worker.log.Warn("leaving the memory of other workers", "session", t.session, "err", err)
	}
}

// startNear starts a collective where the values are: all of its tensors together.
func (c *carrier) startNear(ctx context.Context, step *planStep, ids []uint64, failed error) ([]movement, error) {
	x := step.Collective
	group, size := c.groups[x.Dim], x.DType.Size()
	all, moves := make([]movement, len(x.Moves)), make([]device.Collective, len(x.Moves))
	for k := range x.Moves {
		m, u := &x.Moves[k], &all[k]
		u.near = true
		if l, ok := c.space.(*limited); ok && failed == nil {
			failed = l.room(m.OutShape.Elems()*size, "result")
		}
		moves[k] = device.Collective{Kind: x.Kind, Op: x.Op, Scale: x.Scale, DType: x.DType, Shape: m.OutShape, Send: m.Send, Recv: m.Recv,
			In: ids[m.In], InPlace: step.dead[k]}
		c.sends(u, group, sentBytes(x, m, c.mesh.Coord(c.place, x.Dim)))
	}
	for k := range moves {
		moves[k].Failed = failed != nil
	}
	asked := time.Now()
	var broken error
	pending, err := c.near[x.Dim].peers.Start(c.own, moves, !step.inline, meetIn(group.Size(), func(r *collective.Raw) error {
		broken = c.call(ctx, r, group)
		return broken
	}))
	c.took += time.Since(asked)
	for k := range all {
		u := &all[k]
		u.err = broken
		c.waited(x.Kind, u, u.began)
		if k < len(pending) {
			u.pending = pending[k]
		}
		if failed == nil && broken == nil && moves[k].InPlace {
			c.space.Free(ids[x.Moves[k].In]) // in the books too
		}
	}
	if failed == nil && broken == nil {
		failed = err
	}
	return all, failed
}

// finishNear makes the result of a collective that startNear started, and returns its id.
func (c *carrier) finishNear(u *movement, v device.Value) (id uint64, err error) {
	if u.pending == nil {
		return 0, fmt.Errorf("%w: a collective without a result", errInternal)
	}
	defer u.release() // gives the result up where there is no room for it
	id = c.newID()
	finish := func() error {
		pending := u.pending
		u.pending = nil
		return pending.Finish(id)
	}
	if l, ok := c.space.(*limited); ok {
		return id, l.add(id, v.Bytes(), "result", finish)
	}
	return id, finish()
}
