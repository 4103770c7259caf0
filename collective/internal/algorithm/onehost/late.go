package onehost

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// parkTime is the longest that a waiting rank sleeps before it looks at conns, contexts
// and clocks. So it bounds how long an unannounced death stays unseen.
const parkTime = 10 * time.Millisecond

// look is called while this rank waits: about every microsecond or, when it sleeps, every
// parkTime. It reports whether to give up, having killed the comm.
func (c *meeting) look() bool {
	if c.dead.Load() != nil || c.deaths() || c.strays() {
		return true
	}
	if err := ipc.ContextError(c.ctx); err != nil {
		c.kill(&protocol.PeerError{Rank: c.rank, Call: *c.call, Err: err})
		return true
	}
	c.looks++
	storeRelease(c.self.looks, c.looks)
	if c.overdue() {
		return c.late()
	}
	if c.threads {
		runtime.Gosched() // a rank that it waits for may need the P
	}
	return false
}

// deaths kills the comm if another rank has published a death notice that concerns this
// one, and reports whether it did.
func (c *meeting) deaths() bool {
	for p := range c.peers {
		if p == c.rank {
			continue
		}
		switch atomic.LoadUint64(c.peers[p].state) {
		case alive:
			continue
		case uint64(protocol.Left):
			if c.call.Kind != protocol.NoKind && c.missing(p) {
				c.kill(&protocol.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: it has left", protocol.ErrPeerLost)})
				return true
			}
			continue
		}
		d, err := c.peers[p].deathNotice()
		if err != nil {
			_ = c.corrupt(p, err)
		} else {
			c.kill(c.reported(p, d))
		}
		return true
	}
	return false
}

// strays kills the comm if a rank is gone or in another call, and reports whether it did.
func (c *meeting) strays() bool {
	// a send or receive has no position
	paired := c.awaited.word != nil && !c.awaited.entry
	for p, conn := range c.conns {
		if p == c.rank || paired && p != c.awaited.rank {
			continue
		}
		if !c.missing(p) {
			if c.atMeeting() && atomic.LoadUint64(c.met(p).mark) != markOf(c.epoch, c.hash) {
				c.kill(c.differs(p))
				return true
			}
			if c.awaited.entry && c.inAnotherCall(p) {
				return true
			}
			continue
		}
		if c.atMeeting() {
			if n := c.ahead(p); n > 0 {
				_ = c.corrupt(p, fmt.Errorf("it is in epoch %d, this rank in %d", c.epoch+uint64(n), c.epoch))
				return true
			}
		}
		if !paired && c.inAnotherCall(p) {
			return true
		}
		// The work of p before its end counts, so missing is asked again after the end
		// is known.
		if err := conn.Err(); err != nil && c.missing(p) && !c.deaths() {
			c.kill(&protocol.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: %w", protocol.ErrPeerLost, err)})
		}
		if c.dead.Load() != nil {
			return true
		}
	}
	return false
}

// # Which rank is late
//
// The rank that this one waits for may itself wait, in an earlier call, for a third: then
// the third is late. So every waiting rank counts its looks in its page. This rank gives
// up only on ranks that have not looked for some time; or on all that have not come, if
// all those look, as where ranks wait for each other.

// overdue reports whether this rank has waited long enough to give up. Some time before
// that it notes how often the others have looked.
func (c *meeting) overdue() bool {
	if !c.timing {
		c.timing, c.began, c.until = true, time.Now(), 0
		return false
	}
	waited, window := time.Since(c.began), max(c.timeout/8, 3*parkTime)
	if c.until == 0 {
		if waited > c.timeout-window {
			c.until = max(c.timeout, waited+window)
			for p := range c.peers {
				c.peers[p].looked = atomic.LoadUint64(c.peers[p].looks)
			}
		}
		return false
	}
	return waited > c.until
}

// late kills the comm because of the ranks that have not come, and reports whether there
// are any.
func (c *meeting) late() bool {
	e := &protocol.PeerError{Call: *c.call, Err: fmt.Errorf("%w after %v", protocol.ErrTimeout, c.timeout)}
	var waiting []int
	for p := range c.peers {
		switch {
		case !c.missing(p):
		case atomic.LoadUint64(c.peers[p].looks) != c.peers[p].looked:
			waiting = append(waiting, p)
		default:
			e.Missing = append(e.Missing, p)
		}
	}
	if len(e.Missing) == 0 {
		e.Missing = waiting
	}
	if len(e.Missing) == 0 {
		return false
	}
	e.Rank = e.Missing[0]
	c.kill(e)
	return true
}
