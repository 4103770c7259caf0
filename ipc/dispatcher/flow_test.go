package dispatcher_test

import (
	"bytes"
	"errors"
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

// flood has c send messages of those kinds (sessions with so many bytes of config), in turns and without reading, until the dispatcher takes no more of them; m asks the
// dispatcher meanwhile, which answers all the same. It returns how many were sent.
func (f *fixture) flood(c, m *peer, config int, kinds ...uint32) (sent int) {
	f.Helper()
	bodies := map[uint32][]byte{
		wire.KindOpenSession: wire.AppendOpenSession(nil, &wire.OpenSession{Config: make([]byte, config), Name: "flood"}),
		wire.KindBye:         wire.AppendBye(nil, &wire.Bye{}),
	}
	const most = 100_000 // or nothing holds it back
	for full := 0; full < 3; {
		kind := kinds[sent%len(kinds)]
		buf, err := c.TryReserve(kind, len(bodies[kind]))
		switch {
		case errors.Is(err, ipc.ErrFull):
			full++
			for range 100 { // turns, if it were for that
				m.send(wire.KindStatus, wire.AppendStatus(nil, &wire.Status{}))
				m.recv(wire.KindStatusReply)
			}
			continue
		case err != nil:
			f.Fatal(err)
		}
		copy(buf, bodies[kind])
		if err := c.Commit(); err != nil {
			f.Fatal(err)
		}
		full = 0
		if sent++; sent == most {
			f.Fatalf("%d messages were taken", most)
		}
	}
	return sent
}

// TestOpensWait: a client that opens and closes sessions without end while its worker reads nothing is held back, and the
// worker hears of all of them once it reads.
func TestOpensWait(t *testing.T) {
	const limit = 200_000
	f := start(t, dispatcher.Options{MaxQueued: limit})
	w, c, m := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	sent := f.flood(c, m, 1<<15, wire.KindOpenSession, wire.KindBye)
	m.send(wire.KindStatus, wire.AppendStatus(nil, &wire.Status{}))
	body, _ := m.recv(wire.KindStatusReply)
	var reply wire.StatusReply
	if err := wire.ParseStatusReply(body, &reply); err != nil {
		t.Fatal(err)
	}
	for _, counter := range reply.Counters {
		if n := counter.Value; counter.Name == "worker.w.queued" && (n <= limit || n > limit+1<<16) {
			t.Errorf("%d bytes wait for the worker, expected little more than %d", n, limit)
		}
	}
	for i := range sent {
		kind := wire.KindOpenSession
		if i%2 == 1 {
			kind = wire.KindCloseSession
		}
		w.recv(kind)
	}
	if sent%2 == 1 { // the last opened one
		c.send(wire.KindBye, wire.AppendBye(nil, &wire.Bye{}))
		w.recv(wire.KindCloseSession)
	}
	f.open(c, w, "after all")
}

// TestRefusedWait: a client that asks for sessions it can't have, and does not read that it can't, is held back, and goes on when it
// has read.
func TestRefusedWait(t *testing.T) {
	f := start(t, dispatcher.Options{MaxQueued: 10_000, MaxSessions: 1})
	w, a, c, m := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	only := f.open(a, w, "the only one")
	sent := f.flood(c, m, 1<<10, wire.KindOpenSession, wire.KindBye)
	for range (sent + 1) / 2 {
		c.fail(wire.CodeQuota, "at most 1")
	}
	c.Close()
	a.send(wire.KindBye, wire.AppendBye(nil, &wire.Bye{}))
	w.closed(only, wire.CodeOK)
	f.open(f.dial(ipc.RoleClient, "b"), w, "the next")
}
