package collective

import (
	"context"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
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
	if err := g.enter(j); err != nil {
		return err
	}
	if err := g.dispatch(ctx, j); err != nil {
		return g.resolve(j, err) // it stays in the call: those that ask see that it came
	}
	g.at.Store(g.seq << 1)
	g.bytes.Add(uint64(len(j.dst)))
	return nil
}

// enter numbers the call, unless the group is dead.
func (g *Group) enter(j *job) error {
	if j.call.Kind == plan.Send || j.call.Kind == plan.Recv {
		// A pair counts for itself, for the others know nothing of it.
		n := &g.sent[j.peer]
		if j.call.Kind == plan.Recv {
			n = &g.received[j.peer]
		}
		*n++
		j.call.Seq = *n
	} else {
		g.seq++
		j.call.Seq = g.seq
	}
	g.at.Store(g.seq<<1 | 1)
	if g.failure.Load() != nil || g.left.Load() != nil {
		return g.refuse(j)
	}
	return nil
}

// dispatch is the table of primitives.
func (g *Group) dispatch(ctx context.Context, j *job) error {
	counts := j.counts
	if counts == nil {
		counts = g.evenly(j.each)
	}
	switch j.call.Kind {
	case plan.AllReduce:
		return g.comm.AllReduce(ctx, j.call, j.scale, j.dst, j.src)
	case plan.Reduce:
		return g.comm.Reduce(ctx, j.call, j.scale, j.dst, j.src, j.peer)
	case plan.ReduceScatter:
		return g.comm.ReduceScatter(ctx, j.call, j.scale, j.dst, j.src, counts)
	case plan.AllGather:
		return g.comm.AllGather(ctx, j.call, j.dst, j.src, counts)
	case plan.Broadcast:
		return g.comm.Broadcast(ctx, j.call, j.dst, j.peer)
	case plan.Scatter:
		return g.comm.Scatter(ctx, j.call, j.dst, j.src, counts, j.peer)
	case plan.Gather:
		return g.comm.Gather(ctx, j.call, j.dst, j.src, counts, j.peer)
	case plan.AllToAll:
		if j.counts == nil {
			return g.comm.AllToAll(ctx, j.call, j.dst, j.src, counts, counts)
		}
		return g.comm.AllToAll(ctx, j.call, j.dst, j.src, j.counts, j.recv)
	case plan.Barrier:
		return g.comm.Barrier(ctx, j.call)
	case plan.Send:
		if j.peer == g.rank {
			g.self = append(g.self, append([]byte(nil), j.dst...))
			return nil
		}
		return g.comm.Send(ctx, j.call, j.peer, j.dst)
	case plan.Recv:
		if j.peer == g.rank {
			return g.fromSelf(j)
		}
		return g.comm.Recv(ctx, j.call, j.peer, j.dst)
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

// evenly is counts of n bytes for every rank, in memory that the next call uses again.
func (g *Group) evenly(n int) []int {
	if g.even[0] != n {
		for i := range g.even {
			g.even[i] = n
		}
	}
	return g.even
}

// Stats are counters of one group since it was made.
type Stats struct {
	Calls    uint64        // that every rank makes; sends and receives are not counted
	Bytes    uint64        // of destinations of calls that succeeded
	InCall   bool          // one is under way
	Failed   bool          // the group is dead
	Age      time.Duration // since New
	Layout   string        // as in "2 hosts of 2"
	Local    int           // ranks on this host, this one included
	Messages uint64        // of the group's own, received: who left, who failed
}

// Stats returns the counters. Any goroutine may call it.
func (g *Group) Stats() Stats {
	at := g.at.Load()
	return Stats{
		Calls: at >> 1, Bytes: g.bytes.Load(), InCall: at&1 == 1, Failed: g.failure.Load() != nil,
		Age: time.Since(g.born), Layout: g.layout.String(), Local: len(g.layout.hosts[g.layout.hostOf[g.rank]]),
		Messages: g.control.received.Load(),
	}
}
