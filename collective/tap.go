package collective

import (
	"bytes"
	"context"
	"os"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// Kinds of the group's own messages. Comms use lower ones.
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
// and the group's control. The two receive on different goroutines: each keeps a copy of
// a message that it finds for the other.
type tap struct {
	ipc.Conn

	send sync.Mutex // held from Reserve to Commit or Abort

	recv sync.Mutex
	held bool          // the comm has a message that lies in the queue
	kept []ipc.Message // for the comm, found by the control
	news []ipc.Message // for the control, found by the comm
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
	for len(t.kept) == 0 {
		m, ok, err := t.Conn.TryRecv()
		if !ok || err != nil || m.Kind < kindControl {
			t.held = ok && err == nil
			return m, ok, err
		}
		t.keep(m)
	}
	m := t.kept[0]
	t.kept = t.kept[1:]
	return m, true, nil
}

// keep puts a copy of m aside for the one that it is for.
func (t *tap) keep(m ipc.Message) {
	m.Body = bytes.Clone(m.Body)
	if m.Kind < kindControl {
		t.kept = append(t.kept, m)
	} else {
		t.news = append(t.news, m)
	}
	t.Conn.Release()
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

// take returns the next message of the control, false when there is none now.
func (t *tap) take() (ipc.Message, bool) {
	t.recv.Lock()
	defer t.recv.Unlock()
	for len(t.news) == 0 {
		if t.held {
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
	t.kept, t.news = nil, nil
	t.recv.Unlock()
	return t.Conn.Close()
}
