package crosshost

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// FuzzPeer: a rank that greets properly and then sends what it likes, as messages and as
// bulk, is an error on the other one and never more. Each byte of the script says what
// comes next.
func FuzzPeer(f *testing.F) {
	abort := protocol.Notice{Reason: protocol.Aborted, Rank: 1, Text: "enough"}.Append(nil, 2)
	f.Add([]byte{0}, abort)
	f.Add([]byte{1, 2, 3}, bytes.Repeat([]byte{7}, 100))
	f.Add([]byte{4, 4, 0, 5}, protocol.Notice{Reason: protocol.Waiting, Call: protocol.Call{Seq: 1, Kind: protocol.Send}, Index: 1, Bytes: 64}.Append(nil, 2))
	f.Add([]byte{2, 2, 6}, protocol.Notice{Reason: protocol.Mismatched, Call: protocol.Call{Seq: 1, Kind: protocol.Barrier}}.Append(nil, 2))
	f.Fuzz(func(t *testing.T, moves, data []byte) {
		conns, waiters := mesh(t, 2, 4000, nil)
		comms := world(t, conns, waiters, Options{Timeout: 10 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		defer cancel()
		hostile := conns[1][0].(*fake)
		word := protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 5, Scale: 1}.Hash()
		for _, m := range moves[:min(len(moves), 20)] {
			switch m % 7 {
			case 0, 1: // a message, well made or of an unknown kind
				if b, err := hostile.TryReserve(noticeKind+uint32(m%7), len(data)); err == nil {
					copy(b, data)
					_ = hostile.Commit()
				}
			case 2: // bytes where a transfer should begin
				hostile.out.write(data)
			case 3, 4: // a transfer, of the call or of another
				if hostile.BeginSend(word+uint64(m%7)-3, data) == nil {
					_, _ = hostile.ProgressSend()
					hostile.sending = false
				}
			case 5: // an empty one
				if hostile.BeginSend(word) == nil {
					_, _ = hostile.ProgressSend()
					hostile.sending = false // also where the pipe was full
				}
			case 6:
				hostile.Close()
			}
		}
		b := make([]byte, 20)
		err := comms[0].AllReduce(ctx, protocol.Call{Seq: 1, Kind: protocol.AllReduce, Op: element.Sum, DType: element.F32, Count: 5}, 1, b, b)
		var e *protocol.PeerError
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%T: %v", err, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it hung: %v", err)
		}
		err = comms[0].Send(ctx, protocol.Call{Seq: 1, DType: element.U8, Count: 10_000}, 1, make([]byte, 10_000))
		if !errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a send that nobody receives: %v", err)
		}
	})
}
