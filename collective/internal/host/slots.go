package host

// Who fills a slot
//
// The lines of a slot come to the core that reads them. Were who has filled it to fill it again, they would have to come back first, with
// nothing in them that anybody wants: that takes about as long as to hand them over. So of two ranks, the one that has read a slot fills it
// next. Emerald Rapids, cores far from each other, µs of an f32 all-reduce of memory that is not registered, medians of 7 rounds in which it
// takes turns with a way where each fills its own:
//
//	             1 KiB   2 KiB   64 KiB   1 MiB   16 MiB
//	to and fro    0.41    0.61      8.0     112     2471
//	its own       0.82    0.89     10.9     173     3405
//
// and of an all-gather of 512 B of each 0.30 and 0.53. Some 0.09 of what 1 KiB gains come by demote and by fetch.
//
// Nobody else touches a slot between the meeting after which a rank reads it and the one before which it has filled it: who had filled it has
// read another one meanwhile, and fills that. Each page has one flat slot that is used: at meetings of even epochs each rank fills its own,
// at those of odd ones the other's (shareLine), so what it fills is what it was to read at the meeting before. A rank holds two staging slots,
// at first those in its page, and fills them by turns. At an all-reduce both have filled one, and these change hands as they are read
// (takeSlot); what only one rank gives stays in slots that it holds.
//
// More than two ranks fill their own.

// fillFlat gives b through a flat slot at the next meeting.
func (c *Comm) fillFlat(b []byte) {
	slot := c.own.lines[(c.epoch+1)&1].flat[:len(b)]
	c.fold.set.Copy(slot, b)
	if c.n == 2 && len(b) > 0 {
		demote(slot)
	}
}

// readFlat is bytes from to to, of which there are some, of what p gave through a flat slot at the meeting just over. Who is to fill the slot
// next takes the lines so that it can: those that it only read it would have to ask for once more.
func (c *Comm) readFlat(p, from, to int) []byte {
	b := c.peers[p].lines[c.epoch&1].flat[from:to]
	if c.n == 2 {
		fetch(b)
	}
	return b
}

// slot is a staging slot as rank p numbers them: 0 and 1 are in its page, and 2 and 3, of two ranks, in the other's.
func (c *Comm) slot(p int, number uint64) []byte {
	if c.n == 2 && number&2 != 0 {
		p = 1 - p
	}
	return c.peers[p].stage[number&1]
}

// takeSlot returns the staging slot that p, the other of two ranks, has filled for the meeting just over, and which this rank holds from now
// on and fills next. In return p takes the one that this rank has filled.
func (c *Comm) takeSlot(p int) []byte {
	number := c.heard(p)
	c.held[c.turn], c.held[c.turn^1] = c.held[c.turn^1], number&3^2
	return c.slot(p, number)
}
