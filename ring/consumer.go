package ring

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long the consumer pauses when it has caught up with a fast
	// producer. Some hundred records gather meanwhile, more than the cores fetch ahead by
	// themselves.
	lingerTime = 12 * time.Microsecond

	// lingerRun is how many records have to gather in that time: with fewer the
	// wait costs more than it saves.
	lingerRun = 16

	// minLingerEvery and maxLingerEvery bound how often a pause is tried: at one look
	// that finds nothing in so many, twice as many each time it was in vain.
	minLingerEvery = 16
	maxLingerEvery = 4096
)

// Consumer is the reading end of a ring. One goroutine at a time may use it.
//
//	tag, body, err := c.Peek()
//	...
//	c.Release()
type Consumer struct {
	data     []byte
	capacity uint64
	mask     uint64

	head uint64 // end of what is released
	next uint64 // head after the record that Peek returned; head when none
	body uint64 // length of that record's body

	published uint64 // what the shared head says
	lazy      uint64 // as many released bytes are published at once
	answered  uint64 // the last want that was answered by Bell.Ring

	lingers bool   // the last look that found nothing paused
	empties uint64 // such looks without a pause since the last pause
	every   uint64 // pause once in so many of them
	pauses  uint32 // PAUSE instructions of one pause
	emptyAt uint64 // records at the last look that found nothing

	headWord *uint64
	wantWord *uint64
	space    *Bell

	err   error
	stats ConsumerStats
}

// ConsumerOptions are the choices of NewConsumer; nil means all defaults.
type ConsumerOptions struct {
	// Space is rung when a producer that found the ring full has room again.
	// Without it the producer has to poll.
	Space *Bell

	// Eager publishes every release at once, for a producer that must see all the room
	// there is although the consumer may not look again.
	Eager bool
}

// ConsumerStats are counters since NewConsumer.
type ConsumerStats struct {
	Records   uint64 // released
	Bytes     uint64 // of their bodies
	Publishes uint64 // stores of the shared head
	Answers   uint64 // calls of Bell.Ring for a producer that wanted room
}

// NewConsumer attaches to a ring that Init has made and that has had no consumer
// yet: a ring is not resumed. The producer may be at work. It returns ErrLayout.
func NewConsumer(mem []byte, o *ConsumerOptions) (*Consumer, error) {
	capacity, err := attach(mem)
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		data:     mem[HeaderSize:],
		capacity: capacity,
		mask:     capacity - 1,
		// An eighth: the producer rarely looks, and a full one is told at once.
		lazy:     capacity / 8,
		every:    minLingerEvery,
		pauses:   uint32(pausesIn(lingerTime)),
		headWord: word64(mem, offHead),
		wantWord: word64(mem, offWant),
	}
	if o != nil {
		c.space = o.Space
		if o.Eager {
			c.lazy = 0
		}
	}
	return c, nil
}

// Peek returns the oldest record in place. The body belongs to the caller until
// Release; a hostile peer may still write to it, so whatever is decided by its
// contents is to be read once. Peek again returns the same record.
//
// ErrEmpty means that there is none now; ErrCorrupt is final.
func (c *Consumer) Peek() (tag uint32, body []byte, err error) {
	off := c.head & c.mask
	h := atomic.LoadUint64(word64(c.data, off)) // read once, then checked
	if low := h & lengthMask; low == 0 || low == padMark || c.err != nil {
		if h, err = c.peekRare(low); err != nil {
			return 0, nil, err
		}
		off = c.head & c.mask
	}
	n := h&lengthMask - 1
	need := recordSize(n)
	if need > c.capacity-off {
		return 0, nil, c.corrupt("record", n)
	}
	c.next = c.head + need
	c.body = n
	first := off + recordHeader
	last := first + n
	return uint32(h >> 32), c.data[first:last:last], nil
}

// peekRare is the rare half of Peek: there is nothing, or padding. After padding it
// returns the header at the start of the data.
//
// If there is no record, it publishes all that is released: a producer that waits for
// room must not wait for bytes that are free.
func (c *Consumer) peekRare(low uint64) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	off := c.head & c.mask
	if low == 0 && c.linger() {
		h := atomic.LoadUint64(word64(c.data, off))
		if low = h & lengthMask; low != 0 && low != padMark {
			return h, nil
		}
	}
	if low == 0 {
		if c.published != c.head {
			c.publish()
		}
		return 0, ErrEmpty
	}
	// A correct producer pads only in front of a record that it publishes at the
	// same time, so not at the start, and never twice in a row.
	h := atomic.LoadUint64(word64(c.data, 0))
	if second := h & lengthMask; off == 0 || second == 0 || second == padMark {
		return 0, c.corrupt("padding before header", h)
	}
	c.head += c.capacity - off
	c.next = c.head
	return h, nil
}

// linger is called when there is nothing, and reports whether it let a moment pass,
// after which there may be something.
//
// A consumer that is faster than its producer looks at a line while that is being
// written, and takes it away from the other core several times a record: both are
// then half as fast as they could be. A consumer that stays some records behind
// reads lines that the producer is done with. Whether the producer goes on without
// being answered cannot be known, so it is tried, rarely enough to cost a round
// trip nothing: if a few records have gathered meanwhile, lingering goes on for as
// long as that holds.
func (c *Consumer) linger() bool {
	run := c.stats.Records - c.emptyAt // records since there was nothing
	c.emptyAt = c.stats.Records
	if c.lingers {
		// It has lingered the last time: this is what came of it.
		if c.lingers = run >= lingerRun; c.lingers {
			c.every = minLingerEvery
		} else {
			c.every = min(2*c.every, maxLingerEvery)
		}
	}
	switch {
	case run == 0:
		return false
	case c.lingers:
	default:
		if c.empties++; c.empties < c.every {
			return false
		}
		c.empties = 0
		c.lingers = true
	}
	pause(c.pauses)
	return true
}

// corrupt makes ErrCorrupt sticky.
func (c *Consumer) corrupt(what string, value uint64) error {
	c.err = fmt.Errorf("%w: %s %#x at %d, capacity %d", ErrCorrupt, what, value, c.head, c.capacity)
	c.next = c.head
	return c.err
}

// Release gives the bytes of the record that Peek returned back to the producer.
// The head is published lazily: when an eighth of the ring has gathered, when Peek
// finds nothing more, or when the producer asks for room.
func (c *Consumer) Release() {
	if c.next == c.head {
		panic("ring: Release without Peek")
	}
	c.head = c.next
	c.stats.Records++
	c.stats.Bytes += c.body
	if c.head-c.published >= c.lazy || atomic.LoadUint64(c.wantWord) != 0 {
		c.publish()
	}
}

// publish stores head, which is also a full fence, and then rings if the producer waits
// for a head up to this one. It rings once for each want: a correct producer never asks
// again for a position that has been passed.
func (c *Consumer) publish() {
	c.published = c.head
	c.stats.Publishes++
	atomic.StoreUint64(c.headWord, c.head)
	want := atomic.LoadUint64(c.wantWord)
	if want == 0 || want == c.answered || c.head < want || c.space == nil {
		return
	}
	c.answered = want
	c.stats.Answers++
	c.space.Ring()
}

// Ready reports whether Peek would return something other than ErrEmpty. It is
// what a consumer waits for: one load of the line that the record will be in.
func (c *Consumer) Ready() bool {
	return atomic.LoadUint64(word64(c.data, c.head&c.mask))&lengthMask != 0 || c.err != nil
}

// Err returns the ErrCorrupt that ended the consumer, or nil.
func (c *Consumer) Err() error { return c.err }

// Stats returns the counters. Like every method it is for the consumer's own
// goroutine: the counters are plain words, to keep them off the bus.
func (c *Consumer) Stats() ConsumerStats { return c.stats }
