package collective

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// run makes a call, which was checked, on the group's comm, and notes it if that is
// wanted. The lane calls it, one call at a time. A call does not begin if its context is
// over.
func (g *Group) run(ctx context.Context, r *protocol.Request, over error) error {
	t := g.options.tape
	if t == nil {
		return g.perform(ctx, r, over)
	}
	began := time.Now()
	err := g.perform(ctx, r, over)
	t.call(recordCall, began, r.Call, r.Peer, 0, err)
	return err
}

// perform is run without the note.
func (g *Group) perform(ctx context.Context, r *protocol.Request, over error) error {
	g.number(r)
	flown := g.flight.begin(&r.Call, len(r.Dst), g.born)
	if g.failure.Load() != nil || g.control.forsakes(&r.Call, r.Peer) {
		return g.record(g.refuse(r.Call.String()))
	}
	paired := r.Call.Kind.Paired()
	if paired {
		g.pairing.Store(uint64(pairingOf(r)))
	}
	if g.whole == nil { // on several hosts not all are told when a rank fails
		g.told.set(&r.Call)
	}
	var err error
	switch {
	case over != nil:
		err = ipc.ContextError(ctx)
	case paired && r.Peer == g.rank:
		err = g.toSelf(r)
	case g.whole != nil:
		err = g.whole.Run(ctx, r) // the lane makes one call at a time
	default:
		err = g.comm.Do(ctx, *r)
	}
	if err != nil {
		return g.record(g.resolve(r, err))
	}
	if paired {
		g.pairing.Store(0)
	}
	flown.end(g.born)
	g.bytes.count(len(r.Dst))
	return nil
}

// number gives the call its number. A pair counts for itself, for the others do not see
// it.
func (g *Group) number(r *protocol.Request) {
	switch r.Call.Kind {
	case protocol.Send:
		g.sent[r.Peer]++
		r.Call.Seq = g.sent[r.Peer]
	case protocol.Recv:
		g.received[r.Peer]++
		r.Call.Seq = g.received[r.Peer]
	default:
		r.Call.Seq = g.lane.calls() // the lane counted it
	}
}

// countEvery is how many bytes are counted at a time: a counter that others read is slow.
const countEvery = 64 << 10

// tally counts the bytes of destinations. Any goroutine may load the total.
type tally struct {
	total     atomic.Uint64
	uncounted int // not yet in total; belongs to the holder of the lane
}

// count counts the bytes of a destination.
func (t *tally) count(n int) {
	if t.uncounted += n; t.uncounted >= countEvery {
		t.total.Add(uint64(t.uncounted))
		t.uncounted = 0
	}
}

// inCall reports whether a call is under way, or the last call failed: this rank came to
// it.
func (g *Group) inCall() bool { return g.lane.held() || g.stuck.Load() }

// toSelf sends to this rank itself, or receives from it: the message must be there
// already and of that length.
func (g *Group) toSelf(r *protocol.Request) error {
	if r.Call.Kind == protocol.Send {
		g.self = append(g.self, append([]byte(nil), r.Dst...))
		return nil
	}
	if len(g.self) == 0 || len(g.self[0]) != len(r.Dst) {
		have := "nothing was sent"
		if len(g.self) > 0 {
			have = fmt.Sprintf("%d bytes were sent", len(g.self[0]))
		}
		return &protocol.PeerError{Rank: g.rank, Call: r.Call,
			Err: fmt.Errorf("%w: %d bytes to receive from oneself, %s", ErrMismatch, len(r.Dst), have)}
	}
	copy(r.Dst, g.self[0])
	g.self = g.self[1:]
	return nil
}

// do makes a call, unless it is refused.
func (g *Group) do(ctx context.Context, r *protocol.Request) error {
	if err := g.check(r); err != nil {
		return err
	}
	return g.lane.do(ctx, r)
}

// begin starts a call, unless it is refused.
func (g *Group) begin(ctx context.Context, r *protocol.Request) *Work {
	if err := g.check(r); err != nil {
		return failed(err)
	}
	return g.lane.start(ctx, r)
}

// Stats are counters of one group since it was made.
type Stats struct {
	Calls    uint64        // that every rank makes; sends and receives are not counted
	Bytes    uint64        // of destinations of calls that succeeded, to within 64 KiB
	InCall   bool          // a call is under way
	Failed   bool          // the group is dead
	Age      time.Duration // since New
	Layout   string        // as in "2 hosts of 2"
	Local    int           // ranks on this host, this one included
	Messages uint64        // of the group's own, received: which rank left or failed
}

// Stats returns the counters. Any goroutine may call it.
func (g *Group) Stats() Stats {
	return Stats{
		Calls: g.lane.calls(), Bytes: g.bytes.total.Load(), InCall: g.lane.held(), Failed: g.failure.Load() != nil,
		Age: time.Since(g.born), Layout: g.layout.String(), Local: len(g.layout.hosts[g.layout.hostOf[g.rank]]),
		Messages: g.control.received.Load(),
	}
}
