package ring

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// Producer is the writing end of a ring. One goroutine at a time may use it, and
// one process at a time may have one.
//
// A record is reserved, filled in place and committed:
//
//	body, err := p.Reserve(n)
//	...
//	copy(body, message)
//	p.Commit(tag)
//	bell.Ring()
type Producer struct {
	data     []byte
	capacity uint64
	mask     uint64

	tail uint64 // end of what is committed or staged
	head uint64 // the consumer's index when last looked at

	open  bool   // a reservation is open:
	start uint64 // its place in data
	next  uint64 // tail after it
	body  uint64 // its length

	published uint64 // what the shared tail says
	wanted    uint64 // what the shared want says

	tailWord *uint64
	headWord *uint64
	wantWord *uint64

	err   error
	stats ProducerStats
}

// ProducerStats are counters since NewProducer.
type ProducerStats struct {
	Records   uint64 // committed or staged
	Bytes     uint64 // of their bodies
	Publishes uint64 // stores of the shared index
	Full      uint64 // Reserve found no room
}

// NewProducer attaches to a ring that Init has made, continuing where an
// earlier producer stopped. It returns ErrLayout or ErrCorrupt.
func NewProducer(mem []byte) (*Producer, error) {
	capacity, tail, head, err := attach(mem)
	if err != nil {
		return nil, err
	}
	if tail-head > capacity {
		return nil, fmt.Errorf("%w: tail %d, head %d, capacity %d", ErrCorrupt, tail, head, capacity)
	}
	p := &Producer{
		data:      mem[HeaderSize:],
		capacity:  capacity,
		mask:      capacity - 1,
		tail:      tail,
		head:      head,
		published: tail,
		tailWord:  word64(mem, offTail),
		headWord:  word64(mem, offHead),
		wantWord:  word64(mem, offWant),
	}
	atomic.StoreUint64(p.wantWord, 0)
	return p, nil
}

// Reserve returns n bytes in the ring for the body of the next record. They
// belong to the caller until Commit, Stage or Abort, and hold whatever was there
// before. At most one reservation is open: a second one panics.
//
// ErrFull means that there is no room now; what was staged has been published,
// and the consumer has been asked to ring when there is room for n, so that the
// caller may wait for CanReserve(n). ErrTooLarge means that there never will be.
// ErrCorrupt is final.
func (p *Producer) Reserve(n int) ([]byte, error) {
	if p.open {
		panic("ring: Reserve with a reservation open")
	}
	if uint64(n) > p.capacity/2-recordHeader {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, p.capacity/2-recordHeader)
	}
	pad, end := p.fit(uint64(n))
	if end-p.head > p.capacity || p.wanted != 0 {
		if err := p.makeRoom(end); err != nil {
			return nil, err
		}
	}
	start := p.tail & p.mask
	if pad != 0 {
		binary.LittleEndian.PutUint64(p.data[start:], padLength)
		start = 0
	}
	p.open, p.start, p.next, p.body = true, start, end, uint64(n)
	first := start + recordHeader
	last := first + uint64(n)
	return p.data[first:last:last], nil
}

// fit returns the padding in front of a record with a body of n bytes, were it
// reserved now, and the tail behind it.
func (p *Producer) fit(n uint64) (pad, end uint64) {
	need := recordSize(n)
	off := p.tail & p.mask
	if off+need > p.capacity {
		pad = p.capacity - off
	}
	return pad, p.tail + pad + need
}

// makeRoom is the slow half of Reserve: it looks at the consumer's index, and
// when that is not enough asks it to ring. Asking is a full fence followed by a
// second look, so that either this end sees the room or the consumer sees the
// question.
func (p *Producer) makeRoom(end uint64) error {
	if err := p.look(); err != nil {
		return err
	}
	if end-p.head > p.capacity {
		p.Publish()
		if want := end - p.capacity; p.wanted != want {
			p.wanted = want
			atomic.StoreUint64(p.wantWord, want)
		}
		if err := p.look(); err != nil {
			return err
		}
		if end-p.head > p.capacity {
			p.stats.Full++
			return ErrFull
		}
	}
	if p.wanted != 0 {
		p.wanted = 0
		atomic.StoreUint64(p.wantWord, 0)
	}
	return nil
}

// look reads the consumer's index once and checks it: it never goes back, and
// never passes what was published.
func (p *Producer) look() error {
	if p.err != nil {
		return p.err
	}
	h := atomic.LoadUint64(p.headWord)
	if h-p.head > p.published-p.head || h%8 != 0 {
		p.err = fmt.Errorf("%w: head %d, expected %d to %d", ErrCorrupt, h, p.head, p.published)
		return p.err
	}
	p.head = h
	return nil
}

// CanReserve reports whether Reserve(n) would return something other than
// ErrFull. It is what a producer waits for.
func (p *Producer) CanReserve(n int) bool {
	if uint64(n) > p.capacity/2-recordHeader {
		return true
	}
	_, end := p.fit(uint64(n))
	return end-p.head <= p.capacity || p.look() != nil || end-p.head <= p.capacity
}

// Free returns the length of the longest body that Reserve would take now, or
// -1 when it would take none.
func (p *Producer) Free() int {
	if p.look() != nil {
		return -1
	}
	room := p.capacity - (p.tail - p.head)
	off := p.tail & p.mask
	// Either in front of the end of the data, or behind padding at its start.
	best := min(room, p.capacity-off)
	if wrapped := p.capacity - off; room > wrapped {
		best = max(best, room-wrapped)
	}
	return int(min(best, p.capacity/2)) - recordHeader
}

// Commit ends the open reservation, gives the record its tag and publishes it,
// together with all that was staged. The caller then rings the consumer's bell.
func (p *Producer) Commit(tag uint32) {
	p.Stage(tag)
	p.Publish()
}

// Stage ends the open reservation like Commit but does not yet publish it. The
// fence of Publish costs as much as a small record, so a batch pays it once.
func (p *Producer) Stage(tag uint32) {
	if !p.open {
		panic("ring: Commit without a reservation")
	}
	p.open = false
	binary.LittleEndian.PutUint64(p.data[p.start:], p.body|uint64(tag)<<32)
	p.tail = p.next
	p.stats.Records++
	p.stats.Bytes += p.body
}

// Publish shows the consumer all that is staged. It is a full fence, unless
// nothing is staged.
func (p *Producer) Publish() {
	if p.published == p.tail {
		return
	}
	p.published = p.tail
	p.stats.Publishes++
	atomic.StoreUint64(p.tailWord, p.tail)
}

// Abort forgets the open reservation.
func (p *Producer) Abort() {
	if !p.open {
		panic("ring: Abort without a reservation")
	}
	p.open = false
}

// Drained reports whether the consumer has released all that was published.
func (p *Producer) Drained() bool {
	return p.look() == nil && p.head == p.published
}

// Err returns the ErrCorrupt that ended the producer, or nil.
func (p *Producer) Err() error { return p.err }

// MaxRecord returns the longest body that Reserve takes.
func (p *Producer) MaxRecord() int { return MaxRecord(int(p.capacity)) }

// Stats returns the counters. Like every method it is for the producer's own
// goroutine: the counters are plain words, to keep them off the bus.
func (p *Producer) Stats() ProducerStats { return p.stats }
