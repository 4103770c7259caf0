package onehost

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// # The page
//
// Every rank makes one segment, its page, and maps those of the others. The owner alone
// writes its page, with these exceptions: every rank rings the bell, and two ranks share
// the pair's line and each other's slots (slots.go).
//
//	offset  content                                             see
//	   0    magic u64, version u32, rank u32, ranks u32
//	 128    bell, ring.BellSize                                 ring.Bell
//	 256    death notice: state u64, then the reason            deaths.go
//	 896    looks u64: counts the owner's looks while it waits  late.go
//	 960    core u64: the core that the owner was last seen on  cores.go
//	1024    2 x call, protocol.CallBytes                            meet.go
//	1280    2 x ranks x {offset u64, length u64}: the parts of an all-to-all
//	        ranks x {acknowledged u64}, 128 apart               messages.go
//	        ranks x 8 x message of 128 bytes                    messages.go
//	        2 x line: mark u64, payload 48 bytes                meet.go
//	        the pair's line, in rank 0's page, twice            below
//	        2 x flat slot                                       slots.go
//	        2 x staging slot                                    slots.go
//	        board of broadcasts                                 board.go
//
// "2 x" is one for epochs of each parity, but for the staging slots.
//
// The order of memory accesses, for each word that another rank waits for or looks at:
//
//	word                  stored (release) by   after it stored     loaded (acquire) by
//	magic                 owner, once           header, bell        all, in attach
//	state                 owner, once           its death notice    ranks that wait
//	mark                  owner, at a meeting   call, payload,      all, at that meeting,
//	                                            table, slots, and   before they read any
//	                                            registered memory   of these
//	message number        owner, in Send        the message, and    the receiver
//	                                            its block
//	message acknowledged  owner, in Recv        (it read the        the sender
//	                                            message)
//	entry number          owner, in Broadcast   the entry, its      ranks that wait for
//	                                            room, registered    the entry
//	                                            memory
//	entry acknowledged    owner, in Broadcast   (it read the        the root
//	                                            root's memory)
//	posted position       owner, while it       its call            ranks that wait
//	                      waits
//	looks, core           owner, while it       nothing             ranks that wait
//	                      waits
//
// Each such store synchronizes before a load that sees its value. Every word that a rank
// waits for has a cache line of its own, and the neighbour too, since cores fetch pairs
// of lines.
//
// Lines and flat slots lie at other offsets within 4 KiB for each rank. A core that loads
// from the same offset in any page as an earlier store of its own, which has not reached
// the cache, waits for that store. Then a rank would see another's line only after its
// own had arrived.
//
// # The pair's line
//
// Two ranks have their marks in one cache line, and a word of payload beside each. The
// store of a mark fetches the line, and the other rank's mark and word come with it. A
// word and its mark are stored back to back (give): after a word that is stored earlier,
// the other rank, which is looking, would take the line back before the mark is stored.
// The lines of the two parities are not neighbours.
//
//	 0  rank 0's mark u64, word u64
//	16  rank 1's
//	128 the same for odd epochs
//
// Either rank can write all of it. A rank that breaks the protocol can spoil marks and
// words. The other rank then waits until its deadline, reports a mismatch, or adds wrong
// numbers, as it would for any wrong contribution. The word of a large call is a
// location: it is read once and checked against the memory that is mapped (memory.reach).
const (
	pageMagic = 0x74736f68_6c6c6f63 // "collhost" in memory, little endian

	// pageVersion is the version of the layout. 1: the first; 2: lines and flat slots are
	// apart; 3: marks, and the pair's line; 4: locations in the pair's line, whose
	// parities lie apart; 5: looks; 6: locations of shown memory; 7: cores; 8: two ranks
	// fill each other's slots; 9: element types have the numbers of package element; 10:
	// death notices are protocol.Notices.
	pageVersion = 10

	offVersion = 8
	offRank    = 12
	offRanks   = 16
	offBell    = 128
	offDeath   = 256
	offLooks   = 896
	offCore    = 960
	offCalls   = 1024
	offTables  = 1280

	apart       = 128 // bytes between two words that are waited for
	payloadSize = 48
	wordSize    = 8
	offPayload  = 16
	tableEntry  = 16
)

// MaxRanks bounds the ranks of a Comm: each looks at the lines of all others.
const MaxRanks = 256

// shape holds the offsets of a page that depend on the number of ranks and the slots'
// sizes.
type shape struct {
	ranks, flat, chunk          int
	acks, messages, lines, size int
	flats, stage, board         int
}

// shapeOf computes the shape of the pages of so many ranks.
func shapeOf(ranks, flat, chunk int) shape {
	page := func(n int) int { return (n + 4095) &^ 4095 }
	s := shape{ranks: ranks, flat: flat, chunk: chunk}
	s.acks = (offTables + 2*ranks*tableEntry + apart - 1) &^ (apart - 1)
	s.messages = s.acks + ranks*apart
	s.lines = page(s.messages + ranks*messages*messageSize)
	s.flats = s.lines + 4096 // of which the lines of two ranks leave most
	s.stage = page(s.flats + 2048 + 2*flat)
	s.board = page(s.stage + 2*chunk)
	s.size = page(s.board + offRoom + roomBytes(defaultSpread(ranks, flat, chunk)))
	return s
}

// lineOf returns where a rank's line for epochs of that parity begins.
func (s *shape) lineOf(rank, parity int) int { return s.lines + (2*rank+parity)*apart%4096 }

// offPairLine is where the pair's line lies among the lines.
const offPairLine = 4 * apart

// flatOf returns where a rank's flat slot of that parity begins.
func (s *shape) flatOf(rank, parity int) int { return s.flats + rank%2*2048 + parity*s.flat }

// line is a rank's mark for epochs of one parity, and what belongs to it.
type line struct {
	mark    *uint64
	word    []byte // beside the mark; nil but in the pair's line
	payload []byte
	call    []byte
	table   []byte
	flat    []byte
}

// inLineOf returns the largest contribution that travels in a line. Two ranks have marks
// in another line than the payload, and a second line costs as much as a flat slot.
func inLineOf(ranks int) int {
	if ranks == 2 {
		return wordSize
	}
	return payloadSize
}

// room returns n bytes of payload, beside the mark if they fit there.
func (l *line) room(n int) []byte {
	if n <= len(l.word) {
		return l.word[:n]
	}
	return l.payload[:n]
}

// half is a rank's half of the pair's line.
type half struct {
	mark uint64
	word uint64
}

// page is a mapped page, this rank's or a peer's.
type page struct {
	mem   []byte
	shape shape
	bell  *ring.Bell
	state *uint64 // of the death notice
	looks *uint64
	core  *uint64
	lines [2]line
	stage [2][]byte
}

// initPage lays out a page of zeros for a rank.
func initPage(mem []byte, s shape, rank int) error {
	le := binary.LittleEndian
	le.PutUint32(mem[offVersion:], pageVersion)
	le.PutUint32(mem[offRank:], uint32(rank))
	le.PutUint32(mem[offRanks:], uint32(s.ranks))
	if err := ring.InitBell(mem[offBell : offBell+ring.BellSize]); err != nil {
		return err
	}
	atomic.StoreUint64(word64(mem, 0), pageMagic)
	return nil
}

// attach checks that mem is the page of a rank and finds its parts.
func attach(mem []byte, s shape, rank int) (*page, error) {
	if len(mem) < s.size {
		return nil, fmt.Errorf("%w: a page of %d bytes, expected %d", ipc.ErrCorrupt, len(mem), s.size)
	}
	le := binary.LittleEndian
	magic, version := atomic.LoadUint64(word64(mem, 0)), le.Uint32(mem[offVersion:])
	r, n := le.Uint32(mem[offRank:]), le.Uint32(mem[offRanks:])
	if magic != pageMagic || version != pageVersion || int(r) != rank || int(n) != s.ranks {
		return nil, fmt.Errorf("%w: a page with magic %#x, version %d, of rank %d of %d, expected %#x, %d, %d of %d",
			ipc.ErrCorrupt, magic, version, r, n, uint64(pageMagic), pageVersion, rank, s.ranks)
	}
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	bell, err := ring.NewBell(mem[offBell:offBell+ring.BellSize], futex)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
	}
	p := &page{
		mem: mem, shape: s, bell: bell,
		state: word64(mem, offDeath), looks: word64(mem, offLooks), core: word64(mem, offCore),
	}
	for i := range p.lines {
		at := s.lineOf(rank, i)
		p.lines[i] = line{
			mark:    word64(mem, at),
			payload: stretch(mem, at+offPayload, payloadSize),
			call:    stretch(mem, offCalls+i*apart, protocol.CallBytes),
			table:   stretch(mem, offTables+i*s.ranks*tableEntry, s.ranks*tableEntry),
			flat:    stretch(mem, s.flatOf(rank, i), s.flat),
		}
		p.stage[i] = stretch(mem, s.stage+i*s.chunk, s.chunk)
	}
	return p, nil
}

// stretch returns n bytes of mem at off, which cannot be appended to.
func stretch(mem []byte, off, n int) []byte { return mem[off : off+n : off+n] }

// pairLine is where two ranks meet, by parity of epochs. mine is nil among more ranks.
type pairLine struct {
	mine, theirs [2]*half
}

// sharePages moves the marks of two ranks into the pair's line, gives them each other's
// flat slots by turns (slots.go), and returns the halves as rank sees them.
func sharePages(pages [2]*page, rank int) (d pairLine) {
	first := pages[0]
	for r, p := range pages {
		for parity := range p.lines {
			l, at := &p.lines[parity], first.shape.lines+offPairLine+apart*parity+16*r
			l.mark, l.word = word64(first.mem, at), stretch(first.mem, at+8, wordSize)
			owner := pages[(r+parity)&1]
			l.flat = stretch(owner.mem, owner.shape.flatOf((r+parity)&1, 0), owner.shape.flat)
			if h := halfAt(first.mem, at); r == rank {
				d.mine[parity] = h
			} else {
				d.theirs[parity] = h
			}
		}
	}
	return d
}
