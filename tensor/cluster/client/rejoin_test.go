package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// again makes f's conn that with the next dispatcher, to which the client names its
// session.
func (f *fixture) again(l ipc.Listener) {
	f.Helper()
	f.conn.Close()
	var err error
	if f.conn, err = l.Accept(f.ctx); err != nil {
		f.Fatal(err)
	}
	var m wire.Resume
	if err := wire.Parse(f.recv(wire.KindResume), &m); err != nil || string(m.Token) != token {
		f.Errorf("%+v, %v; expected the token %q", m, err, token)
	}
}

// resumed says that the dispatcher knows the session.
func (f *fixture) resumed() {
	f.send(wire.KindResume, wire.Append(nil, &wire.Resume{Token: []byte(token)}))
}

// TestRejoin ends the dispatchers of a session that has a connection of its own. It goes
// on, whether there is one or not. A dispatcher that does not know the session ends
// nothing but the connection. From one that knows it the session hears why it ends.
func TestRejoin(t *testing.T) {
	d, w := openOwn(t)
	step := func(seq uint64, meanwhile func()) {
		t.Helper()
		end := w.sync()
		w.recv(wire.KindRun)
		meanwhile()
		w.done(&wire.Done{Seq: seq})
		if err := <-end; err != nil {
			t.Fatal(err)
		}
	}
	l, err := local.New().Listen(d.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	step(1, func() { d.again(l) })
	step(2, func() { d.resumed() })
	step(3, func() { d.again(l) })
	step(4, func() { d.fail("too many clients") })
	step(5, func() { d.again(l) })
	step(6, func() { d.resumed() })
	end := w.sync()
	w.recv(wire.KindRun)
	d.fail("w7 died")
	if err := <-end; !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), "w7 died") {
		t.Errorf("%v, expected the dispatcher's reason", err)
	}
}

// TestRejoinStops ends the dispatcher of a session, and then the context of a call whose
// program goes on. The next dispatcher is told to stop the program.
func TestRejoinStops(t *testing.T) {
	d, w := openOwn(t)
	l, err := local.New().Listen(d.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(w.ctx)
	end := make(chan error, 1)
	go func() {
		_, err := w.e.Submit(ctx, &tensor.Batch{Sync: true})
		end <- err
	}()
	w.recv(wire.KindRun)
	d.conn.Close()
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected %v", err, context.Canceled)
	}
	d.again(l)
	d.resumed()
	var stop wire.Stop
	if err := wire.Parse(d.recv(wire.KindStop), &stop); err != nil || stop.Seq != 1 {
		t.Errorf("%+v, %v; expected a stop of run 1", stop, err)
	}
}

// TestRejoinFails: the worker says over the session's connection why it fails.
func TestRejoinFails(t *testing.T) {
	d, w := openOwn(t)
	d.conn.Close()
	end := w.sync()
	w.recv(wire.KindRun)
	w.fail("a bad message")
	w.conn.Close()
	if err := <-end; !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), "a bad message") {
		t.Errorf("%v, expected the worker's reason", err)
	}
}

// TestRejoinTwice: a dispatcher that says twice that it knows the session breaks the
// protocol.
func TestRejoinTwice(t *testing.T) {
	d, w := openOwn(t)
	end := w.sync()
	w.recv(wire.KindRun)
	d.resumed()
	if err := <-end; !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), "Resume") {
		t.Errorf("%v, expected %v", err, ipc.ErrCorrupt)
	}
}
