package host

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// How a rank waits for the others
//
// With a core for itself it looks for each in turn, maxSpins times with a PAUSE between, and leaves the rest to ring.Waiter, which looks on
// for a microsecond before it gives the core away for the first time.
//
// Where ranks share cores (the Waiter has seen a yield in which somebody else ran) looking is in vain for those who run when this rank does
// not: it looks only for those on other cores (cores.go) and gives the core away, as
// often as not to one that can go on: of two ranks on a core each comes to the next meeting, finds the other one there and to the one after,
// before it has to wait. That is one switch for each call on each core, some 1.5 µs on Zen 4, whatever is looked for and timed besides.
const (
	awakeFor   = 40 * time.Microsecond // less than ring.Waiter waits before it sleeps
	awakeTimes = 25

	// maxSpins is how often a rank looks for another with a PAUSE between before it asks the waiter, which is slower to see that
	// something has come: for about a microsecond at most.
	maxSpins = 24

	// sharedSpins is that where cores are shared and it is not known by whom: some 100 ns.
	sharedSpins = 8

	// sharedYields is how often a rank gives a shared core away until it leaves its wait to the waiter; it looks around every lookEvery times.
	sharedYields = 64
	lookEvery    = 8
)

// waitFrom waits for the ranks from p on, or for a letter of p's.
func (c *Comm) waitFrom(p int) error {
	c.next = p
	if c.here() {
		return nil
	}
	for i := 1; c.post.Shared() && !c.threads && i <= sharedYields; i++ {
		if c.comes(i == 1) {
			return nil
		}
		c.post.Yield()
		c.tellCore()
		c.settle()
		if c.here() {
			return nil
		}
		if i%lookEvery == 0 && c.look() {
			return c.dead.Load()
		}
	}
	err := c.wait()
	if c.spins = maxSpins; c.threads || c.post.Shared() {
		c.spins = 1 // comes looks for longer, if that is worth it
	}
	c.tellCore()
	return err
}

// nearest is the word that is waited for first, and wanted what it comes to if nothing is wrong.
func (c *Comm) nearest() *uint64 {
	switch {
	case c.letter.word != nil:
		return c.letter.word
	case c.readers != 0:
		return c.peers[c.next].acknowledged()
	}
	return c.peers[c.next].lines[c.epoch&1].mark
}

func (c *Comm) wanted() uint64 {
	switch {
	case c.letter.word != nil:
		return c.letter.want
	case c.readers != 0:
		return c.readers
	}
	return markOf(c.epoch, c.word)
}

// wait waits until here. It stays awake for awakeTimes times awakeFor before it sleeps: ranks that do alike arrive within
// that, more than there are cores too, and waking one takes as long as a megabyte. Goroutines of one process do not: one that
// stays awake keeps a P from others.
func (c *Comm) wait() error {
	c.tellPlace()
	for i := 0; i < awakeTimes && !c.threads; i++ {
		if c.post.WaitFor(c.ready, c.stop, awakeFor) {
			return nil
		}
		if e := c.dead.Load(); e != nil {
			return e
		}
	}
	if c.post.Wait(c.ready, c.stop) {
		return nil
	}
	return c.dead.Load()
}

// look is called while this rank waits, about every microsecond or, when it sleeps, every parkTime. It says whether to give up, having
// killed the comm.
func (c *Comm) look() bool {
	if c.dead.Load() != nil || c.obituaries() || c.strays() {
		return true
	}
	if err := ipc.ContextError(c.ctx); err != nil {
		c.kill(&plan.PeerError{Rank: c.rank, Call: *c.call, Err: err})
		return true
	}
	c.looks++
	storeRelease(c.own.looks, c.looks)
	if c.overdue() {
		return c.late()
	}
	if c.threads {
		runtime.Gosched() // whom it waits for may need the P
	}
	return false
}

// strays looks for ranks that are gone, or are in another call.
func (c *Comm) strays() bool {
	paired := c.letter.word != nil && !c.letter.notice // which has no place in the order of all
	meeting := c.letter.word == nil && c.readers == 0
	for p, conn := range c.conns {
		if p == c.rank || paired && p != c.letter.peer {
			continue
		}
		if !c.missing(p) {
			if meeting && atomic.LoadUint64(c.peers[p].lines[c.epoch&1].mark) != markOf(c.epoch, c.word) {
				c.kill(c.differs(p))
				return true
			}
			if c.letter.notice && c.elsewhere(p) {
				return true
			}
			continue
		}
		if meeting {
			if n := c.ahead(p); n > 0 {
				_ = c.broke(p, fmt.Errorf("it is in epoch %d, this rank in %d", c.epoch+uint64(n), c.epoch))
				return true
			}
		}
		if !paired && c.elsewhere(p) {
			return true
		}
		// What it did before it ended counts: it is asked for once more after its end is known.
		if err := conn.Err(); err != nil && c.missing(p) && !c.obituaries() {
			c.kill(&plan.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: %w", plan.ErrPeerLost, err)})
		}
		if c.dead.Load() != nil {
			return true
		}
	}
	return false
}

// # Who is late
//
// Whom this rank waits for may itself wait, in an earlier call, for a third: then the third is late. So every rank counts its looks in its
// page, and this one gives up only on ranks that have not looked for some time; on all that have not come, if all those look, as where
// they wait for each other.

// overdue says whether this rank has waited for long enough to give up. Some time before it writes down how often the others have looked.
func (c *Comm) overdue() bool {
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

// late gives up on those who have not come, if there are any.
func (c *Comm) late() bool {
	e := &plan.PeerError{Call: *c.call, Err: fmt.Errorf("%w after %v", plan.ErrTimeout, c.timeout)}
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
