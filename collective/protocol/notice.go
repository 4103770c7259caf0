package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Reason says what a Notice is about.
type Reason uint8

// The reasons. Their numbers travel: append, never reorder.
const (
	Left       Reason = 1 + iota // the sender closed its communicator in good order
	Waiting                      // it waits in a call; a Send may be received later
	Lost                         // it failed: a rank is lost
	TimedOut                     // it failed: ranks did not come
	Mismatched                   // it failed: another rank is in another call
	Aborted                      // it gave up: an abort, or a context that is done
	Arriving                     // data that it receives from this rank is arriving

	reasons
)

// Notice is what a rank tells the others about a call beside the data: where it waits,
// and why its communicator has ended.
//
//	byte 0       1      2        4    8      48       88      96      104
//	    |version|reason|reserved|rank| call | theirs | index | bytes | missing | text
//
// Numbers are little endian. missing has a bit for each rank.
type Notice struct {
	Reason       Reason
	Rank         int    // that it is about, -1 for none
	Call         Call   // the sender's
	Theirs       Call   // Mismatched: Rank's, where known
	Index, Bytes uint64 // Waiting in a Send: transfers to this rank before it, its length
	Missing      []int  // TimedOut: the ranks that had not come, ascending
	Text         string // of the error
}

const (
	noticeVersion = 2 // 1: between hosts alone; 2: also inside; missing ranks are bits
	noticeHead    = 104
	maxText       = 480
)

// MaxNotice returns the most bytes of an encoded Notice among so many ranks.
func MaxNotice(ranks int) int { return noticeHead + (ranks+7)/8 + maxText }

// NoticeOf returns what the others are told of e by rank self.
func NoticeOf(e *PeerError, self int) Notice {
	n := Notice{Reason: Aborted, Rank: e.Rank, Call: e.Call, Missing: e.Missing, Text: e.Err.Error()}
	m := (*MismatchError)(nil)
	switch {
	case errors.Is(e, ErrAborted): // the reason it gave up may be one of those below
	case errors.Is(e, ErrMismatch):
		if n.Reason = Mismatched; errors.As(e, &m) {
			n.Theirs = m.Theirs
		}
	case errors.Is(e, ErrTimeout):
		n.Reason = TimedOut
	case errors.Is(e, ErrPeerLost):
		n.Reason = Lost
	default:
		n.Rank = self
	}
	return n
}

// Append appends the encoding of n among so many ranks.
func (n Notice) Append(b []byte, ranks int) []byte {
	le := binary.LittleEndian
	b = append(b, noticeVersion, byte(n.Reason), 0, 0)
	b = le.AppendUint32(b, uint32(int32(n.Rank)))
	b = n.Theirs.Append(n.Call.Append(b))
	b = le.AppendUint64(le.AppendUint64(b, n.Index), n.Bytes)
	missing := make([]byte, (ranks+7)/8)
	for _, r := range n.Missing {
		missing[r/8] |= 1 << (r % 8)
	}
	return append(append(b, missing...), n.Text[:min(len(n.Text), maxText)]...)
}

// ParseNotice reads what Append wrote among so many ranks. b may hold any bytes: the
// result is safe to print.
func ParseNotice(b []byte, ranks int) (n Notice, err error) {
	bad := func(what string, got, want any) (Notice, error) {
		return Notice{}, fmt.Errorf("notice with %s %v, expected %v", what, got, want)
	}
	text := noticeHead + (ranks+7)/8
	if len(b) < text || len(b) > text+maxText {
		return bad("length", len(b), fmt.Sprintf("%d to %d", text, text+maxText))
	}
	le := binary.LittleEndian
	n = Notice{Reason: Reason(b[1]), Rank: int(int32(le.Uint32(b[4:]))), Index: le.Uint64(b[88:]), Bytes: le.Uint64(b[96:])}
	switch {
	case b[0] != noticeVersion:
		return bad("version", b[0], noticeVersion)
	case n.Reason == 0 || n.Reason >= reasons:
		return bad("reason", n.Reason, fmt.Sprintf("1 to %d", reasons-1))
	case n.Rank < -1 || n.Rank >= ranks:
		return bad("rank", n.Rank, fmt.Sprintf("below %d", ranks))
	}
	if n.Call, err = DecodeCall(b[8:48]); err == nil {
		n.Theirs, err = DecodeCall(b[48:88])
	}
	if err != nil {
		return Notice{}, err
	}
	for r := range (text - noticeHead) * 8 {
		if b[noticeHead+r/8]&(1<<(r%8)) == 0 {
			continue
		}
		if r >= ranks {
			return bad("missing rank", r, fmt.Sprintf("below %d", ranks))
		}
		n.Missing = append(n.Missing, r)
	}
	n.Text = strings.Map(printable, string(b[text:]))
	return n, nil
}

// printable replaces control characters and bytes that are not UTF-8.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == '\uFFFD' {
		return '?'
	}
	return r
}

// AsError returns what a Notice of rank from that is Lost, TimedOut or Aborted means for
// rank self, which is in call.
func (n Notice) AsError(from, self int, call Call) *PeerError {
	e := &PeerError{Rank: n.Rank, Call: call}
	says := func(sentinel error) string { return strings.TrimPrefix(n.Text, sentinel.Error()+": ") }
	switch {
	case n.Reason == TimedOut && n.Rank == self:
		e.Missing, e.Err = n.Missing, fmt.Errorf("%w: rank %d waited for this rank in %v", ErrTimeout, from, n.Call)
	case n.Reason == TimedOut:
		e.Missing, e.Err = n.Missing, fmt.Errorf("%w: rank %d waited in %v", ErrTimeout, from, n.Call)
	case n.Reason == Lost:
		e.Err = fmt.Errorf("%w, says rank %d: %s", ErrPeerLost, from, says(ErrPeerLost))
		if n.Rank == self { // it lost this rank, so this rank has lost it
			e.Rank = from
		}
	default:
		e.Err = fmt.Errorf("%w: %s", ErrAborted, says(ErrAborted))
		if n.Rank < 0 {
			e.Rank = from
		}
	}
	return e
}
