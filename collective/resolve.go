package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/collective/rendezvous"
)

// hearFor is how long a rank whose comm was aborted by another waits for the reason,
// which was sent before.
const hearFor = 10 * watchEvery

// verdict is the first failure among the groups of a process, for the launcher. The once
// synchronizes before every return of an error: the process may end as soon as a call
// returned one.
type verdict struct {
	path string
	once sync.Once
}

// leave writes down the rank that f blames.
func (v *verdict) leave(f *failure, o *Options) {
	v.once.Do(func() {
		text := sentinelOf(f.Code).Error() + f.Text
		out := rendezvous.Verdict{Rank: f.Rank, Stuck: f.Code == codeOf(ErrTimeout), Text: text}
		if o.inWorld != nil {
			out.Rank = o.inWorld[f.Rank]
		}
		if err := out.Write(v.path); err != nil {
			o.Logger.Warn("collective: the launcher is not told which rank failed", "error", err)
		}
	})
}

// fail makes the group dead because of f, tells the others and wakes a call under way.
// Only the first failure counts.
func (g *Group) fail(f *failure) {
	if f.By < 0 || f.By >= g.size {
		f.By = f.Rank
	}
	if f.err != nil {
		f.spell()
	}
	// after Close others end for no fault
	if v := g.options.verdict; v != nil && !g.leaving.Load() {
		v.leave(f, &g.options)
	}
	if !g.failure.CompareAndSwap(nil, f) {
		return
	}
	g.options.Logger.Warn("collective: group failed", "group", g.options.name, "rank", g.rank,
		"because", f.Rank, "error", f.cause())
	g.control.tell(kindAbort, f)
	g.comm.Abort(f.cause())
	g.tags.abort()
}

// resolve turns what a comm returned into the group's failure. Comms know what they saw
// on their own conns; the control knows what the others saw, and which rank is really
// missing.
func (g *Group) resolve(r *protocol.Request, err error) error {
	g.findCause(r, err)
	return g.refuse(r.Call.String())
}

// findCause makes the group fail by the cause of err.
func (g *Group) findCause(r *protocol.Request, err error) {
	g.told.set(&r.Call)
	g.stuck.Store(true)
	pe := &protocol.PeerError{Rank: -1, Err: err}
	errors.As(err, &pe)
	f := &failure{Rank: pe.Rank, By: g.rank, err: pe.Err}
	if f.Rank < 0 || f.Rank >= g.size {
		f.Rank = g.rank
	}
	q := inquiry{g: g, call: r.Call, pair: pairingOf(r), f: f}
	switch {
	case errors.Is(err, ErrAborted): // the reason of the abort may be one of those below
		g.hear(hearFor)
	case errors.Is(err, ErrTimeout):
		q.late(pe)
	case errors.Is(err, ErrPeerLost):
		g.control.pump()
	case errors.Is(err, ErrMismatch):
		g.control.pump()
		q.odd()
	default: // its own context
		f.Rank = g.rank
	}
	g.fail(f)
}

// hear waits for a failure that another rank sends, or that is seen on its conn.
func (g *Group) hear(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = g.control.await(ctx, func() bool { return g.failure.Load() != nil })
}

// refuse returns the error of a call on a dead group, or on one that a rank left.
func (g *Group) refuse(call string) error {
	if g.closed.Load() {
		return fmt.Errorf("%s: %w", call, net.ErrClosed)
	}
	if d := g.left.Load(); d != nil {
		g.fail(d.failure)
	}
	return g.blamed(g.failure.Load(), call)
}

// Err returns nil while the group works, afterwards why it does not.
func (g *Group) Err() error {
	f := g.failure.Load()
	if f == nil {
		return nil
	}
	return g.blamed(f, "group "+g.options.name)
}

// blamed returns the error of a call that fails because of f.
func (g *Group) blamed(f *failure, call string) *Error {
	return &Error{Rank: f.Rank, Name: g.members[f.Rank], Host: g.host(f.Rank), Call: call, By: f.By, Err: f.cause()}
}
