package dispatcher_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// hold has a worker tell of a session that it has from another dispatcher.
func (p *peer) hold(session uint64, token string) {
	p.f.Helper()
	p.send(wire.KindDevice, wire.Append(nil, &wire.Device{Last: session}))
	p.send(wire.KindHeld, wire.Append(nil, &wire.Held{Session: session, Quota: 77, Token: []byte(token), Name: "old"}))
}

// resume has a client name a session.
func (p *peer) resume(token string) {
	p.f.Helper()
	p.send(wire.KindResume, wire.Append(nil, &wire.Resume{Token: []byte(token)}))
}

// sessions waits until so many are open.
func (f *fixture) sessions(n int) {
	f.Helper()
	for f.d.Stats().Sessions != n {
		if f.ctx.Err() != nil {
			f.Fatalf("%+v, expected %d sessions", f.d.Stats(), n)
		}
		runtime.Gosched()
	}
}

// TestResume: a session of another dispatcher is one of this one when its worker and its
// client have named it, in either order. Stop reaches its worker, the client is told why
// it fails, and it ends with its client.
func TestResume(t *testing.T) {
	for _, first := range []string{"worker", "client"} {
		t.Run(first, func(t *testing.T) {
			f := start(t, dispatcher.Options{})
			w, c, d := f.dial(ipc.RoleWorker, "w"), f.dial(ipc.RoleClient, "c"), f.dial(ipc.RoleClient, "d")
			if first == "client" {
				c.resume("c's")
				d.resume("d's")
			}
			w.hold(8, "c's")
			w.hold(9, "d's")
			f.sessions(2)
			if first == "worker" {
				c.resume("c's")
				d.resume("d's")
			}
			for p, token := range map[*peer]string{c: "c's", d: "d's"} {
				body, _ := p.recv(wire.KindResume)
				var m wire.Resume
				if err := wire.Parse(body, &m); err != nil || m.Session != 0 || string(m.Token) != token {
					t.Errorf("%+v, %v; expected %q", m, err, token)
				}
			}
			stop := &wire.Stop{Seq: 3}
			c.send(wire.KindStop, wire.Append(nil, stop))
			body, _ := w.recv(wire.KindStop)
			if stop.Session = 8; !bytes.Equal(body, wire.Append(nil, stop)) {
				t.Errorf("the worker hears %x, expected a Stop of session 8", body)
			}
			w.send(wire.KindFail, wire.Append(nil, &wire.Fail{Session: 8, Code: wire.CodeProtocol, Text: "nonsense"}))
			c.fail(wire.CodeProtocol, "nonsense")
			d.Close()
			w.closed(9, wire.CodeOK)
			f.sessions(0)
			// a session of this dispatcher has a later number
			if id := f.open(f.dial(ipc.RoleClient, "e"), w, "new"); id != 10 {
				t.Errorf("session %d, expected 10", id)
			}
		})
	}
}

// TestResumeEnds: a session whose client has not come ends when its worker says so, or
// fails it, or is gone. A client whose worker has not come may go.
func TestResumeEnds(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w := f.dial(ipc.RoleWorker, "w")
	w.hold(1, "a")
	w.hold(2, "b")
	w.hold(3, "c")
	f.sessions(3)
	w.send(wire.KindHeld, wire.Append(nil, &wire.Held{Session: 1, Over: true}))
	f.sessions(2)
	w.send(wire.KindFail, wire.Append(nil, &wire.Fail{Session: 2, Code: wire.CodeProtocol, Text: "nonsense"}))
	f.sessions(1)
	gone := f.dial(ipc.RoleClient, "gone")
	gone.resume("d")
	gone.Close()
	for f.d.Stats().Clients > 0 {
		runtime.Gosched()
	}
	w.hold(4, "d")
	f.sessions(2)
	w.Close()
	f.sessions(0)
}

// TestResumeRefused: a client that names two sessions, or none, and a worker that tells
// of a session twice, of one that is to come or of one without a token lose their
// connections.
func TestResumeRefused(t *testing.T) {
	f := start(t, dispatcher.Options{WorkerWait: time.Minute})
	for name, p := range map[string]func(c *peer){
		"no token": func(c *peer) { c.resume("") },
		"two":      func(c *peer) { c.resume("a"); c.resume("b") },
		"another open": func(c *peer) {
			c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "x"}))
			c.resume("a")
		},
		"then opens": func(c *peer) {
			c.resume("a")
			c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "x"}))
		},
		"cut": func(c *peer) { c.send(wire.KindResume, []byte("x")) },
	} {
		c := f.dial(ipc.RoleClient, name)
		p(c)
		c.fail(wire.CodeProtocol, "")
		c.gone()
	}
	for name, p := range map[string]func(w *peer){
		"twice":    func(w *peer) { w.hold(1, "a"); w.hold(1, "b") },
		"token":    func(w *peer) { w.hold(1, "a"); w.hold(2, "a") },
		"no token": func(w *peer) { w.hold(1, "") },
		"to come": func(w *peer) {
			w.send(wire.KindHeld, wire.Append(nil, &wire.Held{Session: 1 << 40, Token: []byte("a")}))
		},
		"cut": func(w *peer) { w.send(wire.KindHeld, []byte("x")) },
	} {
		w := f.dial(ipc.RoleWorker, name)
		p(w)
		w.fail(wire.CodeProtocol, "")
		w.gone()
		f.sessions(0)
	}
}

// TestResumeTooMany: sessions of other dispatchers beyond MaxSessions are not taken over,
// and their worker stays.
func TestResumeTooMany(t *testing.T) {
	f := start(t, dispatcher.Options{MaxSessions: 1})
	w := f.dial(ipc.RoleWorker, "w")
	w.hold(1, "a")
	w.hold(2, "b")
	f.sessions(1)
	w.send(wire.KindHeld, wire.Append(nil, &wire.Held{Session: 1, Over: true}))
	f.sessions(0)
	f.open(f.dial(ipc.RoleClient, "c"), w, "new")
}

// TestResumeCrowd: clients that wait to resume their sessions keep no other client out,
// however many they are, up to MaxSessions.
func TestResumeCrowd(t *testing.T) {
	const many = 5
	f := start(t, dispatcher.Options{MaxIdle: 2, MaxSessions: many, IdleWait: time.Hour})
	var waiting []*peer
	for i := range many {
		p := f.dial(ipc.RoleClient, "old")
		p.resume(fmt.Sprint("token ", i))
		waiting = append(waiting, p)
	}
	for f.d.Stats().Clients < many {
		if f.ctx.Err() != nil {
			t.Fatalf("%+v, expected %d clients", f.d.Stats(), many)
		}
		runtime.Gosched()
	}
	w := f.dial(ipc.RoleWorker, "w")
	w.send(wire.KindDevice, wire.Append(nil, &wire.Device{Last: many}))
	opens := f.dial(ipc.RoleClient, "new")
	id := f.open(opens, w, "new")
	opens.Close()
	w.closed(id, wire.CodeOK)
	more := f.dial(ipc.RoleClient, "more")
	more.resume("another token")
	more.fail(wire.CodeQuota, fmt.Sprintf("%d clients wait to resume their sessions, at most %d can", many, many))
	more.gone()
	for i, p := range waiting {
		w.send(wire.KindHeld, wire.Append(nil, &wire.Held{Session: uint64(1 + i), Token: fmt.Append(nil, "token ", i), Name: "old"}))
		p.recv(wire.KindResume)
	}
}

// TestResumeTwice: of clients that name the same session the last one waits to resume it.
// The others are ended: they would wait beside Options.MaxSessions.
func TestResumeTwice(t *testing.T) {
	f := start(t, dispatcher.Options{MaxSessions: 2})
	first := f.dial(ipc.RoleClient, "first")
	first.resume("token")
	second := f.dial(ipc.RoleClient, "second")
	for f.d.Stats().Clients < 2 && f.ctx.Err() == nil {
		runtime.Gosched()
	}
	second.resume("token")
	first.fail(wire.CodeQuota, "another client waits to resume the same session")
	first.gone()
	f.dial(ipc.RoleWorker, "w").hold(1, "token")
	second.recv(wire.KindResume)
	f.sessions(1)
}
