package ring

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

const (
	// ahead1 and ahead2 are how far ahead of the tail fetchAhead stores, in bytes.
	ahead1 = 64
	ahead2 = 128

	// streamEvery is how many publications lie between two looks at whether this is a
	// stream: the look costs a cache line, so it is seldom enough to be no one's p99.
	streamEvery = 2048

	// streamLag is how many published bytes a consumer leaves unread in a stream, and
	// never where it waits for each record.
	streamLag = 1024
)

// Producer is the writing end of a ring. One goroutine at a time may use it.
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

	tail      uint64 // end of what is committed or staged
	published uint64 // end of what the consumer can see
	head      uint64 // the consumer's position when last looked at
	first     uint64 // header at published, to be stored last, when anything is staged

	open bool   // a reservation is open; then
	pad  uint64 // is the padding before it, in bytes,
	next uint64 // the tail after it,
	body uint64 // and the length of its body

	stream bool // the consumer was far behind when last looked at

	wanted   uint64 // what the shared want says
	headWord *uint64
	wantWord *uint64

	err   error
	stats ProducerStats
}

// ProducerStats are counters since NewProducer.
type ProducerStats struct {
	Records   uint64 // committed or staged
	Bytes     uint64 // of their bodies
	Publishes uint64 // batches, of one record or more
	Full      uint64 // Reserve found no room
}

// NewProducer attaches to a ring that Init has made and that has had no producer
// yet: a ring is not resumed. It returns ErrLayout.
func NewProducer(mem []byte) (*Producer, error) {
	capacity, err := attach(mem)
	if err != nil {
		return nil, err
	}
	return &Producer{
		data:     mem[HeaderSize:],
		capacity: capacity,
		mask:     capacity - 1,
		headWord: word64(mem, offHead),
		wantWord: word64(mem, offWant),
	}, nil
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
	if !p.room(end) || p.wanted != 0 {
		if err := p.makeRoom(end); err != nil {
			return nil, err
		}
	}
	p.open, p.pad, p.next, p.body = true, pad, end, uint64(n)
	// The zero is stored now and not with the header. Its line often has to be fetched
	// from the other core, and the header's store becomes visible only after it. By
	// then the consumer, which polls, may have taken the header's line away again.
	binary.LittleEndian.PutUint64(p.data[end&p.mask:], 0)
	first := (p.tail+pad)&p.mask + recordHeader
	last := first + uint64(n)
	return p.data[first:last:last], nil
}

// fit returns the padding in front of a record with a body of n bytes, were it
// reserved now, and the tail after it.
func (p *Producer) fit(n uint64) (pad, end uint64) {
	need := recordSize(n)
	off := p.tail & p.mask
	if off+need > p.capacity {
		pad = p.capacity - off
	}
	return pad, p.tail + pad + need
}

// room reports whether the tail may move to end, by the head that was last seen. A zero
// word follows it and needs room as well.
func (p *Producer) room(end uint64) bool {
	return end+recordHeader-p.head <= p.capacity
}

// makeRoom is the slow half of Reserve: it looks at the consumer's head, and when
// that is not enough asks it to ring. The first time that it asks for a head it stores
// want, passes a full fence and looks again, so that either this end sees the room or
// the consumer sees want.
func (p *Producer) makeRoom(end uint64) error {
	if err := p.look(); err != nil {
		return err
	}
	if !p.room(end) {
		if err := p.ask(end + recordHeader - p.capacity); err != nil {
			return err
		}
		if !p.room(end) {
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

// ask has the consumer ring once its head is at want, and looks again.
func (p *Producer) ask(want uint64) error {
	p.Publish() // the consumer cannot release what it does not see
	if p.wanted != want {
		p.wanted = want
		atomic.StoreUint64(p.wantWord, want)
	}
	return p.look()
}

// Position is the end of all records that were committed or staged, for Passed.
func (p *Producer) Position() uint64 { return p.tail }

// Passed reports whether the consumer has released every record before a position. If
// not, the consumer has been asked to ring when it has, so that the caller may wait for
// Passed. It is for a caller that bounds the records on their way by something other than
// bytes. There is one question at a time: a Reserve afterwards takes it back or, when the
// ring is full, replaces it. Passed is true after an error, which Reserve returns.
func (p *Producer) Passed(position uint64) bool {
	return p.head >= position || p.look() != nil || p.head >= position || p.ask(position) != nil || p.head >= position
}

// look reads the consumer's head once and checks it: it never goes back, and never
// passes what was published.
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
	return p.room(end) || p.look() != nil || p.room(end)
}

// Empty reports whether the consumer has released everything and nothing is staged or
// reserved. Until the next Reserve the whole data may then be set to zeros: to the
// consumer that is the same.
func (p *Producer) Empty() bool { return !p.open && p.look() == nil && p.head == p.tail }

// Free returns the length of the longest body that Reserve would take now, or
// -1 when it would take none.
func (p *Producer) Free() int {
	if p.look() != nil {
		return -1
	}
	room := p.capacity - recordHeader - (p.tail - p.head)
	toEnd := p.capacity - p.tail&p.mask
	// Either before the end of the data, or after padding at its start.
	best := min(room, toEnd)
	if room > toEnd {
		best = max(best, room-toEnd)
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
// consumer sees a batch at once, and its bell is looked at once.
func (p *Producer) Stage(tag uint32) {
	if !p.open {
		panic("ring: Commit without a reservation")
	}
	p.open = false
	if p.pad != 0 {
		p.putHeader(p.tail, padMark)
	}
	p.putHeader(p.tail+p.pad, header(p.body, tag))
	p.tail = p.next
	p.stats.Records++
	p.stats.Bytes += p.body
}

// putHeader writes the header at a position, unless the consumer is polling that very
// word: then it waits for Publish.
func (p *Producer) putHeader(at, h uint64) {
	if at == p.published {
		p.first = h
		return
	}
	binary.LittleEndian.PutUint64(p.data[at&p.mask:], h)
}

// Publish shows the consumer all that is staged. On amd64 it is no fence: Bell.Ring, or
// the sleeper's barrier, makes one (see Fences in the package's documentation).
func (p *Producer) Publish() {
	if p.published == p.tail {
		return
	}
	at := p.published
	p.published = p.tail
	p.stats.Publishes++
	storeRelease(word64(p.data, at&p.mask), p.first)
	if p.stats.Publishes%streamEvery == 0 && p.look() == nil {
		p.stream = p.published-p.head > streamLag
	}
	if !p.stream {
		p.fetchAhead()
	}
}

// fetchAhead stores to the next two lines, which are still empty, so that this core owns
// them by the time the next record is written. That shortens a round trip of records of
// one or two lines between distant cores (docs/decisions.md). It leaves alone the line
// that tail is in: the consumer polls that one. In a stream no end waits for a single
// record, and the stores only cost rate.
func (p *Producer) fetchAhead() {
	if p.open || p.tail+ahead2+recordHeader-p.head > p.capacity {
		return // a record is being written there, or is not read yet
	}
	binary.LittleEndian.PutUint64(p.data[(p.tail+ahead1)&p.mask:], 0)
	binary.LittleEndian.PutUint64(p.data[(p.tail+ahead2)&p.mask:], 0)
}

// Abort forgets the open reservation.
func (p *Producer) Abort() {
	if !p.open {
		panic("ring: Abort without a reservation")
	}
	p.open = false
}

// Err returns the ErrCorrupt that ended the producer, or nil.
func (p *Producer) Err() error { return p.err }

// MaxRecord returns the longest body that Reserve takes.
func (p *Producer) MaxRecord() int { return MaxRecord(int(p.capacity)) }

// Stats returns the counters. Like every method it is for the producer's own
// goroutine: the counters are plain words, to keep them off the bus.
func (p *Producer) Stats() ProducerStats { return p.stats }
