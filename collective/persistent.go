package collective

import (
	"context"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/algorithm/onehost"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Persistent is a call that is made again and again with the same buffers. It is checked
// and encoded once, and on one host a small one costs little more than the exchange. It
// is a call like any other: some ranks may make it in this way and others by the plain
// function. MPI has such calls as persistent collectives (MPI 4.0, section 6.13); these
// need nothing of the other ranks before they run, and nothing is to be freed.
//
// Any goroutine may call its methods; what holds for calls of the group holds for them.
// The buffers must stay what they were: those of [Alloc] until after the last Run.
type Persistent struct {
	group   *Group
	request protocol.Request
	direct  *onehost.Persistent // nil unless all ranks are on one host
}

// AllReduceInit returns an [AllReduce] to be run. It refuses what AllReduce refuses.
func AllReduceInit[T Element](g *Group, dst, src []T, op Op) (*Persistent, error) {
	r := request(protocol.AllReduce, op, dst, src, nil, 0)
	return persistent(g, &r)
}

// ReduceScatterInit returns a [ReduceScatter] to be run. It refuses what ReduceScatter
// refuses.
func ReduceScatterInit[T Element](g *Group, dst, src []T, op Op) (*Persistent, error) {
	r := request(protocol.ReduceScatter, op, dst, src, nil, 0)
	return persistent(g, &r)
}

// AllGatherInit returns an [AllGather] to be run. It refuses what AllGather refuses.
func AllGatherInit[T Element](g *Group, dst, src []T) (*Persistent, error) {
	r := request(protocol.AllGather, element.None, dst, src, nil, 0)
	return persistent(g, &r)
}

// BroadcastInit returns a [Broadcast] to be run. It refuses what Broadcast refuses.
func BroadcastInit[T Element](g *Group, buf []T, root int) (*Persistent, error) {
	r := request(protocol.Broadcast, element.None, buf, nil, nil, root)
	return persistent(g, &r)
}

// BarrierInit returns a [Group.Barrier] to be run.
func (g *Group) BarrierInit() *Persistent {
	// a barrier has nothing to refuse
	p, _ := persistent(g, &protocol.Request{Call: protocol.Call{Kind: protocol.Barrier}})
	return p
}

// persistent returns the call of r, unless it is refused.
func persistent(g *Group, r *protocol.Request) (*Persistent, error) {
	err := g.check(r)
	if err != nil {
		return nil, err
	}
	p := &Persistent{group: g, request: *r}
	if g.whole != nil {
		p.direct, err = g.whole.Persistent(*r)
	}
	return p, err
}

// Run makes the call and waits for its end. The context bounds the waiting: a call that
// has to wait for no rank goes through also if its context is done.
func (p *Persistent) Run(ctx context.Context) error {
	g := p.group
	if p.direct == nil || !g.lane.enter(laneCall|laneHeld) {
		r := p.request
		return g.lane.do(ctx, &r)
	}
	p.direct.Prefetch()
	seq := g.lane.calls()
	given := g.options.tape == nil && g.failure.Load() == nil && g.left.Load() == nil && p.direct.Give(seq)
	// remembered while the other rank's part is on its way
	flown := g.flight.begin(&p.request.Call, len(p.request.Dst), g.born)
	flown.call.Seq = seq
	if !given || !p.direct.Take() {
		return p.rest(ctx, seq, flown)
	}
	flown.end(g.born)
	g.bytes.count(len(p.request.Dst))
	g.lane.leave()
	return nil
}

// rest is what is left of a Run that was not over at once. It calls what may panic, such
// as the context, so it gives the lane back in a deferred call, which takes a tenth of a
// small call.
func (p *Persistent) rest(ctx context.Context, seq uint64, flown *flightCall) error {
	g, ended := p.group, false
	defer g.lane.ended(&ended)
	t, began := g.options.tape, time.Time{}
	if t != nil {
		began = time.Now()
	}
	err := p.finish(ctx, seq, flown)
	if t != nil {
		t.call(recordCall, began, p.numbered(seq), 0, 0, err)
	}
	ended = true
	return err
}

// finish is rest without the note on the tape.
func (p *Persistent) finish(ctx context.Context, seq uint64, flown *flightCall) error {
	g := p.group
	if call := p.numbered(seq); g.failure.Load() != nil || g.control.forsakes(&call, p.request.Peer) {
		return g.record(g.refuse(call.String()))
	}
	if err := p.direct.Run(ctx, seq); err != nil {
		return g.record(g.resolve(&protocol.Request{Call: p.numbered(seq)}, err))
	}
	flown.end(g.born)
	g.bytes.count(len(p.request.Dst))
	return nil
}

// numbered returns the call as the seq-th.
func (p *Persistent) numbered(seq uint64) protocol.Call {
	c := p.request.Call
	c.Seq = seq
	return c
}

// Start starts the call; see [AllReduceAsync]. Runs that were started follow each other,
// so there may be several.
func (p *Persistent) Start(ctx context.Context) *Work { return p.group.lane.start(ctx, &p.request) }
