package onehost

import (
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
)

// # How a rank waits
//
//  1. With a core of its own it looks for each rank in turn, maxSpins times with a PAUSE
//     between.
//  2. Where ranks share cores (the Waiter has seen a yield in which another thread ran),
//     it looks only for ranks on other cores (cores.go), and gives the core away
//     sharedYields times. Often the core goes to a rank that can go on: each of two ranks
//     on a core then does one call's part after the other, with one switch a call.
//  3. Then ring.Waiter looks, yields and, after awakeTimes times awakeFor, sleeps.
const (
	awakeFor   = 40 * time.Microsecond // less than ring.Waiter waits before it sleeps
	awakeTimes = 25

	// maxSpins is how often a rank looks for another before it asks the waiter, which is
	// slower to see that a word has changed.
	maxSpins = 24

	// sharedSpins is maxSpins where cores are shared and it is not known by which ranks.
	sharedSpins = 8

	// sharedYields is how often a rank gives a shared core away before the waiter takes
	// over. It looks around every lookEvery times.
	sharedYields = 64
	lookEvery    = 8
)

// waitFor waits for one word.
func (c *meeting) waitFor(w awaited) error {
	if w.come() {
		return nil
	}
	c.awaited = w
	err := c.waitFrom(w.rank)
	c.awaited = awaited{}
	return err
}

// waitFrom waits for the ranks from p on, or for what awaited says.
func (c *meeting) waitFrom(p int) error {
	c.next = p
	if c.here() {
		return nil
	}
	for i := 1; c.waiter.Shared() && !c.threads && i <= sharedYields; i++ {
		if c.comes(i == 1) {
			return nil
		}
		c.waiter.Yield()
		c.tellCore()
		c.settle()
		if c.here() {
			return nil
		}
		if i%lookEvery == 0 && c.look() {
			return c.dead.Load()
		}
	}
	err := c.sleep()
	if c.spins = maxSpins; c.threads || c.waiter.Shared() {
		c.spins = 1 // comes looks for longer where that is of use
	}
	c.tellCore()
	return err
}

// sleep waits by the Waiter. It stays awake for awakeTimes times awakeFor first: ranks
// that do alike arrive within that, and waking one takes long. Goroutines of one process
// do not stay awake: each would keep a P from the others.
func (c *meeting) sleep() error {
	c.post()
	for i := 0; i < awakeTimes && !c.threads; i++ {
		if c.waiter.WaitFor(c.ready, c.stop, awakeFor) {
			return nil
		}
		if e := c.dead.Load(); e != nil {
			return e
		}
	}
	if c.waiter.Wait(c.ready, c.stop) {
		return nil
	}
	return c.dead.Load()
}

// tellCore writes down on which core this rank is, if that has changed.
func (c *meeting) tellCore() {
	if c.cores.mine == noCore {
		return
	}
	if k := coreNow(); k != c.cores.mine {
		c.cores.mine = k
		atomic.StoreUint64(c.self.core, k)
	}
}

// comes looks, on a core that others need as well, for what is waited for, and reports
// whether it has come. first: it is this wait's first look.
func (c *meeting) comes(first bool) bool {
	n := sharedSpins
	// In a send or receive the peer may itself wait for a rank on this core.
	if c.cores.mine != noCore && (c.awaited.word == nil || c.awaited.entry) {
		if c.beside() || first && c.rootFirst() {
			return false
		}
		n = c.cores.looks
	}
	for ; n > 0; n -= sharedSpins {
		if word, want := c.nearest(); await(word, want, sharedSpins) && c.here() {
			return true
		}
	}
	return false
}

// beside reports whether a rank that is waited for was last seen on this core.
func (c *meeting) beside() bool {
	for p := c.next; p < c.n; p++ {
		if c.missing(p) && atomic.LoadUint64(c.peers[p].core) == c.cores.mine {
			return true
		}
	}
	return false
}

// rootFirst reports whether to let the root of the last broadcast go on first: it waits
// on this core for the same meeting.
func (c *meeting) rootFirst() bool {
	w := &c.window
	return c.atMeeting() && w.epoch == c.epoch-1 && w.root != c.rank &&
		atomic.LoadUint64(c.peers[w.root].core) == c.cores.mine
}

// settle is called when this rank has given its core away. Now and then it moves the
// rank, if the core is crowded.
func (c *meeting) settle() {
	s := &c.cores
	if s.yields++; s.yields < s.settle || s.mine == noCore {
		return
	}
	for p := range s.all {
		s.all[p] = atomic.LoadUint64(c.peers[p].core)
	}
	if to, ok := lessCrowded(s.all, c.rank); ok && local.Move(int(to)) {
		s.moves = min(s.moves+1, settleSlower)
		c.tellCore()
	}
	s.settle = s.yields + settleEvery<<s.moves
}
