package collective

import (
	"bytes"
	"context"
	"os"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective/internal/tagged"
	"github.com/ringside-go/ringside/ipc"
)

// kindTagged is the first kind of tagged messages, which take tagged.Kinds of them. Comms
// use lower ones.
const kindTagged uint32 = 0xe00000

// tapBurst is how many messages are received at a time, so that a rank that sends as fast
// as this one receives does not keep it from all other work.
const tapBurst = 256

const (
	// tapNews is how many messages are kept at most for the control, which takes them
	// soon. While there are so many, the others stay in the queue.
	tapNews = 256

	// tapKept is how many bytes of messages are kept at most for a comm that makes no
	// call; tapCost is added for each message. These messages may be lost: their sender
	// also drops those for which the queue has no room.
	tapKept = 1 << 20
	tapCost = 128
)

// Kinds of the group's own messages.
const (
	kindControl uint32 = 0xf00000 + iota
	kindAbort
	kindBye
	kindAsk
	kindAnswer
	kindValue
	kindView
)

// tap shares one conn between a comm, which sees an ordinary conn with its own messages,
// the group's control, and tagged messages. Comm and control receive on different
// goroutines: each keeps a copy of a message that it finds for the other. Tagged messages
// are given to tagged wherever they are found.
type tap struct {
	ipc.Conn
	tagged func(kind tagged.Kind, body []byte) // must not use the tap to receive

	send sync.Mutex // held from Reserve to Commit or Abort

	recv  sync.Mutex
	held  bool          // the comm has a message that lies in the queue
	kept  []ipc.Message // for the comm, found by the control
	bytes int           // of kept, as tapKept counts them
	news  []ipc.Message // for the control, found by the comm
}

func (t *tap) Reserve(ctx context.Context, kind uint32, n int) ([]byte, error) {
	t.send.Lock()
	return t.reserved(t.Conn.Reserve(ctx, kind, n))
}

func (t *tap) TryReserve(kind uint32, n int) ([]byte, error) {
	t.send.Lock()
	return t.reserved(t.Conn.TryReserve(kind, n))
}

// reserved returns what a reservation returned, after which send stays held.
func (t *tap) reserved(b []byte, err error) ([]byte, error) {
	if err != nil {
		t.send.Unlock()
	}
	return b, err
}

func (t *tap) Commit(files ...*os.File) error {
	defer t.send.Unlock()
	return t.Conn.Commit(files...)
}

func (t *tap) Abort() {
	t.Conn.Abort()
	t.send.Unlock()
}

func (t *tap) TryRecv() (ipc.Message, bool, error) {
	t.recv.Lock()
	defer t.recv.Unlock()
	for n := 0; len(t.kept) == 0; n++ {
		if n == tapBurst || len(t.news) >= tapNews {
			return ipc.Message{}, false, nil
		}
		m, ok, err := t.Conn.TryRecv()
		if !ok || err != nil || m.Kind < kindTagged {
			t.held = ok && err == nil
			return m, ok, err
		}
		t.keep(m)
	}
	m := t.kept[0]
	t.kept = t.kept[1:]
	t.bytes -= len(m.Body) + tapCost
	return m, true, nil
}

// keep puts a copy of m aside for the one that it is for, or delivers it.
func (t *tap) keep(m ipc.Message) {
	switch {
	case m.Kind < kindTagged && t.bytes+len(m.Body)+tapCost > tapKept:
		ipc.CloseFiles(m.Files)
	case m.Kind < kindTagged:
		t.bytes += len(m.Body) + tapCost
		m.Body = bytes.Clone(m.Body)
		t.kept = append(t.kept, m)
	case m.Kind >= kindControl:
		m.Body = bytes.Clone(m.Body)
		t.news = append(t.news, m)
	default:
		ipc.CloseFiles(m.Files)
		t.tagged(tagged.Kind(m.Kind-kindTagged), m.Body)
	}
	t.Conn.Release()
}

// sift takes in messages that have come, and reports whether one was for the comm. It
// does nothing while another receives.
func (t *tap) sift() (forComm bool) {
	if !t.recv.TryLock() {
		return false
	}
	defer t.recv.Unlock()
	for range tapBurst {
		if t.held || len(t.news) >= tapNews {
			break
		}
		m, ok, err := t.Conn.TryRecv()
		if !ok || err != nil {
			break
		}
		forComm = forComm || m.Kind < kindTagged
		t.keep(m)
	}
	return forComm
}

// Post sends a tagged message. It never waits.
func (t *tap) Post(kind tagged.Kind, head, body []byte) error {
	if !t.send.TryLock() {
		return ipc.ErrFull
	}
	defer t.send.Unlock()
	b, err := t.Conn.TryReserve(kindTagged+uint32(kind), len(head)+len(body))
	if err != nil {
		return err
	}
	copy(b[copy(b, head):], body)
	return t.Conn.Commit()
}

// Recv polls: only the making of a comm waits for a message.
func (t *tap) Recv(ctx context.Context) (ipc.Message, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m, ok, err := t.TryRecv()
		if ok || err != nil {
			return m, err
		}
		timer.Reset(100 * time.Microsecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ipc.Message{}, ipc.ContextError(ctx)
		}
	}
}

func (t *tap) Release() {
	t.recv.Lock()
	defer t.recv.Unlock()
	if t.held {
		t.held = false
		t.Conn.Release()
	}
}

// Close does nothing: the control says goodbye on the conn and then closes it by shut.
func (t *tap) Close() error { return nil }

// take returns the next message of the control, false when none was found. It looks for
// one among all that have come if the conn is at its end, so that no more come.
func (t *tap) take(ended bool) (ipc.Message, bool) {
	t.recv.Lock()
	defer t.recv.Unlock()
	for n := 0; len(t.news) == 0; n++ {
		if t.held || n >= tapBurst && !ended {
			return ipc.Message{}, false
		}
		m, ok, err := t.Conn.TryRecv()
		if !ok || err != nil {
			return ipc.Message{}, false
		}
		t.keep(m)
	}
	m := t.news[0]
	t.news = t.news[1:]
	return m, true
}

// post sends a message of the control, and reports whether it did. It never waits: it
// does nothing if there is no room or the comm is in the middle of sending.
func (t *tap) post(kind uint32, body []byte) bool {
	if !t.send.TryLock() {
		return false
	}
	defer t.send.Unlock()
	b, err := t.Conn.TryReserve(kind, len(body))
	if err != nil {
		return false
	}
	copy(b, body)
	return t.Conn.Commit() == nil
}

// shut closes the conn and what was kept.
func (t *tap) shut() error {
	t.recv.Lock()
	for _, m := range append(t.kept, t.news...) {
		ipc.CloseFiles(m.Files)
	}
	t.kept, t.news, t.bytes = nil, nil, 0
	t.recv.Unlock()
	return t.Conn.Close()
}
