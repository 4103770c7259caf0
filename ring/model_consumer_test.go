package ring

import "fmt"

// consume takes one step of the consumer. A string says what it read that it must
// never read.
func (m *model) consume(s *modelState) (ok bool, wrong string) {
	const side = consumerSide
	c := &s.c
	switch c.step {
	case cPeek, cPadded:
		off := c.head % modelCapacity
		h := s.load(side, off)
		switch {
		case h == 0 && c.step == cPeek:
			c.step = cAnnounce
			if m.bug == consumerLooksEarly {
				c.step = cRecheck
			}
			if c.published != c.head && m.bug != headKept {
				c.after = c.step
				c.step = cPublish
			}
		case h == cellPad && c.step == cPeek && off != 0:
			c.head += modelCapacity - off
			c.step = cPadded
		case h == modelHeader(c.record, m.script.lengths[c.record]):
			c.length = m.script.lengths[c.record]
			c.next = c.head + 1 + c.length
			c.step, c.word = cBody, 0
			if m.bug == releaseEarly {
				c.step, c.after = cPublish, cBody
			}
		default:
			return true, fmt.Sprintf("header %#x of record %d at %d", h, c.record, c.head)
		}
	case cBody:
		if c.word == c.length {
			c.step = cRelease
			break
		}
		cell := (c.head + 1 + c.word) % modelCapacity
		if m.bug == releaseEarly {
			cell = (c.next - c.length + c.word) % modelCapacity
		}
		if v := s.load(side, cell); v != modelBody(c.record, c.word) {
			return true, fmt.Sprintf("%#x as word %d of record %d at %d", v, c.word, c.record, c.head)
		}
		c.word++
	case cRelease:
		c.head = c.next
		c.record++
		c.after = cPeek
		if int(c.record) == len(m.script.lengths) {
			c.after = cDone
		}
		c.step = c.after
		if c.head-c.published >= modelLazy || s.load(side, cellWant) != 0 {
			c.step = cPublish
		}
	case cPublish:
		value := c.head
		if m.bug == releaseEarly {
			value = c.next
		}
		if m.bug == headByMove {
			if !s.store(side, cellHead, uint16(value)) {
				return false, ""
			}
		} else if _, ok := s.exchange(side, cellHead, uint16(value)); !ok {
			return false, ""
		}
		c.published = value
		c.step = cAnswer
	case cAnswer:
		want := uint8(s.load(side, cellWant))
		c.step = c.after
		if want != 0 && want != c.answered && c.published >= want {
			c.answered = want
			c.step = cBell
		}
	case cBell:
		c.step = cBellSwap
		if s.load(side, cellBellP) == 0 {
			c.step = c.after
		}
	case cBellSwap:
		old, ok := s.exchange(side, cellBellP, 0)
		if !ok {
			return false, ""
		}
		c.step = cWake
		if old == 0 {
			c.step = c.after
		}
	case cWake:
		s.asleep[producerSide] = false
		c.step = c.after
	case cAnnounce:
		if _, ok := s.exchange(side, cellBellC, 1); !ok {
			return false, ""
		}
		c.step = cRecheck
		switch {
		case m.bug == consumerLooksEarly:
			c.step = cPark
		case m.script.barrier && m.bug != barrierSkipped:
			c.step = cBarrier
		}
	case cBarrier:
		// The kernel fences the other core: there is a moment in it when nothing
		// waits there.
		if s.queued[producerSide] != 0 {
			return false, ""
		}
		c.step = cRecheck
	case cRecheck:
		c.step = cPark
		if m.bug == consumerLooksEarly {
			c.step = cAnnounce
		}
		if s.load(side, c.head%modelCapacity) != 0 {
			c.step = cRetract
		}
	case cPark:
		c.step = cRetract
		s.asleep[side] = s.cells[cellBellC] == 1
	case cRetract:
		if _, ok := s.exchange(side, cellBellC, 0); !ok {
			return false, ""
		}
		c.step = cPeek
	case cDone:
		return false, ""
	}
	return true, ""
}
