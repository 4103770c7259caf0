package onehost

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
)

// # Memory that others reach in place
//
// Registered memory (Alloc) is blocks of an arena whose segments every rank of the comm
// has mapped for reading and writing: a direct all-reduce stores its part of the result
// into every rank's buffer. A rank that breaks the protocol can spoil what the others
// have there, and nothing else. Shown memory (Show) is a caller's own segment, which the
// others map for reading only.
//
// A segment is sent to every rank at once, when it is made or shown: its descriptor
// travels over the conn. A rank takes it in when a call first names a location in it. The
// descriptor has arrived by then, since its owner sends it before it calls. A location is
// one word:
//
//	bit 63          62        61      40 39      0
//	   | separate | readOnly | segment  | offset  |
//
// Segments count from 1, in the order in which their rank made or showed them. Location 0
// is none. separate and readOnly are flags that a location has in an all-reduce.
const (
	offsetBits = 40
	offsetMask = 1<<offsetBits - 1

	// separate says, with the location of an all-reduce's source, that its result belongs
	// to another location.
	separate = 1 << 63

	// readOnly says that a location, of the source or of the result, is in shown memory.
	readOnly = 1 << 62

	// of the first registered segment; each further one is twice as large
	firstBytes = 4 << 20

	// maxSegments bounds what a rank maps of another that keeps sending segments. Blocks
	// larger than the arena's segments have one each.
	maxSegments = 1 << 14
)

// Kinds of messages on the conns; a group's own kinds are higher.
const (
	kindHello   uint32 = 0x8a0001
	kindSegment uint32 = 0x8a0002
	kindShown   uint32 = 0x8a0003 // a segment for reading
)

// segmentBytes is the size of the message that hands over a segment: number u64, size
// u64.
const segmentBytes = 16

// memory is the memory of this rank that the others reach.
type memory struct {
	ranks    *ranks
	growing  sync.Mutex
	arena    *shm.Arena
	handed   atomic.Pointer[[]handed] // in the order of their numbers
	shareErr error                    // of the last segment; under growing

	mu     sync.Mutex
	blocks map[*byte]*shm.Block // that Alloc returned, by first byte
}

// handed is a segment that this rank has handed over.
type handed struct {
	mem  []byte
	flag uint64 // readOnly, or 0 for registered memory
	id   uint64 // of the segment
}

// segment is one that a peer has handed over.
type segment struct {
	*shm.Segment
	readOnly bool
}

// open makes the arena.
func (m *memory) open(c *ranks) (err error) {
	m.ranks, m.blocks = c, map[*byte]*shm.Block{}
	m.handed.Store(&[]handed{})
	m.arena, err = shm.NewArena(&shm.ArenaOptions{First: firstBytes, OnSegment: func(s *shm.Segment) { m.hand(s, 0) },
		Segment: shm.Options{Backing: shm.Memfd, Prefault: true}})
	return err
}

// close releases what Alloc returned, and the arena.
func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for first, b := range m.blocks {
		delete(m.blocks, first)
		b.Release()
	}
	if m.arena != nil {
		m.arena.Close()
	}
}

// alloc is Comm.Alloc.
func (m *memory) alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("%w: %d bytes of memory, expected at least 1", protocol.ErrBadCall, n)
	}
	block, err := m.block(n)
	if err != nil {
		return nil, err
	}
	b := block.Bytes()[:n:n]
	clear(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks[&b[0]] = block
	return b, nil
}

// free is Comm.Free.
func (m *memory) free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	block := m.blocks[&b[0]]
	if block == nil {
		return fmt.Errorf("%w: memory to free that Alloc did not return", protocol.ErrBadCall)
	}
	delete(m.blocks, &b[0])
	block.Release()
	return nil
}

// block allocates n bytes of registered memory, which are not cleared.
func (m *memory) block(n int) (*shm.Block, error) {
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

// show is Comm.Show.
func (m *memory) show(s *shm.Segment) error {
	if s.Backing() != shm.Memfd {
		return fmt.Errorf("%w: a segment of %v to show, expected %v", protocol.ErrBadCall, s.Backing(), shm.Memfd)
	}
	if m.has(s.ID()) {
		return nil
	}
	m.growing.Lock()
	defer m.growing.Unlock()
	if m.has(s.ID()) {
		return nil
	}
	m.shareErr = nil
	m.hand(s, readOnly)
	return m.shareErr
}

// has reports whether a segment was handed over.
func (m *memory) has(id uint64) bool {
	return slices.ContainsFunc(*m.handed.Load(), func(h handed) bool { return h.id == id })
}

// hand sends a segment to every rank, for reading if flag is readOnly. growing is held:
// the arena calls it within block.
func (m *memory) hand(s *shm.Segment, flag uint64) {
	c := m.ranks
	list := append(slices.Clone(*m.handed.Load()), handed{s.Bytes(), flag, s.ID()})
	kind := kindSegment
	if flag == readOnly {
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
			binary.LittleEndian.PutUint64(b, uint64(len(list)))
			binary.LittleEndian.PutUint64(b[8:], uint64(s.Size()))
			err = conn.Commit(s.File())
		}
		if err != nil && m.shareErr == nil {
			m.shareErr = &protocol.PeerError{Rank: p, Err: fmt.Errorf("%w: handing over memory: %w", protocol.ErrPeerLost, err)}
		}
	}
	m.handed.Store(&list)
}

// find returns the location of b in the memory that this rank has handed over, 0 if it
// has none.
func (m *memory) find(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	list := *m.handed.Load()
	for i := range list {
		h := &list[i]
		if off, ok := offsetIn(h.mem, b); ok {
			return uint64(i+1)<<offsetBits | uint64(off) | h.flag
		}
	}
	return 0
}

// at returns n bytes to be read at a location of rank p, which p has said.
func (m *memory) at(p int, location uint64, n int) ([]byte, error) {
	b, _, err := m.reach(p, location, n)
	return b, err
}

// into returns n bytes to be stored to at a location of rank p, which p has said.
func (m *memory) into(p int, location uint64, n int) ([]byte, error) {
	b, readOnly, err := m.reach(p, location, n)
	if err == nil && readOnly {
		err = m.ranks.corrupt(p, fmt.Errorf("location %#x is in memory for reading only", location))
	}
	return b, err
}

// reach checks a location of rank p and returns the n bytes there. It takes in segments
// as long as the location's is missing.
func (m *memory) reach(p int, location uint64, n int) (b []byte, only bool, err error) {
	c := m.ranks
	location &^= separate | readOnly
	number, off := location>>offsetBits, location&offsetMask
	if number == 0 || number > maxSegments {
		return nil, false, c.corrupt(p, fmt.Errorf("location %#x is in segment %d, expected 1 to %d",
			location, number, maxSegments))
	}
	for uint64(len(c.peers[p].segments)) < number {
		if err := m.takeSegment(p); err != nil {
			return nil, false, err
		}
	}
	s := c.peers[p].segments[number-1]
	mem := s.Bytes()
	if off > uint64(len(mem)) || uint64(n) > uint64(len(mem))-off {
		return nil, false, c.corrupt(p, fmt.Errorf("%d bytes at %d of a segment of %d", n, off, len(mem)))
	}
	return mem[off : off+uint64(n) : off+uint64(n)], s.readOnly, nil
}

// takeSegment receives the next segment of rank p, which p sent before it named a
// location in it.
func (m *memory) takeSegment(p int) error {
	c := m.ranks
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	var s segment
	msg, err := c.conns[p].Recv(ctx)
	if err == nil {
		number := uint64(len(c.peers[p].segments) + 1)
		s, err = mapSegment(msg, number)
		c.conns[p].Release()
	}
	// which says nothing of p
	if own := ipc.ContextError(c.ctx); err != nil && own != nil {
		return c.kill(&protocol.PeerError{Rank: c.rank, Call: *c.call, Err: own})
	}
	if err != nil {
		return c.kill(&protocol.PeerError{Rank: p, Call: *c.call, Err: fmt.Errorf("%w: taking in memory: %w", protocol.ErrPeerLost, err)})
	}
	c.peers[p].segments = append(c.peers[p].segments, s)
	return nil
}

// mapSegment maps the segment that a message hands over, which must have that number.
func mapSegment(m ipc.Message, number uint64) (segment, error) {
	if m.Kind != kindSegment && m.Kind != kindShown || len(m.Body) != segmentBytes || len(m.Files) != 1 {
		ipc.CloseFiles(m.Files)
		return segment{}, fmt.Errorf("%w: message of kind %#x with %d bytes and %d files, expected %#x or %#x, %d and 1",
			ipc.ErrCorrupt, m.Kind, len(m.Body), len(m.Files), kindSegment, kindShown, segmentBytes)
	}
	le := binary.LittleEndian
	got, size := le.Uint64(m.Body), le.Uint64(m.Body[8:])
	if got != number || size == 0 || size > offsetMask {
		ipc.CloseFiles(m.Files)
		return segment{}, fmt.Errorf("%w: segment %d of %d bytes, expected number %d", ipc.ErrCorrupt, got, size, number)
	}
	// Shown segments are large, and a call names little of them: no prefault.
	shown := m.Kind == kindShown
	s, err := mapFile(m.Files[0], number, int64(size), &shm.Options{Sealed: true, Prefault: !shown, ReadOnly: shown})
	return segment{s, shown}, err
}

// mapFile maps a peer's segment, which must be sealed against shrinking, and owns the
// file.
func mapFile(f *os.File, number uint64, size int64, o *shm.Options) (*shm.Segment, error) {
	s, err := shm.FromFile(number, f, size, o)
	if err != nil {
		f.Close()
	}
	return s, err
}
