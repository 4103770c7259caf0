package wide

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
)

func TestNotice(t *testing.T) {
	n := notice{
		reason: reasonTimeout, rank: 2, missing: []int{2, 0}, index: 7, bytes: 1 << 40, text: "why: \x01\xff",
		call:   plan.Call{Seq: 1, Kind: plan.Gather, DType: element.F16, Count: 3, Root: 1},
		theirs: plan.Call{Seq: 1, Kind: plan.Barrier},
	}
	got, err := parseNotice(n.append(nil), 3)
	if err != nil || got.reason != n.reason || got.rank != 2 || len(got.missing) != 2 || got.missing[1] != 0 ||
		got.index != 7 || got.bytes != 1<<40 || got.call != n.call || got.theirs != n.theirs || got.text != "why: ??" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, spoil := range map[string]func(b []byte){
		"version": func(b []byte) { b[0]++ },
		"reason":  func(b []byte) { b[1] = byte(reasons) },
		"none":    func(b []byte) { b[1] = 0 },
		"missing": func(b []byte) { b[2] = 4 },
		"rank":    func(b []byte) { b[4] = 3 },
		"call":    func(b []byte) { b[16] = 99 },
		"theirs":  func(b []byte) { b[56] = 99 },
		"who":     func(b []byte) { b[104] = 3 },
	} {
		b := n.append(nil)
		spoil(b)
		if got, err := parseNotice(b, 3); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := parseNotice(append(n.append(nil), make([]byte, maxText)...), 3); err == nil {
		t.Error("too much text")
	}
	if _, err := parseNotice(nil, 3); err == nil {
		t.Error("nothing at all")
	}
}

func FuzzNotice(f *testing.F) {
	f.Add(notice{reason: reasonLeft}.append(nil), 2)
	f.Add(notice{reason: reasonTimeout, rank: 1, missing: []int{1}, text: "late"}.append(nil), 2)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		n, err := parseNotice(b, size)
		if err != nil {
			return
		}
		if n.rank >= size || len(n.missing) > size {
			t.Errorf("%+v of %d ranks", n, size)
		}
		if again, err := parseNotice(n.append(nil), size); err != nil || again.text != n.text {
			t.Errorf("%+v became %+v, %v", n, again, err)
		}
	})
}

// FuzzPeer: a rank that greets properly and then sends what it likes, as messages and as
// bulk, is an error on the other one and never more. Each byte of the script says what
// comes next.
func FuzzPeer(f *testing.F) {
	abort := notice{reason: reasonAborted, rank: 1, text: "enough"}.append(nil)
	f.Add([]byte{0}, abort)
	f.Add([]byte{1, 2, 3}, bytes.Repeat([]byte{7}, 100))
	f.Add([]byte{4, 4, 0, 5}, notice{reason: reasonWaiting, call: plan.Call{Seq: 1, Kind: plan.Send}, index: 1, bytes: 64}.append(nil))
	f.Add([]byte{2, 2, 6}, notice{reason: reasonMismatch, call: plan.Call{Seq: 1, Kind: plan.Barrier}}.append(nil))
	f.Fuzz(func(t *testing.T, moves, data []byte) {
		conns, waiters := mesh(t, 2, 4000, nil)
		comms := world(t, conns, waiters, Options{Timeout: 10 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		defer cancel()
		hostile := conns[1][0].(*fake)
		word := plan.Call{Seq: 1, Kind: plan.AllReduce, Op: element.Sum, DType: element.F32, Count: 5, Scale: 1}.Hash()
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
		err := comms[0].AllReduce(ctx, plan.Call{Seq: 1, Kind: plan.AllReduce, Op: element.Sum, DType: element.F32, Count: 5}, 1, b, b)
		var e *plan.PeerError
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%T: %v", err, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it hung: %v", err)
		}
		err = comms[0].Send(ctx, plan.Call{Seq: 1, DType: element.U8, Count: 10_000}, 1, make([]byte, 10_000))
		if !errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a send that nobody receives: %v", err)
		}
	})
}
