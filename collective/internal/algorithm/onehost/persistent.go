package onehost

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Persistent is a call that is made many times with the same buffers. It is checked and
// encoded once.
//
// A barrier, and a sum of up to wordSize bytes, of two ranks is small: all that it says
// fits beside the mark in the pair's line. It stores word and mark next to each other in
// time (give), and writes nothing down for the waiting code unless the other rank is
// missing.
type Persistent struct {
	encoded
	comm    *Comm
	request protocol.Request
	small   bool
	begun   bool // Give has begun a call that is not over
	rest    int  // PAUSEs between two looks of a small call
}

// restParts is how many rests between two looks are a microsecond. While this rank rests,
// the other, which has the line, can go through two meetings before the line is asked
// for.
const restParts = 20

// Persistent returns a call to be run, of any kind but Send and Recv. The error is
// protocol.ErrBadCall as for Do.
func (c *Comm) Persistent(r protocol.Request) (*Persistent, error) {
	if err := kernel.CheckRequest(&r, c.rank, c.n); err != nil {
		return nil, err
	}
	if r.Kind().Paired() {
		return nil, fmt.Errorf("%w: a persistent %v, expected a call of all ranks", protocol.ErrBadCall, r.Kind())
	}
	p := &Persistent{comm: c, request: r, small: c.isSmall(&r), rest: max(c.waiter.Pauses()/restParts, 1)}
	p.set(&r.Call)
	return p, nil
}

// isSmall reports whether all that the ranks say in a call fits beside their marks.
func (c *Comm) isSmall(r *protocol.Request) bool {
	if c.pair.mine[0] == nil {
		return false
	}
	call, n := &r.Call, len(r.Src)
	if r.Kind() == protocol.AllReduce {
		return call.Op == element.Sum && call.Scale == 1 && c.fold.Groups == nil &&
			n > 0 && n <= wordSize && kernel.AddsWords(call.DType)
	}
	return r.Kind() == protocol.Barrier
}

// Prefetch begins to fetch the line that the next call of the comm writes, if that is p
// and small. The caller has something to do before it calls Run. Like a call, it
// must not run beside another call.
func (p *Persistent) Prefetch() {
	if p.small {
		claim(p.comm.pair.mine[(p.comm.epoch+1)&1])
	}
}

// Run makes the call as the seq-th of the comm, or goes on with it where Give has begun
// it. It is Do without the lock: while it is under way no method of the Comm may be
// called but Abort, Alloc, Free, Show and Err. It does not look at the context before it
// has to wait.
func (p *Persistent) Run(ctx context.Context, seq uint64) error {
	if !p.begun && p.Give(seq) && p.Take() {
		return nil
	}
	if p.begun {
		p.begun = false
		return p.wait(ctx, seq)
	}
	c := p.comm
	if err := c.start(ctx, &p.encoded, seq); err != nil {
		return err
	}
	return c.perform(&p.request)
}

// Give begins the call as the seq-th of the comm if it is small, and reports whether it
// did: the other rank can go on. The caller then calls Take. Work between the two does
// not delay a rank that has to wait for the other's mark. If Give did nothing, the caller
// goes on with Run. Give and Take are Run for what calls no context and no logger, so
// they do not panic.
func (p *Persistent) Give(seq uint64) bool {
	c := p.comm
	// in the window of a broadcast meet looks for entries that nothing took
	if !p.small || c.window.epoch == c.epoch || c.dead.Load() != nil {
		return false
	}
	c.epoch++
	parity := c.epoch & 1
	c.declare(&p.encoded, parity, seq)
	give(c.pair.mine[parity], markOf(c.epoch, p.hash+seq*golden), wordFrom(p.request.Src))
	p.begun, p.call.Seq = true, seq
	c.stats.Calls++
	return true
}

// Take ends the call that Give began if the other rank comes at once, and reports
// whether it did. If not, the caller goes on with Run, before it makes another call.
func (p *Persistent) Take() bool {
	c := p.comm
	mark := markOf(c.epoch, p.hash+p.call.Seq*golden)
	theirs, here := take(c.pair.theirs[c.epoch&1], mark, max(c.spins/p.rest, 1), p.rest)
	// a rank that sleeps has come before, so this may be late
	c.peers[1-c.rank].bell.Ring()
	if !here {
		return false
	}
	p.begun = false
	if src := p.request.Src; len(src) > 0 {
		p.add(wordFrom(src), theirs)
	}
	return true
}

// wait goes on with a small call to which the other rank did not come at once.
func (p *Persistent) wait(ctx context.Context, seq uint64) error {
	c := p.comm
	hash := p.hash + seq*golden
	c.call, c.hash, c.ctx, c.timing = &p.call, hash, ctx, false
	c.recent[seq%recentCalls] = hash
	if err := c.waitFrom(1 - c.rank); err != nil {
		return err
	}
	if err := c.alike(markOf(c.epoch, hash)); err != nil {
		return err
	}
	if len(p.request.Src) > 0 {
		p.add(wordFrom(p.request.Src), c.pair.theirs[c.epoch&1].word)
	}
	return nil
}

// add stores the sum of both words, in the order of ranks.
func (p *Persistent) add(mine, theirs uint64) {
	c, dst := p.comm, p.request.Dst
	c.stats.Small++
	if c.rank != 0 {
		mine, theirs = theirs, mine
	}
	if p.call.DType == element.F32 && len(dst) == 4 { // the most frequent, without a call
		sum := math.Float32frombits(uint32(mine)) + math.Float32frombits(uint32(theirs))
		binary.LittleEndian.PutUint32(dst, math.Float32bits(sum))
		return
	}
	putWord(dst, c.fold.AddWords(p.call.DType, mine, theirs))
}

// wordFrom returns up to 8 bytes of b as a word, little endian, with zeros after them.
func wordFrom(b []byte) uint64 {
	switch len(b) {
	case 0:
		return 0
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	}
	var w [wordSize]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// putWord stores the first bytes of a word in b, of at most 8.
func putWord(b []byte, word uint64) {
	switch len(b) {
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(word))
	case 8:
		binary.LittleEndian.PutUint64(b, word)
	default:
		var w [wordSize]byte
		binary.LittleEndian.PutUint64(w[:], word)
		copy(b, w[:])
	}
}
