package dispatcher_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// trimmed is a conn that counts how often its queue is to be given back.
type trimmed struct {
	ipc.Conn
	looks *atomic.Int64
}

func (c trimmed) Trim() { c.looks.Add(1) }

// trimmable is a listener of such conns.
type trimmable struct {
	ipc.Listener
	looks *atomic.Int64
}

func (l trimmable) TryAccept() (ipc.Conn, bool) {
	c, ok := l.Listener.TryAccept()
	if !ok {
		return nil, false
	}
	return trimmed{c, l.looks}, true
}

// TestTrim: after peers had something to do, the queues of all are looked at twice, a few
// in a round, and messages go on meanwhile.
func TestTrim(t *testing.T) {
	const clients = 40
	f := prepare(t, dispatcher.Options{KeepUnused: 1})
	var looks atomic.Int64
	f.listener = trimmable{f.listener, &looks}
	f.serve()
	w := f.dial(ipc.RoleWorker, "w")
	var last *peer
	for range clients {
		last = f.dial(ipc.RoleClient, "c")
		f.open(last, w, "c")
	}
	for round := range 3 {
		before := looks.Load()
		last.send(wire.KindRun, message(0, 9, 9))
		w.recv(wire.KindRun)
		for ; looks.Load() < before+2*(clients+1); runtime.Gosched() {
			if f.ctx.Err() != nil {
				t.Fatalf("round %d: %d looks at queues, expected %d", round, looks.Load()-before, 2*(clients+1))
			}
		}
	}
}

// TestTrimAlone: a look at no peer, as all have left, is not the last one.
func TestTrimAlone(t *testing.T) {
	f := prepare(t, dispatcher.Options{KeepUnused: 1})
	var looks atomic.Int64
	f.listener = trimmable{f.listener, &looks}
	f.serve()
	wait := func(what string, ready func() bool) {
		t.Helper()
		for ; !ready(); runtime.Gosched() {
			if f.ctx.Err() != nil {
				t.Fatalf("no %s", what)
			}
		}
	}
	for range 100 {
		before := looks.Load()
		c := f.dial(ipc.RoleClient, "c")
		wait("look", func() bool { return looks.Load() > before })
		c.Close()
		wait("end", func() bool { return f.d.Stats().Clients == 0 })
	}
}
