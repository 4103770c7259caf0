package onehost

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ring"
)

// meeting is where this rank is in the order of calls, and what it waits for: the ranks
// at a meeting, one word of one rank (awaited), or the readers of its memory (readers).
type meeting struct {
	ranks
	epoch   uint64 // of the last meeting, or the one under way
	window  window
	awaited awaited
	readers uint64 // position of the call whose readers are waited for, else 0
	next    int    // the rank looked at next: those before are here

	timing bool          // began is set
	began  time.Time     // the call's first look at the clock
	until  time.Duration // after began, when to give up; 0: too early to say
	looks  uint64        // what self.looks says
	spins  int           // looks at a word before the waiter takes over
	cores  cores
	waiter *ring.Waiter
	ready  func() bool
	stop   func() bool
}

// window is what all ranks know of the broadcasts since the last meeting.
type window struct {
	epoch uint64 // of that meeting
	count uint64 // broadcasts since
	used  int    // bytes of the room
	root  int    // of the last one
}

// awaited is a word of one rank that is waited for until it is want, or more where
// atLeast.
type awaited struct {
	word    *uint64 // nil while this rank waits for several
	want    uint64
	rank    int
	atLeast bool
	entry   bool // it is the number of an entry of a board
}

// come reports whether the word has its value.
func (w *awaited) come() bool {
	v := atomic.LoadUint64(w.word)
	return v == w.want || w.atLeast && v > w.want
}

// markOf returns the mark of a rank in the call of that hash.
func markOf(epoch, hash uint64) uint64 { return epoch<<32 | hash>>32 }

// atMeeting reports whether this rank waits at a meeting, and not for a word or readers.
func (c *meeting) atMeeting() bool { return c.awaited.word == nil && c.readers == 0 }

// met returns the line of rank p at the meeting just over, or under way.
func (c *meeting) met(p int) *line { return &c.peers[p].lines[c.epoch&1] }

// upcoming returns this rank's line for the next meeting.
func (c *meeting) upcoming() *line { return &c.self.lines[(c.epoch+1)&1] }

// ahead returns by how many epochs rank p's last meeting is after this one.
func (c *meeting) ahead(p int) int32 {
	return int32(atomic.LoadUint64(c.met(p).mark)>>32) - int32(c.epoch)
}

// missing reports whether rank p keeps this rank waiting.
func (c *meeting) missing(p int) bool {
	switch {
	case p == c.rank:
		return false
	case c.awaited.word != nil:
		return p == c.awaited.rank && !c.awaited.come()
	case c.readers != 0:
		return atomic.LoadUint64(c.peers[p].acknowledged()) < c.readers
	}
	return c.ahead(p) != 0
}

// here reports whether what this rank waits for has come.
func (c *meeting) here() bool {
	if c.awaited.word != nil {
		return c.awaited.come()
	}
	for ; c.next < c.n; c.next++ {
		if c.missing(c.next) {
			return false
		}
	}
	return true
}

// nearest returns the word that is waited for first, and its value if nothing is wrong.
func (c *meeting) nearest() (word *uint64, want uint64) {
	switch {
	case c.awaited.word != nil:
		return c.awaited.word, c.awaited.want
	case c.readers != 0:
		return c.peers[c.next].acknowledged(), c.readers
	}
	return c.met(c.next).mark, markOf(c.epoch, c.hash)
}

// position returns where this waiting rank is in the order of calls.
func (c *meeting) position() uint64 {
	if !c.atMeeting() {
		return positionOf(c.epoch, c.window.count)
	}
	count := uint64(1) // its epoch has begun
	if c.window.epoch == c.epoch-1 {
		count += c.window.count
	}
	return positionOf(c.epoch-1, count)
}

// post publishes where this rank waits for an entry. The position is 0 while the rest is
// written, so that a reader which sees the same position before and after has a whole
// post.
func (c *meeting) post() {
	if !c.awaited.entry {
		return
	}
	position, b := c.position(), c.self.posted()
	at := word64(b, 0)
	if atomic.LoadUint64(at) == position {
		return
	}
	atomic.StoreUint64(at, 0)
	atomic.StoreUint64(word64(b, 8), c.hash)
	c.call.Encode((*[protocol.CallBytes]byte)(b[16:]))
	atomic.StoreUint64(at, position)
}

// differs returns the error of a meeting to which rank p came in another call.
func (c *meeting) differs(p int) *protocol.PeerError {
	l := c.met(p)
	return c.mismatch(p, l.call, uint32(atomic.LoadUint64(l.mark)))
}

// entryDiffers returns the error about root, whose entry is not of this rank's call.
func (c *meeting) entryDiffers(root int, entry []byte) *protocol.PeerError {
	var text [protocol.CallBytes]byte
	copy(text[:8], entry[offEntrySeq:])
	copy(text[8:], entry[offEntryCall:])
	return c.mismatch(root, text[:], uint32(binary.LittleEndian.Uint64(entry[offEntryHash:])>>32))
}

// taken kills the comm if a board has an entry that this rank did not take, and that was
// there before the meeting just over.
func (c *meeting) taken() error {
	for p := range c.peers {
		peer := &c.peers[p]
		entry := peer.entry(peer.entries + 1)
		if p == c.rank || atomic.LoadUint64(word64(entry, 0)) != peer.entries+1 {
			continue
		}
		if atomic.LoadUint64(word64(entry, offEntryPosition)) < positionOf(c.epoch, 0) {
			return c.kill(c.entryDiffers(p, entry))
		}
	}
	return nil
}

// inAnotherCall kills the comm if rank p shows, by its board or its mark, that it is in
// another call than this rank, which waits at a meeting, for an entry or for its readers.
// It reports whether it did.
func (c *meeting) inAnotherCall(p int) bool {
	position, meeting := c.position(), c.atMeeting()
	peer := &c.peers[p]
	// p must do something at this position
	needed := meeting || c.readers != 0 || p == c.awaited.rank
	differs := func(its, hash uint64) bool {
		switch {
		case its == position:
			return hash != c.hash
		// p has passed this position, and would not be missing had it done its part
		case its > position:
			return needed && c.missing(p)
		}
		return false
	}
	entry := peer.entry(peer.entries + 1)
	if atomic.LoadUint64(word64(entry, 0)) == peer.entries+1 && !(c.awaited.entry && p == c.awaited.rank) {
		its := atomic.LoadUint64(word64(entry, offEntryPosition))
		hash := atomic.LoadUint64(word64(entry, offEntryHash))
		// not later: this rank took another call for that one
		if its <= position || differs(its, hash) {
			c.kill(c.entryDiffers(p, entry))
			return true
		}
	}
	posted := peer.posted()
	its, hash := atomic.LoadUint64(word64(posted, 0)), atomic.LoadUint64(word64(posted, 8))
	if its != 0 && differs(its, hash) && atomic.LoadUint64(word64(posted, 0)) == its {
		c.kill(c.mismatch(p, posted[16:], uint32(hash>>32)))
		return true
	}
	if l := &peer.lines[(c.epoch+1)&1]; !meeting && needed {
		if mark := atomic.LoadUint64(l.mark); uint32(mark>>32) == uint32(c.epoch+1) && c.missing(p) {
			c.kill(c.mismatch(p, l.call, uint32(mark)))
			return true
		}
	}
	return false
}
