package ring

// The model is the protocol of this package once more, cut into its single loads
// and stores, for a ring of eight words. explore takes every path through every
// interleaving of producer and consumer, including when each store leaves the
// store buffer of its core, as amd64 allows: a plain store waits there and others
// see it later; an exchange or a fence waits until the buffer is empty, a barrier
// until that of the other side is. Positions and lengths
// are in words of 8 bytes.
//
// A path is wrong when the consumer reads anything other than the next record,
// when both ends wait for each other, or when it comes back to where it was.

const (
	modelCapacity = 8
	modelLazy     = 2
	modelBuffer   = 4

	cellPad    = 0xfff
	cellBody   = 0x8000
	cellHead   = modelCapacity // the words behind the data
	cellWant   = modelCapacity + 1
	cellBellC  = modelCapacity + 2
	cellBellP  = modelCapacity + 3
	modelCells = modelCapacity + 4
)

// A bug is a mistake that the explorer has to find.
type bug string

const (
	noBug              bug = "none"
	consumerLooksEarly bug = "the consumer looks for records before it says that it sleeps"
	producerLooksEarly bug = "the producer looks for room before it says that it sleeps"
	bellUnfenced       bug = "a bell is looked at without a fence"
	barrierSkipped     bug = "a sleeper that promised a barrier makes none"
	headByMove         bug = "the head is published by a plain store"
	headerFirst        bug = "a header is published before its body"
	releaseEarly       bug = "a record is released before it is read"
	padAtOnce          bug = "padding is shown before what is behind it"
	padUncounted       bug = "room is checked without the padding"
	noZero             bug = "there is no zero behind a record"
	zeroLate           bug = "the zero is stored after the record is published"
	zeroUncounted      bug = "room is checked without the zero"
	headKept           bug = "a consumer that finds nothing keeps what it has released to itself"
	wantUnsaid         bug = "a producer without room does not say so"
	stagedKept         bug = "a producer without room keeps what is staged to itself"
	aheadUncounted     bug = "lines ahead are fetched that are not read yet"
	ringSkipped        bug = "the consumer's bell is not rung"
	wakeLost           bug = "who rings takes the state but wakes nobody"
)

var allBugs = []bug{
	consumerLooksEarly, producerLooksEarly, bellUnfenced, barrierSkipped, headByMove, headerFirst, releaseEarly, padAtOnce,
	padUncounted, noZero, zeroLate, zeroUncounted, headKept, wantUnsaid, stagedKept, aheadUncounted, ringSkipped, wakeLost,
}

// modelScript is what the producer sends: the lengths of the bodies, and how many
// records are staged before each is published.
type modelScript struct {
	lengths []uint8
	batch   int
	// the consumer makes a barrier before it parks, and the producer no fence
	barrier bool
}

var modelScripts = []modelScript{
	{[]uint8{1, 3, 0, 2, 1}, 1, false},
	{[]uint8{3, 3, 3}, 1, false},
	{[]uint8{3, 0, 3}, 1, false},
	{[]uint8{2, 2, 3}, 1, false},
	{[]uint8{2, 1, 3, 1}, 2, false},
	{[]uint8{0, 2, 2, 0, 3}, 3, false},
	{[]uint8{1, 3, 0, 2, 1}, 1, true},
	{[]uint8{3, 3, 3}, 1, true},
	{[]uint8{2, 1, 3, 1}, 2, true},
}

type modelStore struct {
	cell  uint8
	value uint16
}

// modelState is everything: the shared words, what is on its way to them, and both
// ends. It is comparable, so states are found again in a map.
type modelState struct {
	cells  [modelCells]uint16
	buffer [2][modelBuffer]modelStore
	queued [2]uint8
	asleep [2]bool
	p      modelProducer
	c      modelConsumer
}

type modelProducer struct {
	step                  pstep
	record, word          uint8
	tail, published, head uint8
	wanted, pad, end      uint8
	first                 uint16
	afterPublish          pstep // pDone: the next record
	late                  bool  // the header is out and the body is not: headerFirst
}

type modelConsumer struct {
	step                  cstep
	record, word, length  uint8
	head, next, published uint8
	answered              uint8
	after                 cstep
}

type pstep uint8

const (
	pReserve pstep = iota
	pLook
	pWant
	pLookAgain
	pUnwant
	pAnnounce
	pRecheck
	pPark
	pRetract
	pBody
	pZero
	pPad
	pHeader
	pPublish
	pZeroLate
	pAhead
	pFence
	pBell
	pBellSwap
	pWake
	pDone
)

type cstep uint8

const (
	cPeek cstep = iota
	cPadded
	cBody
	cRelease
	cPublish
	cAnswer
	cBell
	cBellSwap
	cWake
	cAnnounce
	cBarrier
	cRecheck
	cPark
	cRetract
	cDone
)

const (
	producerSide = 0
	consumerSide = 1
)

type model struct {
	bug    bug
	script modelScript
}

// load is what one side sees in a cell: its own latest store, or the shared word.
func (s *modelState) load(side int, cell uint8) uint16 {
	for i := int(s.queued[side]) - 1; i >= 0; i-- {
		if s.buffer[side][i].cell == cell {
			return s.buffer[side][i].value
		}
	}
	return s.cells[cell]
}

// store is a plain store; false when the buffer is full and the core has to wait.
func (s *modelState) store(side int, cell uint8, value uint16) bool {
	if s.queued[side] == modelBuffer {
		return false
	}
	s.buffer[side][s.queued[side]] = modelStore{cell, value}
	s.queued[side]++
	return true
}

// exchange is an atomic store; false while the buffer is not empty.
func (s *modelState) exchange(side int, cell uint8, value uint16) (old uint16, ok bool) {
	if s.queued[side] != 0 {
		return 0, false
	}
	old = s.cells[cell]
	s.cells[cell] = value
	return old, true
}

// drain moves the oldest store of a side to the shared words.
func (s *modelState) drain(side int) bool {
	if s.queued[side] == 0 {
		return false
	}
	b := &s.buffer[side]
	s.cells[b[0].cell] = b[0].value
	copy(b[:], b[1:])
	b[modelBuffer-1] = modelStore{}
	s.queued[side]--
	return true
}

func modelHeader(record, length uint8) uint16 { return uint16(record+1)<<4 | uint16(length+1) }

func modelBody(record, word uint8) uint16 { return cellBody | uint16(record+1)<<4 | uint16(word+1) }

// room reports whether the producer may go on to p.end, as far as it has seen.
func (m *model) room(p *modelProducer) bool {
	need := p.end + 1 - p.head
	switch m.bug {
	case zeroUncounted:
		need--
	case padUncounted:
		need -= p.pad
	}
	return need <= modelCapacity
}

// produce takes one step of the producer, and reports false when it cannot.
func (m *model) produce(s *modelState) bool {
	const side = producerSide
	p := &s.p
	length := uint8(0)
	if int(p.record) < len(m.script.lengths) {
		length = m.script.lengths[p.record]
	}
	switch p.step {
	case pReserve:
		need := length + 1
		p.pad = 0
		if off := p.tail % modelCapacity; off+need > modelCapacity {
			p.pad = modelCapacity - off
		}
		p.end = p.tail + p.pad + need
		p.step, p.word = pZero, 0
		if !m.room(p) || p.wanted != 0 {
			p.step = pLook
		}
	case pLook, pLookAgain:
		p.head = uint8(s.load(side, cellHead))
		switch {
		case m.room(p) && p.wanted != 0:
			p.step = pUnwant
		case m.room(p):
			p.step = pZero
		case p.step == pLookAgain:
			p.step = pAnnounce
			if m.bug == producerLooksEarly {
				p.step = pRecheck
			}
		case p.published != p.tail && m.bug != stagedKept:
			p.step, p.afterPublish = pPublish, pLook
		default:
			p.step = pWant
		}
	case pWant:
		want := p.end + 1 - modelCapacity
		if m.bug != wantUnsaid && p.wanted != want {
			if _, ok := s.exchange(side, cellWant, uint16(want)); !ok {
				return false
			}
			p.wanted = want
		}
		p.step = pLookAgain
	case pUnwant:
		if _, ok := s.exchange(side, cellWant, 0); !ok {
			return false
		}
		p.wanted, p.step = 0, pZero
	case pAnnounce:
		if _, ok := s.exchange(side, cellBellP, 1); !ok {
			return false
		}
		p.step = pRecheck
		if m.bug == producerLooksEarly {
			p.step = pPark
		}
	case pRecheck:
		p.head = uint8(s.load(side, cellHead))
		p.step = pPark
		if m.bug == producerLooksEarly {
			p.step = pAnnounce
		}
		if m.room(p) {
			p.step = pRetract
		}
	case pPark:
		// The kernel compares and queues in one step.
		p.step = pRetract
		s.asleep[side] = s.cells[cellBellP] == 1
	case pRetract:
		if _, ok := s.exchange(side, cellBellP, 0); !ok {
			return false
		}
		p.step = pReserve
	case pBody:
		switch {
		case m.bug == headerFirst && !p.late:
			p.late = true
			p.step = pPad
		case p.word < length:
			if !s.store(side, (p.end-length+p.word)%modelCapacity, modelBody(p.record, p.word)) {
				return false
			}
			p.word++
		case p.late:
			m.nextRecord(p)
		default:
			p.step = pPad
		}
	case pZero:
		if m.bug != noZero && m.bug != zeroLate && !s.store(side, p.end%modelCapacity, 0) {
			return false
		}
		p.step = pBody
	case pPad:
		if p.pad != 0 {
			if p.tail == p.published && m.bug != padAtOnce {
				p.first = cellPad
			} else if !s.store(side, p.tail%modelCapacity, cellPad) {
				return false
			}
		}
		p.step = pHeader
	case pHeader:
		h := modelHeader(p.record, length)
		if at := p.tail + p.pad; at == p.published || m.bug == padAtOnce && p.tail == p.published {
			p.first = h
		} else if !s.store(side, at%modelCapacity, h) {
			return false
		}
		if m.bug == padAtOnce && p.pad != 0 && p.tail == p.published {
			p.published += p.pad
		}
		p.tail = p.end
		p.step, p.afterPublish = pPublish, pDone
		if (int(p.record)+1)%m.script.batch != 0 && int(p.record)+1 != len(m.script.lengths) {
			m.nextRecord(p)
		}
	case pPublish:
		cell := p.published % modelCapacity
		if !s.store(side, cell, p.first) {
			return false
		}
		p.published = p.tail
		p.step = pAhead
		if m.bug == zeroLate {
			p.step = pZeroLate
		}
	case pZeroLate:
		if !s.store(side, p.tail%modelCapacity, 0) {
			return false
		}
		p.step = pAhead
	case pAhead:
		if p.tail+2-p.head <= modelCapacity || m.bug == aheadUncounted {
			if !s.store(side, (p.tail+1)%modelCapacity, 0) {
				return false
			}
		}
		p.step = pFence
		if m.script.barrier || m.bug == bellUnfenced {
			p.step = pBell
		}
		if m.bug == ringSkipped {
			m.published(p)
		}
	case pFence:
		if s.queued[side] != 0 {
			return false
		}
		p.step = pBell
	case pBell:
		p.step = pBellSwap
		if s.load(side, cellBellC) == 0 {
			m.published(p)
		}
	case pBellSwap:
		old, ok := s.exchange(side, cellBellC, 0)
		if !ok {
			return false
		}
		p.step = pWake
		if old == 0 || m.bug == wakeLost {
			m.published(p)
		}
	case pWake:
		s.asleep[consumerSide] = false
		m.published(p)
	case pDone:
		return false
	}
	return true
}

// published goes on after a Publish and its Ring.
func (m *model) published(p *modelProducer) {
	switch {
	case p.late:
		p.step = pBody
	case p.afterPublish == pDone:
		m.nextRecord(p)
	default:
		p.step = p.afterPublish
	}
}

func (m *model) nextRecord(p *modelProducer) {
	p.record++
	p.word, p.late = 0, false
	p.step = pReserve
	if int(p.record) == len(m.script.lengths) {
		p.step = pDone
	}
}
