package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/collective/plan"
)

// Persistent is a call that is made again and again with the same buffers: what can be checked was checked once, and on one host a small
// one costs little more than the exchange, least of all if one goroutine makes it again and again. It is a call like any other: the ranks
// may make it in this way or the other, each as it likes. MPI has such calls as persistent collectives (MPI 4.0, section 6.13); these need
// nothing of the other ranks before they run, and nothing is to be freed.
//
// Any goroutine may call its methods; what holds for calls of the group holds for them. The buffers must stay what they were: those of
// [Alloc] until after the last Run.
type Persistent struct {
	group *Group
	bound bound // prepared is nil where the calls of this group are not known in advance
	job   job
}

// AllReduceInit is an [AllReduce] to be run. It refuses what AllReduce refuses.
func AllReduceInit[T Element](g *Group, dst, src []T, op Op) (*Persistent, error) {
	p := &Persistent{group: g}
	return p.init(shortKeyOf(plan.AllReduce, op, dtypeOf[T](), 0, len(src)), allReduce(&p.job, g, dst, src, op))
}

// ReduceScatterInit is a [ReduceScatter] to be run. It refuses what ReduceScatter refuses.
func ReduceScatterInit[T Element](g *Group, dst, src []T, op Op) (*Persistent, error) {
	p := &Persistent{group: g}
	return p.init(shortKeyOf(plan.ReduceScatter, op, dtypeOf[T](), 0, len(src)), reduceScatter(&p.job, g, dst, src, nil, op))
}

// AllGatherInit is an [AllGather] to be run. It refuses what AllGather refuses.
func AllGatherInit[T Element](g *Group, dst, src []T) (*Persistent, error) {
	p := &Persistent{group: g}
	return p.init(shortKeyOf(plan.AllGather, 0, dtypeOf[T](), 0, len(src)), allGather(&p.job, g, dst, src, nil))
}

// BroadcastInit is a [Broadcast] to be run. It refuses what Broadcast refuses.
func BroadcastInit[T Element](g *Group, buf []T, root int) (*Persistent, error) {
	p := &Persistent{group: g}
	return p.init(shortKeyOf(plan.Broadcast, 0, dtypeOf[T](), int32(root), len(buf)), broadcast(&p.job, g, buf, root))
}

// BarrierInit is a [Group.Barrier] to be run.
func (g *Group) BarrierInit() *Persistent {
	p := &Persistent{group: g, bound: bound{kind: plan.Barrier}, job: job{call: plan.Call{Kind: plan.Barrier}}}
	if g.short != nil {
		p.bound = g.short.barrier
	}
	return p
}

// init finishes the making of a call whose job was refused by err.
func (p *Persistent) init(k shortKey, err error) (*Persistent, error) {
	if err != nil {
		return nil, err
	}
	p.bound = bound{kind: k.kind(), dst: p.job.dst, src: p.job.src}
	if s := p.group.short; s != nil {
		if p.bound.prepared = s.learn(k); p.bound.prepared != nil {
			p.bound.express = p.bound.prepared.Express(&p.group.lane.gate)
		}
	}
	return p, nil
}

// Run makes the call and waits for its end. The context bounds the waiting: one that is over does not keep a call from going through that
// has to wait for nobody.
func (p *Persistent) Run(ctx context.Context) error {
	g := p.group
	if x := p.bound.express; x != nil {
		var word uint64
		var got host.Outcome
		if p.bound.src == nil {
			word, got = x.Barrier()
		} else {
			word, got = x.Sum(p.bound.src)
		}
		if got == host.Made {
			return nil
		}
		if made, err := g.restOf(ctx, &p.bound, word, got); made {
			return err
		}
	}
	if p.bound.prepared == nil || !g.lane.enter(laneCall|laneHeld) {
		j := p.job
		return g.lane.do(ctx, &j)
	}
	err := g.runBound(ctx, &p.bound, false)
	if p.bound.express != nil && err == nil {
		g.lane.favor()
	}
	g.lane.leave()
	return err
}

// Start starts the call; see [AllReduceAsync]. Runs that were started follow each other, so there may be several.
func (p *Persistent) Start(ctx context.Context) *Work {
	j := p.job
	return p.group.begin(ctx, &j, nil)
}
