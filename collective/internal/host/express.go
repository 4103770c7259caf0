package host

import (
	"context"
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/ring"
)

// Express is a brief call whose steps are one piece of assembly (express_amd64.s): what a call does between the last meeting's end and the
// store of its mark decides how often two ranks need the line. Ice Lake, cores far from each other, ns of a barrier of a group: 151 to
// 164 by way of Go, 3 to 5 less without its two locked instructions; 133 to 143 in one piece without them, and 106 to 122 if it also
// waits a little longer between looks (restParts), so that the other, who has the line, can go through two meetings before it is asked
// for. A loop in C that does nothing else takes 75 to 90.
//
// Who may make it is said by a Gate. Its methods are nothing for two goroutines, and not for one beside another call of the Comm.
type Express struct {
	gate         *Gate
	epoch        *uint64
	window       *uint64 // notices are looked for if this is the epoch
	said         *[2]*Prepared
	call         *Prepared
	seqs         [2]*uint64 // of this rank's own page, by parity like those that follow
	mine, theirs [2]*half
	word         uint64
	rest         uint64  // PAUSEs between two looks
	bell         *uint32 // the other's
	calls        *uint64 // that were made
	spins        *int    // PAUSEs until it gives up looking

	always uint32 // where bell points if there is always something to do for it
}

// Gate lets one goroutine, the one it is open for, make express calls without a locked instruction: it stores 1 in Inside and looks at
// Holder again, and these two may change places on their way to memory. So whoever closes the gate has every core pass a fence between its
// store of Holder and its look at Inside. Then either the goroutine has seen the gate closed or the other sees it inside.
//
// A goroutine may be stopped between its first look at Holder and its store, for as long as the system likes, while the gate is closed and
// opened for another: so every opening has an Inside of its own.
type Gate struct {
	Holder atomic.Uintptr   // the goroutine, as Goroutine says it; 0, and Closing: nobody
	Opened uint64           // which opening it is; whoever opens the gate stores it before Holder, the others load it atomically
	Calls  uint64           // that were made so; the goroutine inside alone writes it, the others load it atomically
	Before atomic.Uint64    // 4 times the calls that were made otherwise, and two bits; it changes only while nobody is inside
	Inside [Openings]uint64 // 1 while the goroutine makes a call; like Calls
}

// Openings is how often a gate can be opened, and one more.
const Openings = 64

// Closing is the Holder of a gate that is being closed.
const Closing = 1

// restParts is how many rests between two looks are a microsecond: of 50 ns, which are 4 PAUSEs of Ice Lake. Barriers there, 1 to 5 PAUSEs:
// 133 to 143, 127 to 136, 108 to 125, 117 to 122, 106 to 123 ns.
const restParts = 20

// Express returns q as an express call by the gate, nil if it is none: it is not brief, or this machine has no code for it.
func (q *Prepared) Express(g *Gate) *Express {
	c := q.comm
	if !hasExpress || !q.brief {
		return nil
	}
	x := &Express{gate: g, epoch: &c.epoch, window: &c.window.epoch, said: &c.said, call: q, mine: c.two.mine, theirs: c.two.theirs,
		word: q.word, rest: uint64(max(c.post.Pauses()/restParts, 1)), bell: c.two.bell.Word(), calls: &c.stats.calls, spins: &c.spins,
		always: ^uint32(ring.Awake)}
	for parity := range x.seqs {
		x.seqs[parity] = word64(c.two.call[parity], 0)
	}
	if x.bell == nil {
		x.bell = &x.always
	}
	return x
}

// Outcome is what became of an express call.
type Outcome int

const (
	NotMade    Outcome = iota // nothing was done: the gate is not open for this goroutine, or something else is to be done before
	Turned                    // NotMade, and the gate was closed meanwhile: who has seen the goroutine inside is to be told that it is not
	Made                      // and the goroutine is not inside any more
	Overdue                   // Made, and as with Turned somebody is to be told
	Begun                     // it is inside and goes on with End
	begunAlone                // Begun, and the other rank is not there yet
)

// Barrier makes a call that was prepared as a barrier. The word is for End.
func (x *Express) Barrier() (word uint64, got Outcome) { return express(x, 0, true) } // small enough to be inlined

// Sum begins a sum of src, which has as many bytes as the call was prepared for. The word is for End.
func (x *Express) Sum(src []byte) (word uint64, got Outcome) { return express(x, wordFrom(src), false) }

// End waits for the other rank, if it was not met yet, and adds up a sum of src into dst. The goroutine is inside until it calls Leave.
func (x *Express) End(ctx context.Context, word uint64, got Outcome, dst, src []byte) error {
	if got == begunAlone {
		var err error
		if word, err = x.later(ctx); err != nil {
			return err
		}
	}
	x.call.comm.two.bell.Ring() // see meetBrief
	if src != nil {
		x.call.addWords(dst, wordFrom(src), word)
	}
	return nil
}

// Leave ends a call that was Begun, and says whether it is Overdue.
func (x *Express) Leave() bool {
	leave(&x.gate.Inside[x.gate.Opened]) // no other opening begins while it is inside
	return x.gate.Holder.Load() <= Closing
}

// later waits for the other, who was not there at once.
//
//go:noinline
func (x *Express) later(ctx context.Context) (uint64, error) {
	q := x.call
	seq := binary.LittleEndian.Uint64(q.comm.two.call[q.comm.epoch&1])
	q.call.Seq = seq
	q.comm.two.bell.Ring()
	return q.later(ctx, seq, markOf(q.comm.epoch, q.word+seq*golden))
}

// addWords is the end of a brief sum: it adds both words in the order of ranks.
func (q *Prepared) addWords(dst []byte, mine, theirs uint64) {
	c := q.comm
	c.stats.small++
	c.stats.bytes += uint64(len(dst))
	if c.rank != 0 {
		mine, theirs = theirs, mine
	}
	if q.call.DType == element.F32 && len(dst) == 4 { // the one that is made most
		binary.LittleEndian.PutUint32(dst, math.Float32bits(math.Float32frombits(uint32(mine))+math.Float32frombits(uint32(theirs))))
		return
	}
	putWord(dst, c.fold.set.AddWords(q.call.DType, mine, theirs))
}
