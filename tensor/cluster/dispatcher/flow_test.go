package dispatcher_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestBlockedWorker: a worker that does not read stops its clients alone, and then gets
// everything in order.
func TestBlockedWorker(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
	a, b := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")
	sa, sb := f.open(a, w0, "a"), f.open(b, w1, "b")
	const size = 100 << 10
	sent := 0
	// once all queues on the way are full, and then nothing moves
	for full := 0; full < 2; {
		buf, err := a.TryReserve(wire.KindRun, wire.SessionBytes+size)
		if errors.Is(err, ipc.ErrFull) {
			// A round of the other client: the dispatcher had its turn at this one.
			b.send(wire.KindRun, message(0, 10, 1))
			if body, _ := w1.recv(wire.KindRun); sessionOf(t, body) != sb {
				t.Fatal("wrong session")
			}
			full++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		full = 0
		copy(buf, message(0, size, byte(sent)))
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if n := f.d.Stats(); n.Blocked == 0 || sent < 10 {
		t.Errorf("%d were sent; %+v", sent, n)
	}
	for i := range sent {
		body, _ := w0.recv(wire.KindRun)
		if !bytes.Equal(body, message(sa, size, byte(i))) {
			t.Fatalf("message %d of %d", i, sent)
		}
	}
}

// TestBlockedClientDies: the end of a client whose messages wait is noticed.
func TestBlockedClientDies(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c")
	s := f.open(c, w, "c")
	sent := 0
	for {
		buf, err := c.TryReserve(wire.KindRun, 200<<10)
		if errors.Is(err, ipc.ErrFull) {
			if f.d.Stats().Blocked > 0 {
				break
			}
			continue
		}
		copy(buf, message(0, len(buf)-8, 0))
		if err := c.Commit(); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	c.Close()
	for f.d.Stats().Clients > 0 && f.ctx.Err() == nil {
	}
	for {
		m, err := w.Recv(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		kind := m.Kind
		w.Release()
		if kind == wire.KindCloseSession {
			break
		}
		sent--
	}
	if sent < 0 {
		t.Error("more arrived than was sent")
	}
	_ = s
}

// TestSlowClient: a client that does not read loses its session; the worker and its other
// client go on.
func TestSlowClient(t *testing.T) {
	f := start(t, dispatcher.Options{MaxQueued: 1 << 20})
	w := f.dial(ipc.RoleWorker, "w")
	slow, c := f.dial(ipc.RoleClient, "slow"), f.dial(ipc.RoleClient, "c")
	s, other := f.open(slow, w, "slow"), f.open(c, w, "c")
	const size = 100 << 10
	for range 40 { // 4 MB
		w.send(wire.KindDone, message(s, size, 1))
	}
	w.closed(s, wire.CodeQuota)
	w.send(wire.KindDone, message(other, 5, 2))
	if body, _ := c.recv(wire.KindDone); !bytes.Equal(body, message(0, 5, 2)) {
		t.Error("the other client got something else")
	}
	for n := 0; ; n++ {
		m, err := slow.Recv(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		kind := m.Kind
		slow.Release()
		if kind == wire.KindFail {
			if n == 0 || n > 20 {
				t.Errorf("%d answers were kept", n)
			}
			break
		}
	}
	// Its later messages are dropped, and it may begin again.
	slow.send(wire.KindRun, message(0, 10, 1))
	slow.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
	w.closed(s, wire.CodeOK)
	f.open(slow, w, "again")
}

// TestKept: what a client does not read at once it gets later, in order, with what is
// said afterwards.
func TestKept(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c, other := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleClient, "other")
	s, o := f.open(c, w, "c"), f.open(other, w, "other")
	const n, size = 30, 100 << 10
	for i := range n {
		w.send(wire.KindDone, message(s, size, byte(i)))
	}
	w.send(wire.KindDone, message(o, 1, 1))
	other.recv(wire.KindDone) // all of them were dealt with
	if f.d.Stats().Queued == 0 {
		t.Error("none was kept")
	}
	for i := range n {
		// Short ones, for which there is room before there is for those that wait.
		w.send(wire.KindDone, message(s, 10, byte(n+i)))
		w.send(wire.KindDone, message(o, 1, 1))
		other.recv(wire.KindDone)
		if body, _ := c.recv(wire.KindDone); !bytes.Equal(body, message(0, size, byte(i))) {
			t.Fatalf("answer %d is of %d bytes, the first %d", i, len(body), body[8])
		}
	}
	for i := range n {
		if body, _ := c.recv(wire.KindDone); !bytes.Equal(body, message(0, 10, byte(n+i))) {
			t.Fatalf("answer %d", n+i)
		}
	}
}

// TestFair: while several clients have messages, each gets about as many bytes forwarded.
func TestFair(t *testing.T) {
	f := prepare(t, dispatcher.Options{})
	w := f.dial(ipc.RoleWorker, "w")
	sizes := []int{8 << 10, 1 << 10, 40 << 10}
	const bytes = 400 << 10
	for _, size := range sizes {
		c := f.dial(ipc.RoleClient, "c")
		c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "c"}))
		for range bytes / size {
			c.send(wire.KindRun, message(0, size-wire.SessionBytes, 0))
		}
	}
	f.serve()
	got := map[uint64]int{}
	for most := 0; most < bytes/2; {
		m, err := w.Recv(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == wire.KindRun {
			s := sessionOf(t, m.Body)
			got[s] += len(m.Body) + 1<<10 // as a turn counts it
			most = max(most, got[s])
			for other := uint64(1); other <= 3; other++ {
				if ahead := got[s] - got[other]; ahead > 3*(64<<10) {
					t.Fatalf("session %d had %d bytes more than session %d", s, ahead, other)
				}
			}
		}
		w.Release()
	}
}

// TestPaused: messages of a session whose worker has enough of it wait in their client's
// queue; those of another go on, and the first go on once the worker says so, in order.
func TestPaused(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w := f.dial(ipc.RoleWorker, "w")
	a, b, m := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b"), f.dial(ipc.RoleControl, "m")
	sa, sb := f.open(a, w, "a"), f.open(b, w, "b")
	// of one that has ended
	w.send(wire.KindFlow, wire.Append(nil, &wire.Flow{Session: 12345, Stop: true}))
	w.send(wire.KindFlow, wire.Append(nil, &wire.Flow{Session: sa, Stop: true}))
	// until the dispatcher has read it
	for f.d.Stats().Paused == 0 && f.ctx.Err() == nil {
		m.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
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
	w.send(wire.KindFlow, wire.Append(nil, &wire.Flow{Session: sa}))
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
	w.send(wire.KindFlow, wire.Append(nil, &wire.Flow{Session: s, Stop: true}))
	for f.d.Stats().Paused == 0 && f.ctx.Err() == nil {
		m.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
		m.recv(wire.KindStatusReply)
	}
	c.send(wire.KindRun, message(0, 10, 1))
	c.Close()
	w.closed(s, wire.CodeOK)
}

// flood has c send messages of those kinds (sessions with so many bytes of config), in
// turns and without reading, until the dispatcher takes no more of them; m asks the
// dispatcher meanwhile, which answers all the same. It returns how many were sent.
func (f *fixture) flood(c, m *peer, config int, kinds ...uint32) (sent int) {
	f.Helper()
	bodies := map[uint32][]byte{
		wire.KindOpenSession: wire.Append(nil, &wire.OpenSession{Config: make([]byte, config), Name: "flood"}),
		wire.KindBye:         wire.Append(nil, &wire.Bye{}),
	}
	const most = 100_000 // or nothing holds it back
	for full := 0; full < 3; {
		kind := kinds[sent%len(kinds)]
		buf, err := c.TryReserve(kind, len(bodies[kind]))
		switch {
		case errors.Is(err, ipc.ErrFull):
			full++
			for range 100 { // turns, if it were for that
				m.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
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

// TestOpensWait: a client that opens and closes sessions without end while its worker
// reads nothing is held back, and the worker hears of all of them once it reads.
func TestOpensWait(t *testing.T) {
	const limit = 200_000
	f := start(t, dispatcher.Options{MaxQueued: limit})
	w, c, m := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	sent := f.flood(c, m, 1<<15, wire.KindOpenSession, wire.KindBye)
	m.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
	body, _ := m.recv(wire.KindStatusReply)
	var reply wire.StatusReply
	if err := wire.Parse(body, &reply); err != nil {
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
		c.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
		w.recv(wire.KindCloseSession)
	}
	f.open(c, w, "after all")
}

// TestRefusedWait: a client that asks for sessions it can't have, and does not read that
// it can't, is held back, and goes on when it has read.
func TestRefusedWait(t *testing.T) {
	f := start(t, dispatcher.Options{MaxQueued: 10_000, MaxSessions: 1})
	w, a, c, m := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	only := f.open(a, w, "the only one")
	sent := f.flood(c, m, 1<<10, wire.KindOpenSession, wire.KindBye)
	for range (sent + 1) / 2 {
		c.fail(wire.CodeQuota, "at most 1")
	}
	c.Close()
	a.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
	w.closed(only, wire.CodeOK)
	f.open(f.dial(ipc.RoleClient, "b"), w, "the next")
}
