package dispatcher_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestForward: messages go both ways with the session's number and otherwise as they are,
// in order, and no worker can answer for another session.
func TestForward(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
	a, b := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")
	sa := f.open(a, w0, "a")
	sb := f.open(b, w1, "b")
	if sa == sb {
		t.Fatalf("both sessions are %d", sa)
	}
	for i, kind := range []uint32{wire.KindBody, wire.KindRun, wire.KindSegment} {
		a.send(kind, message(sb, i*1000, byte(i))) // with the other's number
		body, _ := w0.recv(kind)
		if !bytes.Equal(body, message(sa, i*1000, byte(i))) {
			t.Errorf("%s arrived changed, for session %d", wire.KindName(kind), sessionOf(t, body))
		}
	}
	for i, kind := range []uint32{wire.KindDone, wire.KindSegment, wire.KindSaved} {
		w1.send(kind, message(sa, 10, 66)) // the other's session: it is dropped
		w1.send(kind, message(12345, 10, 66))
		w1.send(kind, message(sb, i*1000, byte(i)))
		body, _ := b.recv(kind)
		if !bytes.Equal(body, message(0, i*1000, byte(i))) {
			t.Errorf("%s arrived changed", wire.KindName(kind))
		}
	}
	// Of what w1 said in the session of a, nothing came.
	w0.send(wire.KindDone, message(sa, 7, 77))
	if body, _ := a.recv(wire.KindDone); !bytes.Equal(body, message(0, 7, 77)) {
		t.Error("a was given another session's answer")
	}
	for i := range 300 {
		a.send(wire.KindRun, message(0, 1000, byte(i)))
		b.send(wire.KindRun, message(0, 500, byte(i)))
		body, _ := w0.recv(wire.KindRun)
		if !bytes.Equal(body, message(sa, 1000, byte(i))) {
			t.Fatalf("run %d of a", i)
		}
		body, _ = w1.recv(wire.KindRun)
		if !bytes.Equal(body, message(sb, 500, byte(i))) {
			t.Fatalf("run %d of b", i)
		}
	}
	if n := f.d.Stats().Messages; n < 600 {
		t.Errorf("%d messages counted", n)
	}
}

// TestFiles: descriptors go with their message and are closed here.
func TestFiles(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c")
	s := f.open(c, w, "c")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	round := func() {
		c.send(wire.KindSegment, message(0, 40, 1), null)
		_, files := w.recv(wire.KindSegment)
		w.send(wire.KindSegment, message(s, 40, 1), null)
		w.send(wire.KindSegment, message(s+1, 40, 1), null) // of no session
		_, more := c.recv(wire.KindSegment)
		if len(files) != 1 || len(more) != 1 {
			t.Fatalf("%d and %d files", len(files), len(more))
		}
		files[0].Close()
		more[0].Close()
	}
	round()
	before := descriptors(t)
	for range 50 {
		round()
	}
	w.send(wire.KindDone, message(s, 1, 1))
	c.recv(wire.KindDone) // what came before was dealt with
	// They are closed on other goroutines, each of which may have one in hand.
	for deadline := time.Now().Add(10 * time.Second); descriptors(t) > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d before", descriptors(t), before)
		}
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// TestPlacement: sessions go where there are fewest, then where least was sent, then by
// name.
func TestPlacement(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w := []*peer{f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1"), f.dial(ipc.RoleWorker, "w2")}
	c := make([]*peer, 6)
	s := make([]uint64, 6)
	for i := range c {
		c[i] = f.dial(ipc.RoleClient, "c")
		s[i] = f.open(c[i], w[i%3], "c") // fails if it is placed elsewhere
	}
	for i := range 3 {
		c[i].send(wire.KindRun, message(0, 1000*(3-i), 0))
		w[i].recv(wire.KindRun)
	}
	for i := range c {
		c[i].send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
		w[i%3].closed(s[i], wire.CodeOK)
	}
	for i, want := range []int{2, 1, 0} {
		f.open(c[i], w[want], "again") // on the same conn
	}
}

// TestWaitForWorker: a session waits for a worker, but not for ever.
func TestWaitForWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, dispatcher.Options{WorkerWait: 2 * time.Second})
		a, b := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")
		begin := time.Now()
		a.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "a"}))
		a.send(wire.KindRun, message(0, 10, 1)) // it is not read yet
		a.fail(wire.CodeNoWorker, "ringside worker")
		if d := time.Since(begin); d != 2*time.Second {
			t.Errorf("it took %v", d)
		}
		b.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "b"}))
		b.send(wire.KindRun, message(0, 10, 2))
		<-time.After(1999 * time.Millisecond)
		if n := f.d.Stats(); n.Waiting != 1 || n.Sessions != 1 {
			t.Errorf("%+v", n)
		}
		w := f.dial(ipc.RoleWorker, "w")
		asked, _ := w.recv(wire.KindOpenSession)
		if body, _ := w.recv(wire.KindRun); body[8] != 2 {
			t.Error("another Run")
		}
		id, _ := wire.Session(asked)
		w.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Session: id, PID: 1, Worker: "w"}))
		<-time.After(time.Minute)
		if n := f.d.Stats(); n.Waiting != 0 || n.Sessions != 1 || n.Failed != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestWaitingClientLeaves: it is not placed afterwards.
func TestWaitingClientLeaves(t *testing.T) {
	f := start(t, dispatcher.Options{WorkerWait: time.Hour})
	a, b := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")
	a.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "a"}))
	b.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "b"}))
	for f.d.Stats().Waiting != 2 && f.ctx.Err() == nil {
	}
	a.Close()
	for f.d.Stats().Waiting != 1 && f.ctx.Err() == nil {
	}
	w := f.dial(ipc.RoleWorker, "w")
	body, _ := w.recv(wire.KindOpenSession)
	var m wire.OpenSession
	if err := wire.Parse(body, &m); err != nil || m.Name != "b" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestDeaths: each side learns of the other's end, after what was sent before it.
func TestDeaths(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
	a, b := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")
	sa, sb := f.open(a, w0, "a"), f.open(b, w1, "b")
	w0.send(wire.KindDone, message(sa, 3, 3))
	w0.Close()
	a.recv(wire.KindDone)
	a.fail(wire.CodeWorkerGone, `worker "w0" (pid `)
	a.send(wire.KindRun, message(0, 3, 3)) // dropped
	b.send(wire.KindRun, message(0, 3, 3))
	w1.recv(wire.KindRun)
	b.Close()
	w1.closed(sb, wire.CodeOK)
	w1.send(wire.KindDone, message(sb, 3, 3)) // it did not know yet
	a.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
	f.open(a, w1, "a again")
	f.dial(ipc.RoleWorker, "w0") // the name is free again
	for f.d.Stats().Workers != 2 && f.ctx.Err() == nil {
	}
	if n := f.d.Stats(); n.Workers != 2 || n.Clients != 1 || n.Sessions != 1 || n.Failed != 1 || n.Opened != 3 {
		t.Errorf("%+v", n)
	}
}

// TestCutWorker has a worker connect again while its old connection still stands. That
// one ends with its sessions, and the new one has the next session. A worker that says
// another note, or none, is another one: it is refused.
func TestCutWorker(t *testing.T) {
	f := start(t, dispatcher.Options{})
	hello := ipc.Peer{Role: ipc.RoleWorker, Name: "w", Note: "this one"}
	old := f.dialAs(hello)
	a := f.dial(ipc.RoleClient, "a")
	f.open(a, old, "a")
	for _, note := range []string{"another", ""} {
		p := f.dialAs(ipc.Peer{Role: ipc.RoleWorker, Name: "w", Note: note})
		p.fail(wire.CodeNameTaken, `"w" is taken`)
	}
	c, err := f.net.Dial(f.ctx, f.addr, &ipc.Options{Hello: hello})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	again := &peer{f, c}
	again.register(device.Info{Name: "cpu", Kind: device.CPU}, 0)
	old.gone()
	a.fail(wire.CodeWorkerGone, "its connection was cut, and it has another one")
	f.open(f.dial(ipc.RoleClient, "b"), again, "b")
	if n := f.d.Stats(); n.Workers != 1 || n.Sessions != 1 || n.Failed != 1 {
		t.Errorf("%+v", n)
	}
}

// TestRefused tests that a peer that is not welcome, or breaks the protocol, gets the
// reason and its connection is closed.
func TestRefused(t *testing.T) {
	open := wire.Append(nil, &wire.OpenSession{Name: "x"})
	for what, c := range map[string]struct {
		role ipc.Role
		name string
		say  func(p *peer)
		code wire.Code
		text string
	}{
		"role":               {ipc.RoleRank, "r", nil, wire.CodeProtocol, "rank"},
		"worker's name":      {ipc.RoleWorker, "", nil, wire.CodeProtocol, "name"},
		"name taken":         {ipc.RoleWorker, "w", nil, wire.CodeNameTaken, `"w" is taken by pid`},
		"run too early":      {ipc.RoleClient, "c", func(p *peer) { p.send(wire.KindRun, message(0, 9, 9)) }, wire.CodeProtocol, "Run before OpenSession"},
		"client says Done":   {ipc.RoleClient, "c", func(p *peer) { p.send(wire.KindDone, message(0, 9, 9)) }, wire.CodeProtocol, "Done"},
		"unknown kind":       {ipc.RoleClient, "c", func(p *peer) { p.send(4711, nil) }, wire.CodeProtocol, "4711"},
		"broken OpenSession": {ipc.RoleClient, "c", func(p *peer) { p.send(wire.KindOpenSession, open[:9]) }, wire.CodeProtocol, "OpenSession"},
		"broken Status":      {ipc.RoleClient, "c", func(p *peer) { p.send(wire.KindStatus, nil) }, wire.CodeProtocol, "Status"},
		"control opens":      {ipc.RoleControl, "c", func(p *peer) { p.send(wire.KindOpenSession, open) }, wire.CodeProtocol, "control"},
		"worker runs":        {ipc.RoleWorker, "v", func(p *peer) { p.send(wire.KindRun, message(0, 9, 9)) }, wire.CodeProtocol, "Run"},
		"worker's short":     {ipc.RoleWorker, "v", func(p *peer) { p.send(wire.KindDone, []byte{1}) }, wire.CodeProtocol, "1 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, dispatcher.Options{})
			w := f.dial(ipc.RoleWorker, "w")
			for f.d.Stats().Workers == 0 && f.ctx.Err() == nil {
			}
			p := f.dial(c.role, c.name)
			if c.say != nil {
				c.say(p)
			}
			p.fail(c.code, c.text)
			p.gone()
			f.open(f.dial(ipc.RoleClient, "good"), w, "good")
		})
	}
	t.Run("two sessions", func(t *testing.T) {
		f := start(t, dispatcher.Options{})
		w, p := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c")
		s := f.open(p, w, "c")
		p.send(wire.KindOpenSession, open)
		p.fail(wire.CodeProtocol, "open")
		p.gone()
		w.closed(s, wire.CodeOK)
	})
	t.Run("short message", func(t *testing.T) {
		f := start(t, dispatcher.Options{})
		w, p := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c")
		s := f.open(p, w, "c")
		p.send(wire.KindRun, []byte{1, 2, 3})
		p.fail(wire.CodeProtocol, "3 bytes")
		w.closed(s, wire.CodeProtocol)
	})
	t.Run("descriptors", func(t *testing.T) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		for kind, most := range map[uint32]int{wire.KindRun: 0, wire.KindSegment: 1, wire.KindSave: 1} {
			f := start(t, dispatcher.Options{})
			w, p := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c")
			s := f.open(p, w, "c")
			p.send(kind, message(0, 40, 1), slices.Repeat([]*os.File{null}, most)...)
			w.recv(kind)
			p.send(kind, message(0, 40, 1), slices.Repeat([]*os.File{null}, most+1)...)
			p.fail(wire.CodeProtocol, fmt.Sprintf("with %d descriptors, expected at most %d", most+1, most))
			w.closed(s, wire.CodeProtocol)
		}
	})
	t.Run("too many without a session", func(t *testing.T) {
		f := start(t, dispatcher.Options{MaxIdle: 3, IdleWait: 1})
		w := f.dial(ipc.RoleWorker, "w")
		busy := f.dial(ipc.RoleClient, "busy")
		s := f.open(busy, w, "busy")
		failed := f.dial(ipc.RoleClient, "failed") // its session is over, so it has none
		over := f.open(failed, w, "failed")
		w.send(wire.KindFail, wire.Append(nil, &wire.Fail{Session: over, Code: wire.CodeEngine, Text: "broken"}))
		failed.fail(wire.CodeEngine, "broken")
		idle := []*peer{failed}
		for len(idle) < 6 {
			n := uint64(len(idle))
			idle = append(idle, f.dial(ipc.RoleClient, "idle"))
			for f.d.Stats().Clients+int(f.d.Stats().Refused) < int(2+n) && f.ctx.Err() == nil {
			}
		}
		for _, p := range idle[:3] {
			p.fail(wire.CodeQuota, "3 clients are connected without an open session, at most 3 can be")
			p.gone()
		}
		if n := f.d.Stats(); n.Clients != 4 || n.Refused != 3 || n.Sessions != 1 {
			t.Errorf("%+v; expected a client with a session and 3 without", n)
		}
		w.closed(over, wire.CodeOK)     // its client has gone
		f.open(idle[3], w, "after all") // the oldest of those that are left
		busy.send(wire.KindRun, message(0, 9, 9))
		if body, _ := w.recv(wire.KindRun); sessionOf(t, body) != s {
			t.Error("another session runs")
		}
	})
	t.Run("too many that were not heard", func(t *testing.T) {
		f := prepare(t, dispatcher.Options{MaxIdle: 1, IdleWait: 1, WorkerWait: time.Minute})
		var all []*peer
		for range 4 { // all come, and say what they want, before the dispatcher looks
			p := f.dial(ipc.RoleClient, "c")
			p.send(wire.KindOpenSession, open)
			all = append(all, p)
		}
		f.serve()
		w := f.dial(ipc.RoleWorker, "w")
		for _, p := range all {
			body, _ := w.recv(wire.KindOpenSession)
			w.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Session: sessionOf(t, body), PID: 1, Worker: "w"}))
			p.recv(wire.KindSessionOpened)
		}
	})
	t.Run("too many at once", func(t *testing.T) {
		const most = 3
		f := start(t, dispatcher.Options{MaxIdle: most, IdleWait: time.Hour})
		w := f.dial(ipc.RoleWorker, "w")
		var all []*peer
		for range most + 2 {
			all = append(all, f.dial(ipc.RoleClient, "c"))
		}
		for f.d.Stats().Clients < most && f.ctx.Err() == nil {
		}
		for i, p := range all { // each that has a session makes room for another
			if n := f.d.Stats(); n.Clients > most+i || n.Refused > 0 {
				t.Errorf("%d sessions: %+v, expected at most %d clients without one", i, n, most)
			}
			f.open(p, w, "c")
		}
	})
	t.Run("too many that ask", func(t *testing.T) {
		f := start(t, dispatcher.Options{MaxIdle: 2})
		w := f.dial(ipc.RoleWorker, "w")
		ask := wire.Append(nil, &wire.Status{Session: 1})
		var asking []*peer
		for range 2 {
			p := f.dial(ipc.RoleControl, "m")
			p.send(wire.KindStatus, ask)
			p.recv(wire.KindStatusReply)
			asking = append(asking, p)
		}
		p := f.dial(ipc.RoleControl, "m")
		p.fail(wire.CodeQuota, "2 are connected that ask for Status and Watch, at most 2 can be")
		p.gone()
		asking[0].send(wire.KindStatus, ask) // none of the others has lost its place
		asking[0].recv(wire.KindStatusReply)
		f.open(f.dial(ipc.RoleClient, "c"), w, "c")
		asking[1].Close()
		for more := true; more && f.ctx.Err() == nil; { // until its end was noticed
			p := f.dial(ipc.RoleControl, "m")
			// it may be refused before it asks
			if err := ipc.Send(f.ctx, p, ipc.Message{Kind: wire.KindStatus, Body: ask}); err != nil && !errors.Is(err, ipc.ErrPeerGone) {
				t.Fatal(err)
			}
			m, err := p.Recv(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			more = m.Kind != wire.KindStatusReply
			p.Release()
		}
	})
	t.Run("too many sessions", func(t *testing.T) {
		f := start(t, dispatcher.Options{MaxSessions: 1})
		w := f.dial(ipc.RoleWorker, "w")
		first := f.dial(ipc.RoleClient, "first")
		s := f.open(first, w, "first")
		p := f.dial(ipc.RoleClient, "second")
		p.send(wire.KindOpenSession, open)
		p.fail(wire.CodeQuota, "at most 1")
		first.Close()
		w.closed(s, wire.CodeOK)
		p.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
		f.open(p, w, "second")
	})
}

// TestWorkerFails checks that a session that its worker gave up is over here as well. The
// worker is told when the client has closed the session: it keeps the leases until then.
func TestWorkerFails(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c")
	s := f.open(c, w, "c")
	w.send(wire.KindFail, wire.Append(nil, &wire.Fail{Session: s, Code: wire.CodeProtocol, Text: "nonsense"}))
	c.fail(wire.CodeProtocol, "nonsense")
	c.send(wire.KindRun, message(0, 1, 1))
	c.send(wire.KindBye, wire.Append(nil, &wire.Bye{}))
	w.closed(s, wire.CodeOK)
	if again := f.open(c, w, "c"); again == s {
		t.Error("a number was used twice")
	}
}

// TestShutDown tests that all peers are told why.
func TestShutDown(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c, m := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	f.open(c, w, "c")
	m.send(wire.KindStatus, wire.Append(nil, &wire.Status{}))
	m.recv(wire.KindStatusReply)
	f.shutDown(errors.New("tea time"))
	for _, p := range []*peer{w, c, m} {
		p.fail(wire.CodeShutdown, "tea time")
		p.gone()
	}
	if _, err := f.net.Dial(f.ctx, f.addr, nil); !errors.Is(err, ipc.ErrNoListener) {
		t.Errorf("dialing afterwards: %v", err)
	}
}

// TestStatus: the counters are those of the sessions and workers there are.
func TestStatus(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w, c, m := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleControl, "m")
	s := f.open(c, w, "c")
	run := wire.Run{Seq: 1, Uploads: []wire.Upload{{ID: 1, Value: wire.Value{DType: 1, Inline: []byte{1, 2, 3, 4}}}}}
	c.send(wire.KindRun, wire.AppendRun(nil, &run, nil))
	w.recv(wire.KindRun)
	w.send(wire.KindDone, wire.Append(nil, &wire.Done{Session: s, Seq: 1}))
	c.recv(wire.KindDone)
	m.send(wire.KindStatus, wire.Append(nil, &wire.Status{Session: 5}))
	body, _ := m.recv(wire.KindStatusReply)
	var got wire.StatusReply
	if err := wire.Parse(body, &got); err != nil {
		t.Fatal(err)
	}
	counters := map[string]uint64{}
	for _, c := range got.Counters {
		counters[c.Name] = c.Value
	}
	for name, want := range map[string]uint64{
		"pid": uint64(os.Getpid()), "clients": 1, "workers": 1, "sessions": 1, "waiting": 0, "opened": 1, "messages": 3,
		"tensor_bytes": 4, "worker.w0.sessions": 1, "worker.w0.messages": 1, "worker.w0.pid": uint64(os.Getpid()),
	} {
		if n := counters[name]; n != want {
			t.Errorf("%s is %d, expected %d", name, n, want)
		}
	}
}

// TestOptions: what makes no sense is said.
func TestOptions(t *testing.T) {
	for _, o := range []dispatcher.Options{{MaxQueued: -1}, {MaxSessions: -1}, {MaxIdle: -1}, {IdleWait: -1}, {KeepUnused: -1}, {RingBytes: 1 << 16}} {
		if _, err := dispatcher.New(&o); !errors.Is(err, dispatcher.ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
