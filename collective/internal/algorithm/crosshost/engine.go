package crosshost

import (
	"context"

	"github.com/ringside-go/ringside/collective/protocol"
)

// run makes one call. The comm is locked.
func (c *engine) run(ctx context.Context, call protocol.Call, j job) error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	c.call, c.hash, c.job = call, call.Hash(), j
	if !call.Kind.Paired() {
		c.past[call.Seq%uint64(len(c.past))] = call
	}
	waits := false
	for p := range c.peers {
		l := &c.peers[p]
		if p == c.rank {
			continue
		}
		l.sends, l.recvs, l.sent, l.rcvd = j.sends(p), j.recvs(p), 0, 0
		waits = waits || l.recvs > 0
	}
	c.tick = c.clock.begin()
	c.late, c.failed, c.idle = c.tick+c.clock.limit, nil, c.moves
	if len(c.held) > 0 {
		c.failed = c.heldBack()
	} else if !waits { // it would read no message else
		c.failed = c.read()
	}
	err := c.waiter.Wait(ctx, c.step)
	c.clock.end()
	c.job = nil
	e := c.dead.Load()
	switch {
	case e != nil:
		return e
	case c.failed != nil:
		return c.settle(c.failed)
	case err != nil:
		return c.kill(c.cancelled(err))
	}
	c.call = protocol.Call{}
	return nil
}

// advance moves the call under way on and says whether it has ended, one way or the
// other. The Waiter calls it.
func (c *engine) advance() bool {
	if c.failed != nil || c.dead.Load() != nil {
		return true
	}
	done, err := c.progress()
	if err == nil && !done {
		err = c.read()
	}
	if tick := c.clock.ticks.Load(); err == nil && !done && tick != c.tick {
		c.tick = tick
		err = c.overdue()
	}
	c.failed = err
	return done || err != nil
}

// progress begins, continues and folds until nothing moves any more, and reports whether
// the call is done.
func (c *engine) progress() (done bool, err *protocol.PeerError) {
	for {
		moves := c.moves
		done = true
		// each rank begins with another, so that not all send to one
		for i := 1; i < c.n; i++ {
			p := c.rank + i
			if p >= c.n {
				p -= c.n
			}
			l := &c.peers[p]
			if l.sent < l.sends {
				if err := c.push(p, l); err != nil {
					return false, err
				}
			}
			if l.rcvd < l.recvs || l.receiving {
				if err := c.pull(p, l); err != nil {
					return false, err
				}
			}
			done = done && !l.pending()
		}
		if c.job.work() {
			c.moves++
		}
		if moves == c.moves {
			return done, nil
		}
	}
}
