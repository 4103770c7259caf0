package collective

import (
	"context"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// job is one call, checked and in bytes.
type job struct {
	call     plan.Call
	scale    float64
	dst, src []byte // of a broadcast, a send or a receive: dst alone
	counts   []int  // bytes by rank where they differ; nil: each
	recv     []int  // of an all-to-all whose counts differ
	each     int    // bytes by rank
	peer     int    // root, or the other rank of a send or receive
}

// run makes the call on the group's comm. The lane calls it, one job at a time.
func (g *Group) run(ctx context.Context, j *job) error {
	g.number(j)
	if g.failure.Load() != nil || g.left.Load() != nil {
		return g.refuse(j.call.String())
	}
	if j.call.Kind.Paired() {
		g.pairing.Store(uint64(pairingOf(j)))
	}
	if g.short == nil { // on several hosts not all are told when one fails; elsewhere a call is too brief for this
		g.told.set(&j.call)
	}
	err := ctx.Err()
	if err == nil {
		err = g.dispatch(ctx, j)
	} else {
		err = ipc.ContextError(ctx)
	}
	if err != nil {
		return g.resolve(j, err)
	}
	if j.call.Kind.Paired() {
		g.pairing.Store(0)
	}
	g.count(len(j.dst))
	return nil
}

// count counts the bytes of a destination.
func (g *Group) count(n int) {
	if g.uncounted += n; g.uncounted >= countEvery {
		g.bytes.Add(uint64(g.uncounted))
		g.uncounted = 0
	}
}

// countEvery is how many bytes are counted at a time: a counter that others read costs as much as a third of a small call.
const countEvery = 64 << 10

// number gives the call its own. A pair counts for itself, for the others know nothing of it.
func (g *Group) number(j *job) {
	switch j.call.Kind {
	case plan.Send:
		g.sent[j.peer]++
		j.call.Seq = g.sent[j.peer]
	case plan.Recv:
		g.received[j.peer]++
		j.call.Seq = g.received[j.peer]
	default:
		j.call.Seq = g.lane.calls() // the lane counted it
	}
}

// inCall says whether a call is under way, or one that failed was the last: this rank came to it.
func (g *Group) inCall() bool { return g.lane.held() || g.stuck.Load() }

// dispatch is the table of primitives.
func (g *Group) dispatch(ctx context.Context, j *job) error {
	c := g.comm
	switch j.call.Kind {
	case plan.AllReduce:
		return c.AllReduce(ctx, j.call, j.scale, j.dst, j.src)
	case plan.Reduce:
		return c.Reduce(ctx, j.call, j.scale, j.dst, j.src, j.peer)
	case plan.ReduceScatter:
		return c.ReduceScatter(ctx, j.call, j.scale, j.dst, j.src, g.countsOf(j))
	case plan.AllGather:
		return c.AllGather(ctx, j.call, j.dst, j.src, g.countsOf(j))
	case plan.Broadcast:
		return c.Broadcast(ctx, j.call, j.dst, j.peer)
	case plan.Scatter:
		return c.Scatter(ctx, j.call, j.dst, j.src, g.countsOf(j), j.peer)
	case plan.Gather:
		return c.Gather(ctx, j.call, j.dst, j.src, g.countsOf(j), j.peer)
	case plan.AllToAll:
		if j.counts == nil {
			return c.AllToAll(ctx, j.call, j.dst, j.src, g.countsOf(j), g.countsOf(j))
		}
		return c.AllToAll(ctx, j.call, j.dst, j.src, j.counts, j.recv)
	case plan.Barrier:
		return c.Barrier(ctx, j.call)
	case plan.Send:
		if j.peer == g.rank {
			g.self = append(g.self, append([]byte(nil), j.dst...))
			return nil
		}
		return c.Send(ctx, j.call, j.peer, j.dst)
	case plan.Recv:
		if j.peer == g.rank {
			return g.fromSelf(j)
		}
		return c.Recv(ctx, j.call, j.peer, j.dst)
	}
	panic(fmt.Sprintf("collective: a job of kind %v", j.call.Kind))
}

// fromSelf receives what was sent to oneself: it must be there already and of that length.
func (g *Group) fromSelf(j *job) error {
	if len(g.self) == 0 || len(g.self[0]) != len(j.dst) {
		have := "nothing was sent"
		if len(g.self) > 0 {
			have = fmt.Sprintf("%d bytes were sent", len(g.self[0]))
		}
		return &plan.PeerError{Rank: g.rank, Call: j.call, Err: fmt.Errorf("%w: %d bytes to receive from oneself, %s", ErrMismatch, len(j.dst), have)}
	}
	copy(j.dst, g.self[0])
	g.self = g.self[1:]
	return nil
}

// countsOf is j's counts; even ones lie in memory that the next call uses again.
func (g *Group) countsOf(j *job) []int {
	if j.counts != nil {
		return j.counts
	}
	if g.even[0] != j.each {
		for i := range g.even {
			g.even[i] = j.each
		}
	}
	return g.even
}

// Stats are counters of one group since it was made.
type Stats struct {
	Calls    uint64        // that every rank makes; sends and receives are not counted
	Bytes    uint64        // of destinations of calls that succeeded, to within 64 KiB
	InCall   bool          // one is under way
	Failed   bool          // the group is dead
	Age      time.Duration // since New
	Layout   string        // as in "2 hosts of 2"
	Local    int           // ranks on this host, this one included
	Messages uint64        // of the group's own, received: who left, who failed
}

// Stats returns the counters. Any goroutine may call it.
func (g *Group) Stats() Stats {
	return Stats{
		Calls: g.lane.calls(), Bytes: g.bytes.Load(), InCall: g.lane.held(), Failed: g.failure.Load() != nil,
		Age: time.Since(g.born), Layout: g.layout.String(), Local: len(g.layout.hosts[g.layout.hostOf[g.rank]]),
		Messages: g.control.received.Load(),
	}
}
