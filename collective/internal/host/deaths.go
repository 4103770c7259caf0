package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// # Death notices
//
// A rank whose comm ends writes the reason into its page, once. It stores the state last
// (release), so that a rank that loads another state than alive (acquire) sees the
// reason.
//
//	  0  state u64
//	  8  rank i32, -1 for none; length of text u32
//	 16  call, 40 bytes: the writer's
//	 56  theirs, 40 bytes: of a mismatch, the call of rank
//	 96  missing: a bit for each of MaxRanks ranks, of a timeout
//	128  text, at most maxText bytes
const (
	alive uint64 = iota
	left         // closed in order: an error only for ranks that still need it
	lost
	timedOut
	mismatched
	aborted
	states

	maxText = 512
)

// deathNotice says why a rank's comm has ended.
type deathNotice struct {
	state        uint64
	rank         int
	call, theirs plan.Call
	missing      []int
	text         string
}

// deathNoticeOf returns what the others are told of e by rank self.
func deathNoticeOf(e *plan.PeerError, self int) deathNotice {
	d := deathNotice{rank: e.Rank, call: e.Call, missing: e.Missing, text: e.Err.Error()}
	var m *plan.MismatchError
	switch {
	case errors.Is(e, plan.ErrAborted): // the reason it gave up may be one of those below
		d.state = aborted
	case errors.As(e, &m):
		d.state, d.theirs = mismatched, m.Theirs
	case errors.Is(e, plan.ErrMismatch):
		d.state = mismatched
	case errors.Is(e, plan.ErrTimeout):
		d.state = timedOut
	case errors.Is(e, plan.ErrPeerLost):
		d.state = lost
	default:
		d.state, d.rank = aborted, self
	}
	return d
}

// publish writes d into the writer's own page, which has no notice yet.
func (p *page) publish(d deathNotice) {
	b := p.mem[offDeath:offCalls]
	le := binary.LittleEndian
	le.PutUint32(b[8:], uint32(int32(d.rank)))
	text := d.text[:min(len(d.text), maxText)]
	le.PutUint32(b[12:], uint32(len(text)))
	d.call.Append(b[16:16:56])
	d.theirs.Append(b[56:56:96])
	for _, r := range d.missing {
		if r >= 0 && r < MaxRanks {
			b[96+r/8] |= 1 << (r % 8)
		}
	}
	copy(b[128:], text)
	storeRelease(p.state, d.state)
}

// deathNotice reads the notice of a peer's page. It is data from another process: the
// error says what is wrong with it.
func (p *page) deathNotice() (d deathNotice, err error) {
	d.state = atomic.LoadUint64(p.state)
	if d.state == alive || d.state == left {
		return d, nil
	}
	b := append([]byte(nil), p.mem[offDeath:offCalls]...) // its owner can still change it
	le := binary.LittleEndian
	d.rank = int(int32(le.Uint32(b[8:])))
	n := le.Uint32(b[12:])
	if d.call, err = plan.DecodeCall(b[16:56]); err == nil {
		d.theirs, err = plan.DecodeCall(b[56:96])
	}
	if err != nil || d.state >= states || d.rank < -1 || d.rank >= p.shape.ranks || n > maxText {
		return d, fmt.Errorf("%w: a death notice of state %d, rank %d and %d bytes of text",
			ipc.ErrCorrupt, d.state, d.rank, n)
	}
	for r := range p.shape.ranks {
		if b[96+r/8]&(1<<(r%8)) != 0 {
			d.missing = append(d.missing, r)
		}
	}
	d.text = strings.Map(printable, string(b[128:128+n]))
	return d, nil
}

// printable replaces control characters.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}
