package onehost

import "sync/atomic"

// # Epochs
//
// All ranks go through the same epochs, one at a time, and every epoch is a meeting. A
// rank writes its line of the epoch's parity (payload, then the mark), and waits until
// the lines of all others have the same mark. So no rank is more than one epoch ahead,
// and two of everything are enough: a rank that writes for epoch e, before that meeting,
// has met all others in e-1, and they came there when they were done with what e-2 left.
//
//	       epoch e-1              epoch e                 epoch e+1
//	write | meet | read odd  ...  write even | meet | read even   write odd ...
//
// A mark has 32 bits of the epoch and of the call's hash. One look says both that a rank
// has come and that it is in the same call:
//
//	63      32 31           0
//	|  epoch  | upper hash   |
//
// The mark that a line has before is of epoch e-2, so it does not matter that epochs
// wrap. Two calls that differ look the same once in 2^32 times.
//
// Memory order: a rank stores the mark (release) after everything it wrote for the
// meeting; the others load it (acquire) before they read any of that. So what a rank did
// before a meeting synchronizes before what every other rank does after it.

// meet waits until all ranks are at this meeting and in the same call.
func (c *meeting) meet() error {
	c.epoch++
	parity := c.epoch & 1
	mark := markOf(c.epoch, c.hash)
	storeRelease(c.self.lines[parity].mark, mark)
	c.ring()
	if c.n > 2 {
		c.tellCore()
	}
	for p := range c.peers {
		if p != c.rank && !await(c.peers[p].lines[parity].mark, mark, c.spins) {
			if err := c.waitFrom(p); err != nil {
				return err
			}
			if err := c.alike(mark); err != nil {
				return err
			}
			break
		}
	}
	if c.window.epoch == c.epoch-1 {
		return c.taken()
	}
	return nil
}

// alike kills the comm unless all ranks, which have come to this meeting, have that mark.
func (c *meeting) alike(mark uint64) error {
	for p := range c.peers {
		if p != c.rank && atomic.LoadUint64(c.met(p).mark) != mark {
			return c.kill(c.differs(p))
		}
	}
	return nil
}
