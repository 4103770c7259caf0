package host

import (
	"slices"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc/local"
)

// Which ranks share a core
//
// Of more than two ranks each says in its page on which core it is, so that one that waits on a core which others need knows what looking is
// good for. Whom it waits for and who was last seen on this core runs as soon as this rank gives the core away, and not before: it does
// so at once. If all of those are on other cores, nobody of this core can do more than this rank: so it looks for somewhat more than a switch
// takes. Then each call costs a core that two ranks share one switch; who gives up sooner has its neighbour run for nothing, and comes late
// itself.
//
// After a broadcast its root goes first: where it waits on this core for the same meeting, it gets the core. It is waited for if it gives
// again, and if not it is as good as another.
//
// The kernel may leave three ranks on one of two cores for half a second, since all of them ran a moment ago; a call takes two switches
// meanwhile. So the last of the three moves (settle).
//
// Four ranks on two cores of an Ice Lake server, where a switch takes 1.2 µs, medians of three runs each, with a few looks and a yield whoever
// is waited for, and so: switches of a rank in an all-reduce 0.75 and 0.53, all-reduce of 4 B 4.0 and 3.2 µs (2.1 to 2.8 in eight runs more; 4.2
// while three ranks are on a core), 1 KiB 4.2 and 3.6, barrier 2.9 and 2.3, barrier and broadcast of 4 B 5.2 and 4.5, of which the broadcast 3.1
// and 1.3 (3.8 if the root does not go first). Looking for twice as long is the same, but for that broadcast, which takes up to 3.

// noCore is where a rank is that does not know it.
const noCore = ^uint64(0)

const (
	// settleEvery is the yields after which a rank that waits looks whether its core is crowded: a fraction of a millisecond. After each move
	// it is twice as many, up to settleEvery<<settleSlower: the kernel may have had a reason to leave it where it was.
	settleEvery  = 64
	settleSlower = 14
)

// cores is what a rank knows of where ranks run.
type cores struct {
	mine   uint64 // what own.core says; noCore: nothing quick says it, or only two ranks would
	looks  int    // for ranks on other cores, while this core is shared
	yields uint64
	settle uint64 // the yields at which to see next whether this core is crowded
	moves  int
	all    []uint64 // room for where all are
}

// farMicros is how long to look for ranks on other cores, in µs.
const farMicros = 2

// newCores is for so many ranks; pauses is how many PAUSEs take a microsecond.
func newCores(ranks, pauses int) cores {
	s := cores{mine: noCore, settle: settleEvery}
	if ranks > 2 && hasCoreNow() {
		s.mine, s.looks, s.all = 0, farMicros*pauses, make([]uint64, ranks)
	}
	return s
}

// tellCore writes down which core this is, if it is not the one of before.
func (c *Comm) tellCore() {
	if c.cores.mine == noCore {
		return
	}
	if k := coreNow(); k != c.cores.mine {
		c.cores.mine = k
		atomic.StoreUint64(c.own.core, k)
	}
}

// comes looks, on a core that others need as well, for what is waited for, and says whether it has come. first: it is this wait's first look.
func (c *Comm) comes(first bool) bool {
	n := sharedSpins
	if c.cores.mine != noCore && (c.letter.word == nil || c.letter.notice) { // else a peer that may itself wait for one on this core
		if c.beside() || first && c.rootFirst() {
			return false
		}
		n = c.cores.looks
	}
	for ; n > 0; n -= sharedSpins {
		if await(c.nearest(), c.wanted(), sharedSpins) && c.here() {
			return true
		}
	}
	return false
}

// beside says whether one of those that are waited for was on this core when it last said where it was.
func (c *Comm) beside() bool {
	for p := c.next; p < c.n; p++ {
		if c.missing(p) && atomic.LoadUint64(c.peers[p].core) == c.cores.mine {
			return true
		}
	}
	return false
}

// rootFirst says whether to let the root of the last broadcast go on first, which waits on this core for the same meeting: it is whom
// the others will wait for if it gives again, and this rank, too.
func (c *Comm) rootFirst() bool {
	w := &c.window
	return c.letter.word == nil && c.readers == 0 && w.epoch == c.epoch-1 && w.root != c.rank &&
		atomic.LoadUint64(c.peers[w.root].core) == c.cores.mine
}

// settle is called when this rank has given its core away, and moves it, now and then, if that is crowded.
func (c *Comm) settle() {
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

// lessCrowded is the core with the fewest of the ranks, which are on these cores, if a rank should move there: its own has two more of them
// at least, and it is the last of those. It sorts them.
func lessCrowded(on []uint64, rank int) (core uint64, ok bool) {
	mine := on[rank]
	if slices.Contains(on[rank+1:], mine) {
		return 0, false
	}
	slices.Sort(on)
	crowd, fewest := 0, len(on)
	for len(on) > 0 {
		n := 1
		for n < len(on) && on[n] == on[0] {
			n++
		}
		if on[0] == mine {
			crowd = n
		} else if n < fewest {
			core, fewest = on[0], n
		}
		on = on[n:]
	}
	return core, crowd >= fewest+2
}
