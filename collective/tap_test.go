package collective

import (
	"encoding/binary"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// flood is a conn with messages without end, numbered from 0, whose kinds come in turn.
type flood struct {
	ipc.Conn
	kinds []uint32
	n     int
}

func (f *flood) TryRecv() (ipc.Message, bool, error) {
	m := ipc.Message{Kind: f.kinds[f.n%len(f.kinds)], Body: binary.LittleEndian.AppendUint32(nil, uint32(f.n))}
	f.n++
	return m, true, nil
}

func (f *flood) Release() {}

// TestTapFlood: whichever end of a tap looks for its messages, few of the other's are
// kept of a rank that sends without end. The control's all come, in their order.
func TestTapFlood(t *testing.T) {
	const looks = 100
	next := func(m ipc.Message) int { return int(binary.LittleEndian.Uint32(m.Body)) }

	x := &tap{Conn: &flood{kinds: []uint32{1}}} // of the comm
	const most = tapKept / (4 + tapCost)
	for range looks {
		if m, ok := x.take(false); ok {
			t.Fatalf("the control got %v", m)
		}
		x.sift()
	}
	if len(x.kept) != most {
		t.Errorf("%d messages are kept for the comm, expected %d", len(x.kept), most)
	}
	for want := range most {
		m, ok, err := x.TryRecv()
		if !ok || err != nil || next(m) != want {
			t.Fatalf("message %d: %v, %v, %v", want, m, ok, err)
		}
		x.Release()
	}
	if m, ok, err := x.TryRecv(); !ok || err != nil || next(m) != 2*looks*tapBurst {
		t.Errorf("after those that were kept: %v, %v, %v", m, ok, err)
	}
	x.Release()
	if x.sift(); len(x.kept) != tapBurst {
		t.Errorf("%d messages are kept where there is room again, expected %d", len(x.kept), tapBurst)
	}

	x = &tap{Conn: &flood{kinds: []uint32{kindAnswer}}} // of the control
	for range looks {
		if m, ok, err := x.TryRecv(); ok || err != nil {
			t.Fatalf("the comm got %v, %v", m, err)
		}
		x.sift()
	}
	if len(x.news) != tapNews {
		t.Errorf("%d messages are kept for the control, expected %d", len(x.news), tapNews)
	}
	for want := range 2 * tapNews {
		if m, ok := x.take(false); !ok || next(m) != want {
			t.Fatalf("message %d: %v, %v", want, m, ok)
		}
	}
}
