package worker_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/ipc/worker"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// gated is a device whose programs each wait for a word, and say which they were.
type gated struct {
	worker.Device
	began chan float64
	goOn  chan struct{}
}

func (d gated) Open() worker.Space { return gatedSpace{d.Device.Open(), d} }

type gatedSpace struct {
	worker.Space
	d gated
}

func (s gatedSpace) Run(p worker.Program, base uint64, inputs []uint64, scalars []float64) error {
	s.d.began <- scalars[0]
	<-s.d.goOn
	return s.Space.Run(p, base, inputs, scalars)
}

// TestTurns: a session that floods the worker is held back, and another's single batch is next.
func TestTurns(t *testing.T) {
	dev, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{Segment: worker.Segments()}})
	if err != nil {
		t.Fatal(err)
	}
	d := gated{worker.CPU(dev), make(chan float64), make(chan struct{})}
	f := start(t, worker.Options{Device: d})
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	for id := range uint64(3) {
		f.open(id, 0)
		f.body(id, p)
	}
	seq := uint64(0)
	run := func(session uint64, flags uint32, what float64) {
		seq++
		f.batch(&wire.Run{Session: session, Seq: seq, Flags: flags, Hash: p.hash, Base: 1000 * seq,
			Uploads: []wire.Upload{floats(1000*seq+500, 1, 2)}, Inputs: []uint64{1000*seq + 500}, Scalars: []float64{what}})
	}
	next := func() float64 {
		select {
		case what := <-d.began:
			return what
		case <-f.ctx.Done():
			t.Fatal(f.ctx.Err())
			return 0
		}
	}
	const flood = 200
	for range flood {
		run(0, 0, 0)
	}
	if what := next(); what != 0 {
		t.Errorf("first is a program of session %v", what)
	}
	run(1, wire.RunSync, 1)
	run(2, 0, 2)
	run(2, wire.RunSync, 2)
	// All of these are there when the first ends.
	seen := map[float64]int{}
	for i := range 3 {
		d.goOn <- struct{}{}
		what := next()
		seen[what]++
		if what == 0 {
			t.Errorf("turn %d is the flood's: %v", i+1, seen)
		}
	}
	if seen[1] != 1 || seen[2] != 2 {
		t.Errorf("turns of the sessions: %v", seen)
	}
	for range flood - 1 {
		d.goOn <- struct{}{}
		if what := next(); what != 0 {
			t.Errorf("a program of session %v", what)
		}
	}
	d.goOn <- struct{}{}

	// The worker said stop while it had much, and go once it had less.
	var flows []wire.Flow
	answers := 0
	for answers < 2 || len(flows) < 2 {
		m, err := f.conn.Recv(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case wire.KindFlow:
			var flow wire.Flow
			if err := wire.ParseFlow(m.Body, &flow); err != nil {
				t.Fatal(err)
			}
			flows = append(flows, flow)
		case wire.KindDone:
			answers++
		}
		f.conn.Release()
	}
	if flows[0] != (wire.Flow{Session: 0, Stop: true}) || flows[1] != (wire.Flow{Session: 0}) {
		t.Errorf("%+v", flows)
	}
}

// TestTurnsOfAnOnlySession: a session that has the worker for itself fills the queue with long batches; another that is opened then,
// behind all of them, has its turn after the one under way.
func TestTurnsOfAnOnlySession(t *testing.T) {
	dev, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{Segment: worker.Segments()}})
	if err != nil {
		t.Fatal(err)
	}
	d := gated{worker.CPU(dev), make(chan float64), make(chan struct{})}
	f := start(t, worker.Options{Device: d})
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.open(0, 0)
	f.body(0, p)
	seq := uint64(0)
	run := func(session uint64, flags uint32) {
		seq++
		f.batch(&wire.Run{Session: session, Seq: seq, Flags: flags, Hash: p.hash, Base: 1000 * seq,
			Uploads: []wire.Upload{floats(1000*seq+500, 1, 2)}, Inputs: []uint64{1000*seq + 500}, Scalars: []float64{float64(session)}})
	}
	next := func() float64 {
		select {
		case what := <-d.began:
			return what
		case <-f.ctx.Done():
			t.Fatal(f.ctx.Err())
			return 0
		}
	}
	const flood = 1000
	for range flood {
		run(0, 0)
	}
	f.run[1] = &wire.History{}
	open := wire.OpenSession{Session: 1, Name: "late"}
	f.send(wire.KindOpenSession, wire.AppendOpenSession(nil, &open))
	f.body(1, p)
	run(1, wire.RunSync)
	if what := next(); what != 0 {
		t.Errorf("first is a program of session %v", what)
	}
	for began := time.Now(); time.Since(began) < 5*time.Millisecond; { // a batch that takes as long
		runtime.Gosched()
	}
	turns := 0 // of the flood's, after the first
	for d.goOn <- struct{}{}; next() != 1; turns++ {
		d.goOn <- struct{}{}
	}
	if turns > 2 {
		t.Errorf("the flood had %d more turns before the other session its first", turns)
	}
	for range flood - turns - 1 {
		d.goOn <- struct{}{}
		next()
	}
	d.goOn <- struct{}{}
}
