package host

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
)

// Every rank makes one page segment and maps those of the others. It alone writes what is in its own, but for the bell,
// and, of two ranks, for the slots, which go to and fro between them (slots.go), and the line that they share; in the others' it only rings. Every word that somebody waits for has a cache line of its own, and its neighbour
// too, since cores fetch lines in pairs.
//
//	   0  magic u64, version u32, rank u32, ranks u32
//	 128  bell, ring.BellSize
//	 256  obituary: state u64, then why this rank has ended, see obituary.go
//	 896  looks u64: how often this rank, waiting, has looked around, see waiting.go
//	 960  core u64: where this rank was when it last looked, see cores.go
//	1024  2 x call, plan.CallBytes                                                  of odd and even epochs
//	1280  2 x ranks x {offset u64, length u64}: what goes to whom in an all-to-all  of odd and even epochs
//	      ranks x {acknowledged u64} 128 apart: messages from each rank taken in
//	      ranks x 8 x letter of 128 bytes: messages to each rank, see pair.go
//	      2 x line: mark u64, payload 48 bytes                                      of odd and even epochs
//	      the line of two, in rank 0's page                                         of odd and even epochs
//	      2 x flat slot                                                             of odd and even epochs; of two ranks see slots.go
//	      2 x staging slot
//	      board of broadcasts, see board.go
//
// Lines and flat slots lie at other offsets within a page of 4 KiB for each rank. A core that loads from the same offset as a store that has not
// left it yet, into whatever page, waits for that store: so a rank would see another's line only after its own had come to the cache.
//
// # The line of two
//
// Two ranks have their marks in one cache line, and payloads of up to 8 bytes beside them: the store of a mark fetches the line, and what the
// other has put there comes with it; who was first needs the line once more. Payload and mark have to be stored back to back (trade): the
// line of a payload that comes earlier is taken back by the other, who is looking, before the mark is stored. The lines of the two parities
// are not neighbours. Zen 4, ns of a barrier of a group: 71 to 76 so, 69 to 78 with the lines side by side, 84 with both parities in one line,
// which who is ahead takes from who has yet to read it.
//
// Either rank can write all of it. One that breaks the protocol, or dies within it, can spoil marks and payloads, its own and the other's:
// the other then waits until its deadline, or finds out that the other's call is not its own, or adds up numbers that are nobody's, as it
// would of whatever such a rank gives it. Of a large call there may stand an offset, where its source lies: it is read once and checked against
// what of the other's memory is mapped (Comm.at).
//
//	 0  rank 0's mark u64, payload 8 bytes
//	16  rank 1's
//	128 the same of odd epochs
const (
	pageMagic   = 0x74736f68_6c6c6f63 // "collhost" in memory, little endian
	pageVersion = 9                   // 1: the first; 2: lines and flat slots are apart; 3: marks, and the line of two; 4: places stand there;
	// the parities of the line of two lie apart; 5: looks; 6: places of what is shown; 7: cores; 8: two ranks fill each other's slots
	// 9: element types have the numbers of package element

	offVersion  = 8
	offRank     = 12
	offRanks    = 16
	offBell     = 128
	offObituary = 256
	offLooks    = 896
	offCore     = 960
	offCalls    = 1024
	offTables   = 1280

	apart       = 128 // between two words that are waited for
	payloadSize = 48
	briefSize   = 8
	offPayload  = 16
	tableEntry  = 16
)

// MaxRanks bounds the ranks of a Comm: they all look at each other's lines.
const MaxRanks = 256

// shape is the offsets of a page that depend on the number of ranks and the sizes of slots.
type shape struct {
	ranks, flat, chunk         int
	acks, letters, lines, size int
	flats, stage, board        int
}

func shapeOf(ranks, flat, chunk int) shape {
	page := func(n int) int { return (n + 4095) &^ 4095 }
	s := shape{ranks: ranks, flat: flat, chunk: chunk}
	s.acks = (offTables + 2*ranks*tableEntry + apart - 1) &^ (apart - 1)
	s.letters = s.acks + ranks*apart
	s.lines = page(s.letters + ranks*letters*letterSize)
	s.flats = s.lines + 4096 // of which the lines of two ranks leave most
	s.stage = page(s.flats + 2048 + 2*flat)
	s.board = page(s.stage + 2*chunk)
	s.size = page(s.board + offRoom + roomBytes(defaultSpread(ranks, flat, chunk)))
	return s
}

// lineOf is where the line of a rank for epochs of that parity begins.
func (s *shape) lineOf(rank, parity int) int { return s.lines + (2*rank+parity)*apart%4096 }

// offOfTwo is where the line of two lies among the lines.
const offOfTwo = 4 * apart

// flatOf is where its flat slot does.
func (s *shape) flatOf(rank, parity int) int { return s.flats + rank%2*2048 + parity*s.flat }

// line is a rank's mark of one parity of epochs, and what stands beside it.
type line struct {
	mark    *uint64
	brief   []byte // nil but in the line of two
	payload []byte
	call    []byte
	table   []byte
	flat    []byte
}

// inLineOf is the most bytes of a source that stand beside a mark. Two ranks have a payload in another line than their marks, and that one goes
// to and fro no quicker than a flat slot: Emerald Rapids, 32 B, 0.24 µs by a slot and 0.39 by the payload.
func inLineOf(ranks int) int {
	if ranks == 2 {
		return briefSize
	}
	return payloadSize
}

// room is n bytes of payload, as near to the mark as they can be.
func (l *line) room(n int) []byte {
	if n <= len(l.brief) {
		return l.brief[:n]
	}
	return l.payload[:n]
}

// page is a mapped page segment, one's own or a peer's.
type page struct {
	mem   []byte
	shape shape
	bell  *ring.Bell
	state *uint64 // of the obituary
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

// attach checks that mem is the page of a rank and finds what is in it.
func attach(mem []byte, s shape, rank int, futex ring.Futex) (*page, error) {
	if len(mem) < s.size {
		return nil, fmt.Errorf("%w: a page of %d bytes, expected %d", ipc.ErrCorrupt, len(mem), s.size)
	}
	le := binary.LittleEndian
	magic, version := atomic.LoadUint64(word64(mem, 0)), le.Uint32(mem[offVersion:])
	r, n := le.Uint32(mem[offRank:]), le.Uint32(mem[offRanks:])
	if magic != pageMagic || version != pageVersion || int(r) != rank || int(n) != s.ranks {
		return nil, fmt.Errorf("%w: a page with magic %#x, version %d, of rank %d of %d, expected %#x, %d, %d of %d", ipc.ErrCorrupt,
			magic, version, r, n, uint64(pageMagic), pageVersion, rank, s.ranks)
	}
	bell, err := ring.NewBell(mem[offBell:offBell+ring.BellSize], futex)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
	}
	p := &page{mem: mem, shape: s, bell: bell, state: word64(mem, offObituary), looks: word64(mem, offLooks), core: word64(mem, offCore)}
	for i := range p.lines {
		at, flat := s.lineOf(rank, i), s.flatOf(rank, i)
		table := offTables + i*s.ranks*tableEntry
		p.lines[i] = line{
			mark: word64(mem, at), payload: stretch(mem, at+offPayload, payloadSize),
			call:  stretch(mem, offCalls+i*apart, plan.CallBytes),
			table: stretch(mem, table, s.ranks*tableEntry), flat: stretch(mem, flat, s.flat),
		}
		p.stage[i] = stretch(mem, s.stage+i*s.chunk, s.chunk)
	}
	return p, nil
}

func stretch(mem []byte, off, n int) []byte { return mem[off : off+n : off+n] }

// shareLine has both of two ranks keep their marks in the line of two, and finds the halves of the one that asks. It gives them each other's
// flat slots by turns.
func shareLine(pages []peer, rank int) (d duo) {
	first := pages[0].page
	for r := range pages {
		for parity := range pages[r].lines {
			l, at := &pages[r].lines[parity], first.shape.lines+offOfTwo+apart*parity+16*r
			l.mark, l.brief = word64(first.mem, at), stretch(first.mem, at+8, briefSize)
			owner := (r + parity) & 1
			l.flat = stretch(pages[owner].mem, pages[owner].shape.flatOf(owner, 0), pages[owner].shape.flat)
			if h := halfAt(first.mem, at); r == rank {
				d.mine[parity], d.call[parity] = h, l.call
			} else {
				d.theirs[parity] = h
			}
		}
	}
	d.bell = pages[1-rank].bell
	return d
}

// ack is the number of messages from a rank that the owner of the page has taken in.
func (p *page) ack(from int) *uint64 { return word64(p.mem, p.shape.acks+from*apart) }

// letter is the place of the seq-th message to a rank.
func (p *page) letter(to int, seq uint64) []byte {
	return stretch(p.mem, p.shape.letters+(to*letters+int(seq%letters))*letterSize, letterSize)
}
