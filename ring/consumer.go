package ring

import (
	"fmt"
	"sync/atomic"
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
	next uint64 // head behind the record that Peek returned; head when none
	body uint64 // length of that record's body

	published uint64 // what the shared head says
	lazy      uint64 // bytes released but not published that are too many
	answered  uint64 // the last want that was answered with a ring

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
}

// ConsumerStats are counters since NewConsumer.
type ConsumerStats struct {
	Records   uint64 // released
	Bytes     uint64 // of their bodies
	Publishes uint64 // stores of the shared head
	Answers   uint64 // rings for a producer that wanted room
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
		headWord: word64(mem, offHead),
		wantWord: word64(mem, offWant),
	}
	if o != nil {
		c.space = o.Space
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
		if h, err = c.turn(low); err != nil {
			return 0, nil, err
		}
		off = 0
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

// turn is the rare half of Peek: there is nothing, or padding. Behind padding the
// header at the start of the data is returned.
//
// Finding nothing is the moment to publish all that is released: a producer that
// waits for room must not wait for bytes that nobody uses.
func (c *Consumer) turn(low uint64) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	if low == 0 {
		if c.published != c.head {
			c.publish()
		}
		return 0, ErrEmpty
	}
	off := c.head & c.mask
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

// publish shows the producer what is released, a full fence, and then looks
// whether that is what the producer waits for. One want is answered once: a
// correct producer never asks again for a position that has been passed.
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
