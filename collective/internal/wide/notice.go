package wide

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/collective/plan"
)

// reason says what a notice is about.
type reason uint8

// The reasons. Their numbers travel: append, never reorder.
const (
	reasonLeft reason = 1 + iota // the sender closed its comm in good order
	// it waits in a call, which may be a Send that is not received yet
	reasonWaiting
	reasonLost     // it failed: a rank is lost
	reasonTimeout  // it failed: ranks did not come
	reasonMismatch // it failed: another rank is in another call
	reasonAborted  // it gave up: Abort, or a context that is done
	reasonArriving // data that it receives from this rank is arriving

	reasons
)

// notice is what ranks tell each other beside the data, as one message each.
//
//	byte 0       1      2       4    8      48       88      96      104         104+4k
//	    |version|reason|missing|rank| call | theirs | index | bytes | missing ... | text
//
// Numbers are little endian.
type notice struct {
	reason  reason
	rank    int       // that it is about
	call    plan.Call // the sender's
	theirs  plan.Call // reasonMismatch: rank's, where known
	index   uint64    // reasonWaiting in a Send: transfers to this rank before it
	bytes   uint64    // and its length
	missing []int     // reasonTimeout
	text    string
}

const (
	noticeKind    = 0x57_49 // the kind of the messages: "WI"
	noticeVersion = 1       // 1: the first
	noticeHead    = 104
	maxText       = 1000
)

// append appends the encoding of n.
func (n notice) append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, noticeVersion, byte(n.reason))
	b = le.AppendUint16(b, uint16(len(n.missing)))
	b = le.AppendUint32(b, uint32(int32(n.rank)))
	b = n.call.Append(b)
	b = n.theirs.Append(b)
	b = le.AppendUint64(b, n.index)
	b = le.AppendUint64(b, n.bytes)
	for _, m := range n.missing {
		b = le.AppendUint32(b, uint32(m))
	}
	return append(b, n.text[:min(len(n.text), maxText)]...)
}

// parseNotice reads what append wrote in a comm of size ranks. b may hold any bytes.
func parseNotice(b []byte, size int) (notice, error) {
	bad := func(what string, got, want any) (notice, error) {
		return notice{}, fmt.Errorf("notice with %s %v, expected %v", what, got, want)
	}
	if len(b) < noticeHead {
		return bad("length", len(b), fmt.Sprintf("at least %d", noticeHead))
	}
	if b[0] != noticeVersion {
		return bad("version", b[0], noticeVersion)
	}
	le := binary.LittleEndian
	n := notice{reason: reason(b[1]), rank: int(int32(le.Uint32(b[4:]))), index: le.Uint64(b[88:]), bytes: le.Uint64(b[96:])}
	if n.reason == 0 || n.reason >= reasons {
		return bad("reason", n.reason, fmt.Sprintf("1 to %d", reasons-1))
	}
	if n.rank < -1 || n.rank >= size {
		return bad("rank", n.rank, fmt.Sprintf("below %d", size))
	}
	var err error
	if n.call, err = plan.DecodeCall(b[8:48]); err != nil {
		return notice{}, err
	}
	if n.theirs, err = plan.DecodeCall(b[48:88]); err != nil {
		return notice{}, err
	}
	count := int(le.Uint16(b[2:]))
	rest := b[noticeHead:]
	if count > size || len(rest) < 4*count || len(rest) > 4*count+maxText {
		return bad("missing ranks", count, fmt.Sprintf("at most %d within %d bytes", size, len(rest)))
	}
	for range count {
		m := le.Uint32(rest)
		if m >= uint32(size) {
			return bad("missing rank", m, fmt.Sprintf("below %d", size))
		}
		n.missing = append(n.missing, int(m))
		rest = rest[4:]
	}
	n.text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, string(rest))
	return n, nil
}
