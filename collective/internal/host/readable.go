package host

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/shm"
)

// Memory that is only shown
//
// Who has its data in segments of its own shows them: the others map them for reading, and take from there what a call gives in them,
// without a copy. Nobody stores into them but their owner, so an all-reduce goes otherwise than in registered memory: every rank folds its
// slice of all sources into its own destination, and takes the other slices from the destinations of those who folded them:
//
//	meet | fold | meet | take | meet
//
// The last meeting is for the owners: until then somebody may be reading what they gave and what they got. A call returns after
// it, so that memory of either kind is the caller's again when it does. A call that failed says nothing of the kind: who then reuses the memory
// gives those who still read it nonsense for a result that they never see, since it failed for them as well.
//
// A line that another core has read is taken back when its owner stores to it, one by one, some 9 ns each on Zen 4. Who gathers pays for
// that with slots as well, and shown memory saves a copy (256 KiB of each of two ranks: 14 to 19 µs, 37 to 40 staged). But slots of an all-reduce need
// not be taken back (slots.go): up to readableMin that is faster (64 KiB: 4.5 µs, 7.7 as above).

// readable says, in a place, that others may read it only. With an all-reduce it says so of source or destination.
const readable = 1 << 62

// readableMin is the bytes from which an all-reduce of shown memory does not go through slots.
const readableMin = 1 << 20

// shown is memory that the others have mapped.
type shown struct {
	mem  []byte
	flag uint64 // readable, or 0 for registered memory
	id   uint64 // of its segment
}

// Show has the others map a segment of the caller's for reading: from then on calls with buffers in it copy nothing through
// slots. A segment is shown once; again does nothing. It stays the caller's, who keeps it mapped until the comm is closed. It must be a Memfd,
// which nobody can shrink under its readers: plan.ErrBadCall. Others see everything that is in it. Any goroutine may call
// it at any time, and ranks need not do so alike.
func (c *Comm) Show(s *shm.Segment) error {
	if s.Backing() != shm.Memfd {
		return fmt.Errorf("%w: a segment of %v to show, expected %v", plan.ErrBadCall, s.Backing(), shm.Memfd)
	}
	m := &c.memory
	if m.has(s.ID()) {
		return nil
	}
	m.growing.Lock()
	defer m.growing.Unlock()
	if m.has(s.ID()) {
		return nil
	}
	m.shareErr = nil
	c.hand(s, readable)
	return m.shareErr
}

// has says whether a segment was handed over.
func (m *memory) has(id uint64) bool {
	own := m.own.Load()
	if own == nil {
		return false
	}
	for i := range *own {
		if (*own)[i].id == id {
			return true
		}
	}
	return false
}

// allReduceReadable is an all-reduce whose sources and destinations all lie where they can be read, some only that.
func (c *Comm) allReduceReadable(m *move) error {
	r := &c.room
	n, unit := len(m.src), c.call.DType.Size()
	for p := range c.peers {
		if p == c.rank {
			r.base[p], r.made[p] = m.src, m.dst
			continue
		}
		place := r.place[p]
		src, err := c.at(p, place&^elsewhere, n)
		if err != nil {
			return err
		}
		dst := src
		if place&elsewhere != 0 {
			if dst, err = c.at(p, binary.LittleEndian.Uint64(c.peers[p].lines[c.epoch&1].payload[16:]), n); err != nil {
				return err
			}
		}
		r.base[p], r.made[p] = src, dst
	}
	s := slice(n, unit, c.n, c.rank)
	if s.Len > 0 {
		for p := range r.srcs {
			r.srcs[p] = s.Of(r.base[p])
		}
		r.dsts[0] = s.Of(m.dst)
		c.fold.fold(c.call, r.dsts[:1], r.srcs)
	}
	if err := c.meet(); err != nil {
		return err
	}
	for i := 1; i < c.n; i++ {
		p := (c.rank + i) % c.n
		if s := slice(n, unit, c.n, p); s.Len > 0 {
			c.fold.set.Copy(s.Of(m.dst), s.Of(r.made[p]))
		}
	}
	return c.meet()
}
