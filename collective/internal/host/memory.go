package host

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
)

// Registered memory is blocks of an arena whose segments every rank of the comm has mapped, for reading and writing: a direct
// all-reduce stores its part of the result into everybody's buffer. So a rank that breaks the protocol can spoil what
// the others have there, and nothing else.
//
// Segments are made as Alloc needs them, and each is sent to everybody at once, without waiting for anybody: its
// descriptor travels over the conn, and a rank takes it in when a call first says that data is in it. The conn has it by
// then, since whoever allocates sends before it calls. A place in registered memory is one word in a line:
//
//	bit 63      40 39          0
//	   | segment | offset       |    segment counts from 1, in the order in which its rank made or showed them; 0 is no place
//
// The two highest bits of a word say more: see elsewhere and readable.
const (
	placeBits  = 40
	placeMask  = 1<<placeBits - 1
	firstBytes = 4 << 20 // of the first segment; each further one is twice as large

	// maxSegments bounds what a rank maps of another that keeps sending: blocks larger than the arena's segments have one each.
	maxSegments = 1 << 14
)

// Kinds of messages on the conns; a group's own are higher.
const (
	kindHello   uint32 = 0x8a0001
	kindSegment uint32 = 0x8a0002
	kindShown   uint32 = 0x8a0003 // a segment for reading
)

// memory is what a rank has that the others can reach.
type memory struct {
	growing  sync.Mutex
	arena    *shm.Arena
	own      atomic.Pointer[[]shown] // in the order of their numbers
	shareErr error                   // of the last segment; under growing

	mu     sync.Mutex
	blocks map[*byte]*shm.Block // by first byte, what Alloc gave
}

// theirs is a segment of a peer's.
type theirs struct {
	*shm.Segment
	readOnly bool
}

// segmentBytes is the size of the message that hands over a segment: number u64, size u64.
const segmentBytes = 16

// Alloc returns n bytes of zeroed registered memory, aligned to a cache line: calls whose buffers lie in such memory on all
// ranks copy nothing. It is the caller's until Free or Close; after a call that failed, another rank may still store into what
// that call was given. Any goroutine may call it at any time; ranks need not do so alike.
func (c *Comm) Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("%w: %d bytes of memory", plan.ErrBadCall, n)
	}
	block, err := c.block(n)
	if err != nil {
		return nil, err
	}
	b := block.Bytes()[:n:n]
	clear(b)
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	c.memory.blocks[&b[0]] = block
	return b, nil
}

// Free gives back what Alloc returned. No call may be using it; after one has returned here, no other rank touches it any more,
// unless the call failed.
func (c *Comm) Free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	block := c.memory.blocks[&b[0]]
	if block == nil {
		return fmt.Errorf("%w: memory to free that Alloc did not return", plan.ErrBadCall)
	}
	delete(c.memory.blocks, &b[0])
	block.Release()
	return nil
}

// block allocates n bytes that the others can reach, with whatever was there before.
func (c *Comm) block(n int) (*shm.Block, error) {
	m := &c.memory
	m.growing.Lock()
	defer m.growing.Unlock()
	m.shareErr = nil
	block, err := m.arena.Alloc(n)
	if err == nil && m.shareErr != nil {
		block.Release()
		err = m.shareErr
	}
	return block, err
}

// share sends a new segment of the arena to everybody. The arena calls it within block.
func (c *Comm) share(s *shm.Segment) { c.hand(s, 0) }

// hand sends a segment to everybody, for reading if flag is readable. memory.growing is held.
func (c *Comm) hand(s *shm.Segment, flag uint64) {
	var own []shown
	if p := c.memory.own.Load(); p != nil {
		own = append(own, *p...)
	}
	own = append(own, shown{s.Bytes(), flag, s.ID()})
	kind := kindSegment
	if flag == readable {
		kind = kindShown
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	for p, conn := range c.conns {
		if p == c.rank {
			continue
		}
		b, err := conn.Reserve(ctx, kind, segmentBytes)
		if err == nil {
			binary.LittleEndian.PutUint64(b, uint64(len(own)))
			binary.LittleEndian.PutUint64(b[8:], uint64(s.Size()))
			err = conn.Commit(s.File())
		}
		if err != nil && c.memory.shareErr == nil {
			c.memory.shareErr = &plan.PeerError{Rank: p, Err: fmt.Errorf("%w: handing over memory: %w", plan.ErrPeerLost, err)}
		}
	}
	c.memory.own.Store(&own)
}

// find is the place of b in the memory that this rank has handed over, 0 if it has none there.
func (c *Comm) find(b []byte) uint64 {
	own := c.memory.own.Load()
	if own == nil || len(b) == 0 {
		return 0
	}
	for i := range *own {
		s := &(*own)[i]
		if off, ok := offsetIn(s.mem, b); ok {
			return uint64(i+1)<<placeBits | uint64(off) | s.flag
		}
	}
	return 0
}

// at is n bytes to be read at a place in the memory of rank p, which said so.
func (c *Comm) at(p int, place uint64, n int) ([]byte, error) {
	b, _, err := c.reach(p, place, n)
	return b, err
}

// into is n bytes to be stored to at a place in the memory of rank p.
func (c *Comm) into(p int, place uint64, n int) ([]byte, error) {
	b, readOnly, err := c.reach(p, place, n)
	if err == nil && readOnly {
		err = c.broke(p, fmt.Errorf("place %#x is in memory for reading only", place))
	}
	return b, err
}

func (c *Comm) reach(p int, place uint64, n int) (b []byte, readOnly bool, err error) {
	place &^= readable
	number, off := place>>placeBits, place&placeMask
	if number == 0 || number > maxSegments {
		return nil, false, c.broke(p, fmt.Errorf("place %#x is in segment %d of at most %d", place, number, maxSegments))
	}
	for uint64(len(c.peers[p].segments)) < number {
		if err := c.takeSegment(p); err != nil {
			return nil, false, err
		}
	}
	s := c.peers[p].segments[number-1]
	mem := s.Bytes()
	if off > uint64(len(mem)) || uint64(n) > uint64(len(mem))-off {
		return nil, false, c.broke(p, fmt.Errorf("%d bytes at %d of a segment of %d", n, off, len(mem)))
	}
	return mem[off : off+uint64(n) : off+uint64(n)], s.readOnly, nil
}

// takeSegment receives the next segment of p. What p says is in it has been sent before.
func (c *Comm) takeSegment(p int) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	var s theirs
	m, err := c.conns[p].Recv(ctx)
	if err == nil {
		number := uint64(len(c.peers[p].segments) + 1)
		s, err = c.segmentOf(m, number)
		c.conns[p].Release()
	}
	if own := ipc.ContextError(c.ctx); err != nil && own != nil { // the call's own end says nothing of p
		return c.kill(&plan.PeerError{Rank: c.rank, Call: *c.call, Err: own})
	}
	if err != nil {
		return c.kill(&plan.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: taking in memory: %w", plan.ErrPeerLost, err)})
	}
	c.peers[p].segments = append(c.peers[p].segments, s)
	return nil
}

func (c *Comm) segmentOf(m ipc.Message, number uint64) (theirs, error) {
	if m.Kind != kindSegment && m.Kind != kindShown || len(m.Body) != segmentBytes || len(m.Files) != 1 {
		ipc.CloseFiles(m.Files)
		return theirs{}, fmt.Errorf("%w: message of kind %#x with %d bytes and %d files, expected %#x or %#x, %d and 1", ipc.ErrCorrupt,
			m.Kind, len(m.Body), len(m.Files), kindSegment, kindShown, segmentBytes)
	}
	le := binary.LittleEndian
	got, size := le.Uint64(m.Body), le.Uint64(m.Body[8:])
	if got != number || size == 0 || size > placeMask {
		ipc.CloseFiles(m.Files)
		return theirs{}, fmt.Errorf("%w: segment %d of %d bytes, expected number %d", ipc.ErrCorrupt, got, size, number)
	}
	// What is shown is large, and little of it given: its pages come as they are read.
	readOnly := m.Kind == kindShown
	s, err := mapFile(m.Files[0], number, int64(size), &shm.Options{Sealed: true, Prefault: !readOnly, ReadOnly: readOnly})
	return theirs{s, readOnly}, err
}

// mapFile maps a peer's segment, which must be one that nobody can shrink, and owns the file.
func mapFile(f *os.File, number uint64, size int64, o *shm.Options) (*shm.Segment, error) {
	s, err := shm.FromFile(number, f, size, o)
	if err != nil {
		f.Close()
	}
	return s, err
}
