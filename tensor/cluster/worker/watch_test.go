package worker_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/device"
)

// watched is an answer whose counters are found by name.
type watched struct{ wire.Watched }

// Get returns the counter of that name, 0 when there is none.
func (w *watched) Get(name string) uint64 {
	for _, c := range w.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// look asks the worker for its report.
func (f *fixture) look(m wire.Watch) *watched {
	f.Helper()
	f.send(wire.KindWatch, wire.Append(nil, &m))
	got := new(watched)
	if err := wire.Parse(f.recv(wire.KindWatched), &got.Watched); err != nil {
		f.Fatal(err)
	}
	if got.Ask != m.Ask || got.Worker != "w" {
		f.Errorf("question %d of %q is answered as %d", got.Ask, got.Worker, m.Ask)
	}
	return got
}

// TestWatch checks that a worker counts what it runs always, and measures from the first
// Watch on.
func TestWatch(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 1<<20)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1).Tanh() })
	f.body(1, p)
	seq := uint64(0)
	run := func() {
		seq++
		f.batch(&wire.Run{Session: 1, Seq: seq, Flags: wire.RunSync, Hash: p.hash, Base: 1000 * seq,
			Uploads: []wire.Upload{floats(1000*seq+500, 1, 2)}, Inputs: []uint64{1000*seq + 500}, Scalars: []float64{1}})
		f.answer(wire.CodeOK, "")
	}
	run()
	got := f.look(wire.Watch{Ask: 7, Events: true})
	if got.Get("runs") != 1 || got.Get("plan_hits") != 0 || got.Get("op.tanh") != 1 || got.Get("busy_ns") != 0 || got.Get("messages") != 0 || len(got.Events) != 0 {
		t.Errorf("before anybody looked: %+v", got)
	}
	const more = 3
	for range more {
		run()
	}
	got = f.look(wire.Watch{Ask: 8, Events: true, Since: got.First})
	if got.Get("runs") != 1+more || got.Get("plan_hits") != more || got.Get("op.add") != 1+more || got.Get("programs") != 1 ||
		got.Get("messages") < more || got.Get("busy_ns") == 0 {
		t.Errorf("afterwards: %+v", got.Counters)
	}
	if len(got.Sessions) != 1 || got.Sessions[0].ID != 1 || got.Sessions[0].Name != "s" || got.Sessions[0].Runs != 1+more ||
		got.Sessions[0].Busy == 0 || got.Sessions[0].Workers != 1 || got.Sessions[0].Bytes == 0 {
		t.Errorf("sessions: %+v", got.Sessions)
	}
	programs, runs, steps := 0, 0, 0
	for i, e := range got.Events {
		switch {
		case e.Kind == wire.EventProgram:
			programs++
			if e.Session != 1 || e.Bytes != 2 || e.What != binary.BigEndian.Uint64(p.hash[:8]) {
				t.Errorf("event %d: %+v", i, e)
			}
			// The event of the message ends after, and so comes after, the program's.
			if _, tells := f.dev.(device.StepTracer); tells && steps != 1 {
				t.Errorf("event %d: a program of %d steps, expected one", i, steps)
			}
			steps = 0
			if outer := got.Events[i+1]; outer.Kind != wire.EventMessage || outer.Begin > e.Begin || outer.Begin+outer.Took < e.Begin+e.Took {
				t.Errorf("event %d, %+v, is not in %+v", i, e, outer)
			}
		case e.Kind == wire.EventStep:
			steps++
			if ops := e.Ops(nil); !slices.Equal(ops, []tensor.Op{tensor.OpAdd, tensor.OpTanh}) || e.Bytes != 24 || e.ShapeText() != "f32[2]" {
				t.Errorf("event %d: a step of %v, %d bytes and %s", i, ops, e.Bytes, e.ShapeText())
			}
		case e.Kind == wire.EventMessage && e.Message() == wire.KindName(wire.KindRun):
			if runs++; e.Number() != uint32(1+runs) { // the first came before
				t.Errorf("event %d: run %d has number %d", i, runs, e.Number())
			}
		}
	}
	if programs != more || runs != more || got.More {
		t.Errorf("%d programs and %d runs in %+v", programs, runs, got.Events)
	}
	again := f.look(wire.Watch{Ask: 8, Events: true, Since: got.First + uint64(len(got.Events))})
	if len(again.Events) == 0 || again.Events[0].What != uint64(wire.KindWatch) {
		t.Errorf("events since then: %+v", again.Events)
	}

	// The counts of a session stay when it is over. Events come only if they are wanted.
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	got = f.look(wire.Watch{Ask: 9})
	if got.Get("op.tanh") != 1+more || got.Get("plan_hits") != more || got.Get("sessions") != 0 || len(got.Sessions) != 0 || len(got.Events) != 0 {
		t.Errorf("after the session: %+v", got)
	}
}
