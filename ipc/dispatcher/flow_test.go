package dispatcher_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/dispatcher"
	"github.com/ringside-go/ringside/ipc/wire"
)

// TestPaused: messages of a session whose worker has enough of it wait in their client's queue; those of
// another go on, and the first go on once the worker says so, in order.
func TestPaused(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w := f.dial(ipc.RoleWorker, "w")
	a, b, m := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b"), f.dial(ipc.RoleControl, "m")
	sa, sb := f.open(a, w, "a"), f.open(b, w, "b")
	w.send(wire.KindFlow, wire.AppendFlow(nil, &wire.Flow{Session: 12345, Stop: true})) // of one that has ended
	w.send(wire.KindFlow, wire.AppendFlow(nil, &wire.Flow{Session: sa, Stop: true}))
	for f.d.Stats().Paused == 0 && f.ctx.Err() == nil { // until the dispatcher has read it
		m.send(wire.KindStatus, wire.AppendStatus(nil, &wire.Status{}))
		m.recv(wire.KindStatusReply)
	}
	const n = 100
	for i := range n {
		a.send(wire.KindRun, message(0, 10, byte(i)))
	}
	for i := range n {
		b.send(wire.KindRun, message(0, 10, byte(i)))
		if body, _ := w.recv(wire.KindRun); !bytes.Equal(body, message(sb, 10, byte(i))) {
			t.Fatalf("message %d is %x", i, body)
		}
	}
	w.send(wire.KindFlow, wire.AppendFlow(nil, &wire.Flow{Session: sa}))
	for i := range n {
		if body, _ := w.recv(wire.KindRun); !bytes.Equal(body, message(sa, 10, byte(i))) {
			t.Fatalf("message %d of the one that waited is %x", i, body)
		}
	}
	w.send(wire.KindFlow, []byte("too short"))
	w.fail(wire.CodeProtocol, "Flow")
	w.gone()
}

// TestPausedClientDies: the end of a client whose messages are held back is noticed.
func TestPausedClientDies(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c, m := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	s := f.open(c, w, "c")
	w.send(wire.KindFlow, wire.AppendFlow(nil, &wire.Flow{Session: s, Stop: true}))
	for f.d.Stats().Paused == 0 && f.ctx.Err() == nil {
		m.send(wire.KindStatus, wire.AppendStatus(nil, &wire.Status{}))
		m.recv(wire.KindStatusReply)
	}
	c.send(wire.KindRun, message(0, 10, 1))
	c.Close()
	w.closed(s, wire.CodeOK)
}
