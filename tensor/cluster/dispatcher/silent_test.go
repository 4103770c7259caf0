package dispatcher_test

import (
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// toOpen waits until the worker is asked to open a session, and returns its number.
func (p *peer) toOpen() uint64 {
	p.f.Helper()
	body, _ := p.recv(wire.KindOpenSession)
	id, _ := wire.Session(body)
	return id
}

func (p *peer) opened(session uint64) {
	p.f.Helper()
	p.send(wire.KindSessionOpened, wire.Append(nil, &wire.SessionOpened{Session: session, PID: 1, Worker: "w"}))
}

// TestSilentWorker has a worker not answer when it is asked to open a session: that
// session goes to another worker, and so do later ones until the worker is heard again.
func TestSilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 3 * time.Second
		f := start(t, dispatcher.Options{AnswerWait: wait})
		w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
		a, b, c := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b"), f.dial(ipc.RoleClient, "c")
		began := time.Now()
		a.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "a"}))
		first := w0.toOpen()
		second := w1.toOpen()
		if took := time.Since(began); took != wait {
			t.Errorf("the session went to another worker after %v, expected %v", took, wait)
		}
		if first == second {
			t.Error("the session has the number of the first attempt")
		}
		w1.opened(second)
		a.recv(wire.KindSessionOpened)
		b.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "b", Quota: 77}))
		w1.opened(w1.toOpen()) // though it has more sessions than the other
		b.recv(wire.KindSessionOpened)

		w0.closed(first, wire.CodeOK)
		w0.opened(first) // of the first attempt: it is late
		w0.register(device.Info{Name: "cpu", Kind: device.CPU}, 0)
		synctest.Wait()
		f.open(c, w0, "c")
		if n := f.d.Stats(); n.Sessions != 3 || n.Failed != 0 || n.Waiting != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestSilentWorkers has all workers be silent, and one of two that serve a session: the
// client is told which worker.
func TestSilentWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, dispatcher.Options{AnswerWait: time.Second, WorkerWait: time.Second})
		w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
		a, b := f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")
		a.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "a", Workers: 2}))
		id := w0.toOpen()
		w1.toOpen()
		w0.opened(id)
		a.recv(wire.KindSessionOpened)
		a.fail(wire.CodeWorkerGone, `worker "w1" (pid `)
		w0.closed(id, wire.CodeWorkerGone)
		b.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "b"}))
		w0.toOpen()
		b.fail(wire.CodeNoWorker, "has not answered for 1s")
	})
}

// TestBusyWorker has a worker open sessions slowly, each soon after the one before: the
// last waits for longer than a silent worker's may, and is opened all the same. When the
// worker goes on to say nothing it is silent.
func TestBusyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 3 * time.Second
		f := start(t, dispatcher.Options{AnswerWait: wait, WorkerWait: time.Second})
		w := f.dial(ipc.RoleWorker, "w")
		var clients []*peer
		var ids []uint64
		for range 5 {
			c := f.dial(ipc.RoleClient, "c")
			c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "c"}))
			clients, ids = append(clients, c), append(ids, w.toOpen())
		}
		last := len(ids) - 1
		for i, id := range ids[:last] {
			<-time.After(wait - time.Second)
			w.opened(id)
			clients[i].recv(wire.KindSessionOpened)
		}
		answered := time.Now()
		clients[last].fail(wire.CodeNoWorker, "has not answered for 3s")
		if took := time.Since(answered); took != wait+time.Second {
			t.Errorf("it failed %v after the worker's last answer, expected %v", took, wait+time.Second)
		}
	})
}

// TestSilentWorkerIsWrittenDownOnce has two sessions fail because of one silent worker:
// the last events are written once, and both errors name the file.
func TestSilentWorkerIsWrittenDownOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, dispatcher.Options{AnswerWait: time.Second, Flight: dir})
		w0, w1 := f.dial(ipc.RoleWorker, "w0"), f.dial(ipc.RoleWorker, "w1")
		clients := []*peer{f.dial(ipc.RoleClient, "a"), f.dial(ipc.RoleClient, "b")}
		for _, c := range clients {
			c.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "s", Workers: 2}))
			id := w0.toOpen()
			w1.toOpen()
			w0.opened(id)
			c.recv(wire.KindSessionOpened)
		}
		for _, c := range clients {
			c.fail(wire.CodeWorkerGone, "has not answered for 1s; the dispatcher's last events are in "+dir)
		}
	})
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files, %v; expected one", len(all), err)
	}
}

// TestNumbersOfSurvivors has a session wait for a worker that then says which number the
// last of its own sessions has, which outlived another dispatcher: the session gets a
// later one.
func TestNumbersOfSurvivors(t *testing.T) {
	f := start(t, dispatcher.Options{WorkerWait: time.Minute})
	a := f.dial(ipc.RoleClient, "a")
	a.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Name: "waits"}))
	for f.d.Stats().Waiting < 1 {
		runtime.Gosched()
	}
	c, err := f.net.Dial(f.ctx, f.addr, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w := &peer{f, c}
	w.send(wire.KindDevice, wire.Append(nil, &wire.Device{Info: device.Info{Name: "cpu", Kind: device.CPU}, Last: 1}))
	id := w.toOpen()
	if id != 2 {
		t.Errorf("the session that waited has the number %d, expected 2", id)
	}
	w.opened(id)
	a.recv(wire.KindSessionOpened)
}
