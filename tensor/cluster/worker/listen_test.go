package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// endless sends a program to session id that runs for hours.
func (f *fixture) endless(id uint64) {
	f.Helper()
	p := f.program(false, func(x *tensor.Tensor) (y *tensor.Tensor) {
		x.Session().Scope(func(sc *tensor.Scope) {
			y = sc.Keep(x.Unsqueeze(0).Unsqueeze(0).Expand(1<<21, 1<<22, 2).Sum())
		})
		return y
	})
	f.body(id, p)
	f.batch(&wire.Run{Session: id, Seq: 1, Hash: p.hash, Base: 100, Uploads: []wire.Upload{floats(1, 1, 2)}, Inputs: []uint64{1}, Flags: wire.RunSync})
}

// busy takes the next Device, and returns whether a program keeps others waiting.
func (f *fixture) busy() bool {
	f.Helper()
	var dev wire.Device
	if err := wire.Parse(f.recv(wire.KindDevice), &dev); err != nil {
		f.Fatal(err)
	}
	return dev.Busy
}

// running waits until the worker says that a program keeps others waiting. Messages that
// come before a program begins are handled before it.
func (f *fixture) running() {
	f.Helper()
	if !f.busy() {
		f.Error("a Device that is not busy while a program runs for hours")
	}
}

// TestListensWhileAProgramRuns opens a session while the program of another runs, which
// takes hours, and closes that one: its program is stopped, and the other session's runs.
func TestListensWhileAProgramRuns(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.endless(1)
	f.running()
	for id := uint64(2); id < 5; id++ {
		f.open(id, 0)
	}
	asked := time.Now()
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	f.answer(wire.CodeStopped, "program stopped")
	t.Logf("stopped %v after its session was closed", time.Since(asked))
	f.healthy(5)
}

// TestListensAfterAMessageOfTheSession opens a session while the program of another runs,
// for which a message has come that waits until the program is over.
func TestListensAfterAMessageOfTheSession(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.endless(1)
	f.running()
	f.send(wire.KindLink, wire.Append(nil, &wire.Link{Session: 1}))
	f.open(2, 0)
	f.send(wire.KindStop, wire.Append(nil, &wire.Stop{Session: 1, Seq: 1}))
	f.answer(wire.CodeStopped, "program stopped")
	f.failed(1, wire.CodeProtocol, "Link") // of a client that needs none
	f.healthy(3)
}

// TestStopsUpTo stops a Run that would take hours, before it has come and while its
// program runs. The values of the session stay as they are, and a stop of a Run that is
// over stops no later one.
func TestStopsUpTo(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	add := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, add)
	stop := func(seq uint64) { f.send(wire.KindStop, wire.Append(nil, &wire.Stop{Session: 1, Seq: seq})) }
	f.endless(1)
	f.open(2, 0) // answered while the program runs
	stop(1)
	f.answer(wire.CodeStopped, "program stopped")
	stop(1)
	for seq := uint64(2); seq < 6; seq++ {
		base := 200 * seq
		f.batch(&wire.Run{Session: 1, Seq: seq, Hash: add.hash, Base: base, Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{base}, Flags: wire.RunSync})
		f.answer(wire.CodeOK, "")
		stop(seq - 1)
		stop(seq)
	}
	stop(6) // ahead of the Run
	f.batch(&wire.Run{Session: 1, Seq: 6, Hash: add.hash, Base: 5000, Inputs: []uint64{1}, Scalars: []float64{1}, Flags: wire.RunSync})
	f.answer(wire.CodeStopped, "program stopped")
	f.batch(&wire.Run{Session: 1, Seq: 7, Hash: add.hash, Base: 6000, Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{6000}, Flags: wire.RunSync})
	f.answer(wire.CodeOK, "")
	f.healthy(3)
}

// TestBusy wants the dispatcher told when a program begins to keep other sessions
// waiting, and when it is over.
func TestBusy(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.endless(1)
	f.running()
	f.send(wire.KindStop, wire.Append(nil, &wire.Stop{Session: 1, Seq: 1}))
	f.recv(wire.KindDone)
	if f.busy() {
		t.Error("a Device that is busy after the program was stopped")
	}
}

// TestEndsWhileAProgramRuns ends a worker whose program would run for hours.
func TestEndsWhileAProgramRuns(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.endless(1)
	f.running()
	f.open(2, 0) // answered while the program runs
	f.stop(errors.New("the test ends the worker"))
	if err := <-f.end; err != nil {
		t.Errorf("Serve: %v", err)
	}
	f.end <- nil // for the cleanup
}

// TestTooMuchWork wants a program over the device's limit to be an error of its batch.
func TestTooMuchWork(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	p := f.program(false, func(x *tensor.Tensor) (y *tensor.Tensor) {
		x.Session().Scope(func(sc *tensor.Scope) {
			y = sc.Keep(x.Unsqueeze(0).Unsqueeze(0).Expand(1<<29, 1<<29, 2).Sum())
		})
		return y
	})
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 1, Hash: p.hash, Base: 100, Uploads: []wire.Upload{floats(1, 1, 2)}, Inputs: []uint64{1}, Flags: wire.RunSync})
	f.answer(wire.CodeWork, "9.22e+18 multiply-adds, at most 1.13e+15")
	f.healthy(2)
}

// TestWatchedWhileAProgramRuns: a message that is handled while a program runs is told
// apart from those of the worker's own goroutine, whose times don't overlap, and its time
// is not counted as work once more.
func TestWatchedWhileAProgramRuns(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.endless(1)
	f.running()
	f.look(wire.Watch{Ask: 1, Events: true}) // from now on the worker measures
	f.look(wire.Watch{Ask: 2, Events: true})
	got := f.look(wire.Watch{Ask: 3, Events: true})
	if len(got.Events) != 1 || got.Events[0].Kind != wire.EventAside || got.Events[0].Message() != wire.KindName(wire.KindWatch) {
		t.Errorf("while a program runs: %+v, expected the second Watch, aside", got.Events)
	}
	if busy := got.Get("busy_ns"); busy != 0 {
		t.Errorf("busy for %d ns beside the program that runs", busy)
	}
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	f.answer(wire.CodeStopped, "program stopped")
	f.healthy(2)
}
