package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/collective/rendezvous"
)

// hearFor is how long a rank whose comm was poisoned by another waits for the reason, which was sent before.
const hearFor = 10 * watchEvery

// fail makes the group dead because of f, tells the others and wakes whoever is in a call. Only the first failure counts.
func (g *Group) fail(f *failure) bool {
	if f.By < 0 || f.By >= g.size {
		f.By = f.Rank
	}
	if f.err != nil {
		f.spell()
	}
	if !g.leaving.Load() { // how others end after that is no reason of this rank's
		g.leaveVerdict(f)
	}
	first := g.failure.CompareAndSwap(nil, f)
	g.lane.close() // whoever was first may not have come to it
	if !first {
		return false
	}
	g.options.Logger.Warn("collective: group failed", "group", g.options.name, "rank", g.rank, "because", f.Rank, "error", f.cause())
	g.control.tell(kindAbort, f)
	g.comm.Abort(f.cause())
	return true
}

// verdict is of the first failure among the groups of a process. The once synchronizes before whoever learns of a failure: the process may
// end as soon as a call returned an error.
type verdict struct {
	path string
	once sync.Once
}

// leaveVerdict tells the launcher of whom f is.
func (g *Group) leaveVerdict(f *failure) {
	o := &g.options
	if o.verdict == nil {
		return
	}
	o.verdict.once.Do(func() {
		v := rendezvous.Verdict{Rank: f.Rank, Stuck: f.Code == code(ErrTimeout), Text: sentinel(f.Code).Error() + f.Text}
		if o.inWorld != nil {
			v.Rank = o.inWorld[f.Rank]
		}
		if err := v.Write(o.verdict.path); err != nil {
			o.Logger.Warn("collective: the launcher is not told because of whom the group failed", "error", err)
		}
	})
}

// resolve turns what a comm returned into the group's failure: comms know what they saw on their own conns, the control knows
// what the others saw, and who is really missing.
func (g *Group) resolve(j *job, err error) error {
	g.findCause(j, err)
	return g.refuse(j.call.String())
}

// findCause makes the group fail by what is behind err.
func (g *Group) findCause(j *job, err error) {
	g.told.set(&j.call)
	g.stuck.Store(true)
	pe := &plan.PeerError{Rank: -1, Err: err}
	errors.As(err, &pe)
	f := &failure{Rank: pe.Rank, By: g.rank, err: pe.Err}
	if f.Rank < 0 || f.Rank >= g.size {
		f.Rank = g.rank
	}
	switch {
	case errors.Is(err, ErrAborted): // whatever the reason, which may be one of those below
		g.hear(hearFor)
	case errors.Is(err, ErrTimeout):
		g.blame(j, f, pe)
	case errors.Is(err, ErrPeerLost):
		g.control.pump()
	case errors.Is(err, ErrMismatch):
		g.control.pump()
		g.blameOdd(j, f)
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

// ranks is as in "rank 3 is" and "ranks 1, 2 are".
func ranks(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d is", list[0])
	}
	return "ranks " + strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]") + " are"
}

// refuse is the error of a call on a dead group, or on one that somebody left.
func (g *Group) refuse(call string) error {
	if g.closed.Load() {
		return fmt.Errorf("%s: %w", call, net.ErrClosed)
	}
	if f := g.left.Load(); f != nil {
		g.fail(f)
	}
	f := g.failure.Load()
	return &Error{Rank: f.Rank, Name: g.members[f.Rank], Host: g.host(f.Rank), Call: call, By: f.By, Err: f.cause()}
}

// Err is nil while the group works, afterwards why it does not.
func (g *Group) Err() error {
	f := g.failure.Load()
	if f == nil {
		return nil
	}
	g.lane.close() // no call is made by who knows
	return &Error{Rank: f.Rank, Name: g.members[f.Rank], Host: g.host(f.Rank), Call: "group " + g.options.name, By: f.By, Err: f.cause()}
}

// drain waits until no job runs or is queued.
func (l *lane) drain() {
	for l.busy() {
		time.Sleep(pollEvery)
	}
}
