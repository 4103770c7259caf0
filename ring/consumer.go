package ring

import (
	"fmt"
	"sync/atomic"
)

// Consumer is the reading end of a ring. One goroutine at a time may use it, and
// one process at a time may have one.
//
//	tag, body, err := c.Peek()
//	...
//	c.Release()
type Consumer struct {
	data     []byte
	capacity uint64
	mask     uint64

	head uint64 // end of what is released
	tail uint64 // the producer's index when last looked at
	next uint64 // head behind the record that Peek returned; head when none
	body uint64 // length of that record's body

	published uint64 // what the shared head says
	lazy      uint64 // bytes released but not published that are too many
	answered  uint64 // the last want that was answered with a ring

	tailWord *uint64
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
	Publishes uint64 // stores of the shared index
	Answers   uint64 // rings for a producer that wanted room
}

// NewConsumer attaches to a ring that Init has made, continuing where an earlier
// consumer stopped. It returns ErrLayout or ErrCorrupt.
func NewConsumer(mem []byte, o *ConsumerOptions) (*Consumer, error) {
	capacity, tail, head, err := attach(mem)
	if err != nil {
		return nil, err
	}
	if tail-head > capacity {
		return nil, fmt.Errorf("%w: tail %d, head %d, capacity %d", ErrCorrupt, tail, head, capacity)
	}
	c := &Consumer{
		data:      mem[HeaderSize:],
		capacity:  capacity,
		mask:      capacity - 1,
		head:      head,
		tail:      head,
		next:      head,
		published: head,
		// An eighth: the producer rarely looks, and a full one is told at once.
		lazy:     capacity / 8,
		tailWord: word64(mem, offTail),
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
	if c.head == c.tail {
		if err := c.look(); err != nil {
			return 0, nil, err
		}
	}
	off := c.head & c.mask
	header := atomic.LoadUint64(word64(c.data, off)) // read once, then checked
	if header&padLength == padLength {
		// No correct producer pads at the start of the data, so there are never
		// two in a row, nor one without a record behind it.
		skip := c.capacity - off
		if off == 0 || skip >= c.tail-c.head {
			return 0, nil, c.corrupt("padding", skip)
		}
		c.head += skip
		off = 0
		header = atomic.LoadUint64(word64(c.data, 0))
	}
	n := header & padLength
	need := recordSize(n)
	if need > c.tail-c.head || need > c.capacity-off {
		return 0, nil, c.corrupt("record", need)
	}
	c.next = c.head + need
	c.body = n
	first := off + recordHeader
	last := first + n
	return uint32(header >> 32), c.data[first:last:last], nil
}

// look reads the producer's index once and checks it. It is called when all that
// was seen is released, which is also the moment to publish that: a producer
// waiting for room must not wait for bytes that nobody uses.
func (c *Consumer) look() error {
	if c.err != nil {
		return c.err
	}
	t := atomic.LoadUint64(c.tailWord)
	if t == c.head {
		if c.published != c.head {
			c.publish()
		}
		return ErrEmpty
	}
	if t-c.head > c.capacity || t%8 != 0 {
		return c.corrupt("tail", t)
	}
	c.tail = t
	return nil
}

// corrupt makes ErrCorrupt sticky: with tail at head every Peek looks, and look
// returns the error.
func (c *Consumer) corrupt(what string, value uint64) error {
	c.err = fmt.Errorf("%w: %s %d at head %d, published to %d, capacity %d",
		ErrCorrupt, what, value, c.head, c.tail, c.capacity)
	c.tail, c.next = c.head, c.head
	return c.err
}

// Release gives the bytes of the record that Peek returned back to the producer.
// The index is published lazily: when an eighth of the ring has gathered, when
// Peek finds nothing more, or when the producer asks for room.
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
// correct producer never asks again for an index that has been passed.
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
// what a consumer waits for, one load when the ring is empty.
func (c *Consumer) Ready() bool {
	return c.head != c.tail || atomic.LoadUint64(c.tailWord) != c.head || c.err != nil
}

// Err returns the ErrCorrupt that ended the consumer, or nil.
func (c *Consumer) Err() error { return c.err }

// Stats returns the counters. Like every method it is for the consumer's own
// goroutine: the counters are plain words, to keep them off the bus.
func (c *Consumer) Stats() ConsumerStats { return c.stats }
