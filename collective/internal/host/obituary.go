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

// A rank that ends writes why into its page, once, and then the state, which all others look at while they wait.
//
//	 0  state u64
//	 8  rank i32, -1 for nobody; length of text u32
//	16  call, 40 bytes: what the writer was in
//	56  theirs, 40 bytes: of a mismatch, what the rank was in
//	96  missing: a bit for each of MaxRanks ranks, of a timeout
//	128 text, at most maxText bytes
const (
	alive uint64 = iota
	left         // closed in order: an error only for those that need it
	lost
	timedOut
	mismatched
	aborted
	states

	maxText = 512
)

// obituary is why a rank has ended.
type obituary struct {
	state        uint64
	rank         int
	call, theirs plan.Call
	missing      []int
	text         string
}

// obituaryOf is what the others are told of e.
func obituaryOf(e *plan.PeerError, self int) obituary {
	o := obituary{rank: e.Rank, call: e.Call, missing: e.Missing, text: e.Err.Error()}
	var m *plan.MismatchError
	switch {
	case errors.Is(e, plan.ErrAborted): // whatever the reason, which may be one of those below
		o.state = aborted
	case errors.As(e, &m):
		o.state, o.theirs = mismatched, m.Theirs
	case errors.Is(e, plan.ErrMismatch):
		o.state = mismatched
	case errors.Is(e, plan.ErrTimeout):
		o.state = timedOut
	case errors.Is(e, plan.ErrPeerLost):
		o.state = lost
	default:
		o.state, o.rank = aborted, self
	}
	return o
}

// bury writes o into a page that has none yet, the writer's own.
func (p *page) bury(o obituary) {
	b := p.mem[offObituary:offCalls]
	le := binary.LittleEndian
	le.PutUint32(b[8:], uint32(int32(o.rank)))
	text := o.text[:min(len(o.text), maxText)]
	le.PutUint32(b[12:], uint32(len(text)))
	o.call.Append(b[16:16:56])
	o.theirs.Append(b[56:56:96])
	for _, r := range o.missing {
		if r >= 0 && r < MaxRanks {
			b[96+r/8] |= 1 << (r % 8)
		}
	}
	copy(b[128:], text)
	storeRelease(p.state, o.state)
}

// read returns what stands in a peer's page. It is data from another process: what does not parse is an error.
func (p *page) read() (o obituary, err error) {
	o.state = atomic.LoadUint64(p.state)
	if o.state == alive || o.state == left {
		return o, nil
	}
	b := append([]byte(nil), p.mem[offObituary:offCalls]...) // it may change while we look
	le := binary.LittleEndian
	o.rank = int(int32(le.Uint32(b[8:])))
	n := le.Uint32(b[12:])
	if o.call, err = plan.DecodeCall(b[16:56]); err == nil {
		o.theirs, err = plan.DecodeCall(b[56:96])
	}
	if err != nil || o.state >= states || o.rank < -1 || o.rank >= p.shape.ranks || n > maxText {
		return o, fmt.Errorf("%w: an obituary of state %d, rank %d and %d bytes of text", ipc.ErrCorrupt, o.state, o.rank, n)
	}
	for r := range p.shape.ranks {
		if b[96+r/8]&(1<<(r%8)) != 0 {
			o.missing = append(o.missing, r)
		}
	}
	o.text = strings.Map(printable, string(b[128:128+n]))
	return o, nil
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}
