package onehost

import (
	"encoding/binary"

	"github.com/ringside-go/ringside/collective/protocol"
)

// nextEntry reserves an entry of the board and n bytes of the room for one broadcast, and
// returns where the bytes begin. If there is no place left, it meets the other ranks
// first. Every rank calls it for every broadcast.
func (c *exchange) nextEntry(n, root int) (int, error) {
	w := &c.window
	if n <= entryText || n > c.spread {
		n = 0
	}
	if w.epoch == c.epoch && (w.count == entries || w.used+n > roomBytes(c.spread)) {
		if err := c.meet(); err != nil {
			return 0, err
		}
	}
	if w.epoch != c.epoch {
		*w = window{epoch: c.epoch}
	}
	at := w.used
	w.used += (n + 63) &^ 63
	w.count++
	w.root = root
	return at, nil
}

// give broadcasts this rank's buf.
func (c *exchange) give(buf []byte) error {
	n := len(buf)
	at, err := c.nextEntry(n, c.rank)
	if err != nil {
		return err
	}
	c.peers[c.rank].entries++
	number, position := c.peers[c.rank].entries, positionOf(c.epoch, c.window.count)
	entry := c.self.entry(number)
	le := binary.LittleEndian
	le.PutUint64(entry[offEntryPosition:], position)
	le.PutUint64(entry[offEntryHash:], c.hash)
	le.PutUint64(entry[offEntrySeq:], c.call.Seq)
	call := *c.call
	if call.Seq = 0; c.noted[number%entries] != call { // else the entry has it
		var text [protocol.CallBytes]byte
		call.Encode(&text)
		copy(entry[offEntryCall:], text[8:])
		c.noted[number%entries] = call
	}
	var location uint64
	switch {
	case n <= entryText:
		copy(entry[offEntryText:], buf)
	case n <= c.spread:
		c.fold.Copy(c.self.inRoom(at, n), buf)
	default:
		location = c.locate(buf)
		le.PutUint64(entry[offEntryText:], location)
	}
	storeRelease(word64(entry, 0), number)
	c.ring()
	switch {
	case n > c.spread && location == 0:
		return c.spreadStaged(buf, c.rank)
	case n > c.spread:
		c.stats.Direct++
		return c.awaitReaders(position)
	}
	c.stats.Small++
	return nil
}

// receive receives a broadcast of rank root into buf.
func (c *exchange) receive(buf []byte, root int) error {
	n := len(buf)
	at, err := c.nextEntry(n, root)
	if err != nil {
		return err
	}
	p := &c.peers[root]
	number, position := p.entries+1, positionOf(c.epoch, c.window.count)
	entry := p.entry(number)
	if word := word64(entry, 0); !await(word, number, c.spins) {
		if err := c.waitFor(awaited{word: word, want: number, rank: root, entry: true}); err != nil {
			return err
		}
	}
	le := binary.LittleEndian
	if le.Uint64(entry[offEntryPosition:]) != position || le.Uint64(entry[offEntryHash:]) != c.hash {
		return c.kill(c.entryDiffers(root, entry))
	}
	p.entries = number
	switch {
	case n <= entryText:
		copy(buf, entry[offEntryText:])
		return nil
	case n <= c.spread:
		c.fold.Copy(buf, p.inRoom(at, n))
		return nil
	}
	location := le.Uint64(entry[offEntryText:])
	if location == 0 {
		return c.spreadStaged(buf, root)
	}
	from, err := c.memory.at(root, location, n)
	if err != nil {
		return err
	}
	if &from[0] != &buf[0] {
		c.fold.Copy(buf, from)
	}
	storeRelease(c.self.acknowledged(), position)
	p.bell.Ring()
	return nil
}

// spreadStaged makes a broadcast through the root's staging slots.
func (c *exchange) spreadStaged(buf []byte, root int) error {
	w := &c.work
	w.reset()
	w.total[root] = len(buf)
	if root != c.rank {
		w.want[root], w.into[root] = protocol.Slice{Len: len(buf)}, protocol.Slice{Len: len(buf)}
	}
	return c.run(&move{src: buf, dst: buf})
}

// awaitReaders waits until every rank has read this rank's broadcast at that position.
func (c *exchange) awaitReaders(position uint64) error {
	c.readers = position
	for p := range c.peers {
		if p != c.rank && !await(c.peers[p].acknowledged(), position, c.spins) {
			err := c.waitFrom(p)
			c.readers = 0
			return err
		}
	}
	c.readers = 0
	return nil
}
