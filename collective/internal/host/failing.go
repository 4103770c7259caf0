package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// How a call fails
//
// Who finds out that something is wrong writes it into its own page and rings everybody, and they fail with the same
// cause: so all ranks know within a look of each other, those too that wait for a third that is well. A rank that dies says
// nothing; its conns end, which those see that wait for it.

// kill makes e the comm's end, if it is the first, and tells the others. It returns the end.
func (c *Comm) kill(e *plan.PeerError) *plan.PeerError { return c.end(e, obituaryOf(e, c.rank)) }

func (c *Comm) end(e *plan.PeerError, o obituary) *plan.PeerError {
	if !c.dead.CompareAndSwap(nil, e) {
		return c.dead.Load()
	}
	if o.state != left {
		c.log.Debug("collective: failed", "err", e)
	}
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.gone {
		return e
	}
	c.own.bury(o)
	for p := range c.peers {
		if page := c.peers[p].page; page != nil {
			page.bell.Ring()
		}
	}
	return e
}

// broke is the end that p brings about by what it wrote.
func (c *Comm) broke(p int, err error) error {
	return c.kill(&plan.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: %w: %w", plan.ErrPeerLost, ipc.ErrCorrupt, err)})
}

// differs is the error of a meeting to which p came in another call.
func (c *Comm) differs(p int) *plan.PeerError {
	l := &c.peers[p].lines[c.epoch&1]
	return c.mismatch(p, l.call, uint32(atomic.LoadUint64(l.mark)))
}

// mismatch is the error about p, which is in the call whose word has that upper half, and of the given bytes.
func (c *Comm) mismatch(p int, encoded []byte, upper uint32) *plan.PeerError {
	theirs, err := plan.DecodeCall(append([]byte(nil), encoded...))
	if err != nil || uint32(wordOf(theirs)>>32) != upper {
		theirs = plan.Call{}
	}
	return &plan.PeerError{Rank: p, Call: *c.call, Err: &plan.MismatchError{Ours: *c.call, Theirs: theirs}}
}

// obituaries kills the comm if another rank has ended for a reason that concerns this one, and says so.
func (c *Comm) obituaries() bool {
	for p := range c.peers {
		if p == c.rank {
			continue
		}
		switch atomic.LoadUint64(c.peers[p].state) {
		case alive:
			continue
		case left:
			if c.call.Kind != plan.NoKind && c.missing(p) {
				c.kill(&plan.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: it has left", plan.ErrPeerLost)})
				return true
			}
			continue
		}
		o, err := c.peers[p].read()
		if err != nil {
			_ = c.broke(p, err)
		} else {
			c.kill(c.told(p, o))
		}
		return true
	}
	return false
}

// told is what it means here that p has ended because of o.
func (c *Comm) told(p int, o obituary) *plan.PeerError {
	e := &plan.PeerError{Rank: o.rank, Call: *c.call}
	says := func(sentinel error) error {
		return fmt.Errorf("%w, says rank %d: %s", sentinel, p, strings.TrimPrefix(o.text, sentinel.Error()+": "))
	}
	switch o.state {
	case mismatched:
		m := &plan.MismatchError{Ours: *c.call, Theirs: o.theirs}
		if o.rank == c.rank || wordOf(o.call) != c.word { // it, or a third, is in another call than this rank
			e.Rank, m.Theirs = p, o.call
		}
		e.Err = m
	case timedOut:
		e.Missing, e.Err = o.missing, fmt.Errorf("%w: rank %d waited in %v", plan.ErrTimeout, p, o.call)
		if o.rank == c.rank {
			e.Err = fmt.Errorf("%w: rank %d waited for this rank in %v", plan.ErrTimeout, p, o.call)
		}
	case lost:
		if o.rank == c.rank { // it lost us, so have we lost it
			e.Rank = p
		}
		e.Err = says(plan.ErrPeerLost)
	default:
		e.Rank, e.Err = p, fmt.Errorf("%w: %s", plan.ErrAborted, strings.TrimPrefix(o.text, plan.ErrAborted.Error()+": "))
		if o.rank >= 0 {
			e.Rank = o.rank
		}
	}
	return e
}

// lostOrLate is the sentinel for an error of a conn: time, or the peer.
func lostOrLate(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return plan.ErrTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return plan.ErrAborted
	}
	return plan.ErrPeerLost
}
