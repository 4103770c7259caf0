package dispatcher_test

import (
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// asked is the question that a worker was asked.
func (p *peer) asked() (m wire.Watch) {
	p.f.Helper()
	body, _ := p.recv(wire.KindWatch)
	if err := wire.Parse(body, &m); err != nil {
		p.f.Fatal(err)
	}
	return m
}

// TestWatch tests that every answer goes to the control that asked, also when answers
// cross, and is dropped when that one has left.
func TestWatch(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
	a, b := f.dial(ipc.RoleControl, "a"), f.dial(ipc.RoleControl, "b")
	f.open(f.dial(ipc.RoleClient, "c"), w0, "c") // and so both workers are there
	ask := func(p *peer, m wire.Watch) { p.send(wire.KindWatch, wire.Append(nil, &m)) }
	answer := func(p *peer, of wire.Watch, name string) {
		p.send(wire.KindWatched, wire.Append(nil, &wire.Watched{Ask: of.Ask, Worker: name, Now: of.Since}))
	}
	hear := func(p *peer, name string, now uint64) {
		t.Helper()
		body, _ := p.recv(wire.KindWatched)
		var m wire.Watched
		if err := wire.Parse(body, &m); err != nil || m.Worker != name || m.Now != now {
			t.Errorf("%+v, %v; expected the answer of %s to %d", m, err, name, now)
		}
	}
	// the dispatcher sets the number of the asker
	ask(a, wire.Watch{Ask: 99, Since: 1, Events: true})
	of0, of1 := w0.asked(), w1.asked()
	ask(b, wire.Watch{Ask: of0.Ask, Since: 2, Worker: "w1"})
	of2 := w1.asked()
	if of0 != of1 || of0.Since != 1 || !of0.Events || of2.Ask == of0.Ask || of0.Ask == 99 || of2.Events {
		t.Errorf("questions: %+v, %+v, %+v", of0, of1, of2)
	}
	answer(w1, of2, "w1")
	answer(w1, of1, "w1")
	hear(b, "w1", 2)
	hear(a, "w1", 1)
	answer(w0, of0, "w0")
	hear(a, "w0", 1)

	// b leaves; the answer to it is dropped, and the worker is unaffected.
	b.Close()
	answer(w1, of2, "w1")
	ask(a, wire.Watch{Since: 3, Worker: "w1"})
	answer(w1, w1.asked(), "w1")
	hear(a, "w1", 3)

	c := f.dial(ipc.RoleClient, "curious")
	ask(c, wire.Watch{})
	body, _ := c.recv(wire.KindFail)
	var fail wire.Fail
	if err := wire.Parse(body, &fail); err != nil || fail.Code != wire.CodeProtocol {
		t.Errorf("a client that asks: %+v, %v", fail, err)
	}
	w0.send(wire.KindWatched, []byte("short"))
	if body, _ = w0.recv(wire.KindFail); wire.Parse(body, &fail) != nil || fail.Code != wire.CodeProtocol {
		t.Errorf("an answer of 5 bytes: %+v", fail)
	}
}

// TestShow: a question for a program goes to the first worker of the session, with the
// number of the asker; the dispatcher answers for a session that is not there; a client
// does not ask.
func TestShow(t *testing.T) {
	f := start(t, dispatcher.Options{})
	w0 := f.dial(ipc.RoleWorker, "w0")
	a := f.dial(ipc.RoleControl, "a")
	c := f.dial(ipc.RoleClient, "c")
	id := f.open(c, w0, "c")
	hear := func() (m wire.Shown) {
		t.Helper()
		body, _ := a.recv(wire.KindShown)
		if err := wire.Parse(body, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	a.send(wire.KindShow, wire.Append(nil, &wire.Show{Ask: 99, Of: id, Off: 7}))
	body, _ := w0.recv(wire.KindShow)
	var ask wire.Show
	if err := wire.Parse(body, &ask); err != nil || ask.Of != id || ask.Off != 7 || ask.Ask == 99 {
		t.Errorf("%+v, %v", ask, err)
	}
	w0.send(wire.KindShown, wire.Append(nil, &wire.Shown{Ask: ask.Ask, Of: id, Workers: 1, Worker: "w0"}))
	if m := hear(); m.Worker != "w0" || m.Of != id {
		t.Errorf("%+v", m)
	}
	a.send(wire.KindShow, wire.Append(nil, &wire.Show{Of: id + 1}))
	if m := hear(); m.Workers != 0 || m.Of != id+1 {
		t.Errorf("of a session that is not there: %+v", m)
	}
	c.send(wire.KindShow, wire.Append(nil, &wire.Show{Of: id}))
	body, _ = c.recv(wire.KindFail)
	var fail wire.Fail
	if err := wire.Parse(body, &fail); err != nil || fail.Code != wire.CodeProtocol {
		t.Errorf("a client that asks: %+v, %v", fail, err)
	}
}
