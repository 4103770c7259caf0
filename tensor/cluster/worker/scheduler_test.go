package worker_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// gated is a device whose programs report that they begin, and then wait to be released.
type gated struct {
	device.Device
	began chan float64
	goOn  chan struct{}
}

func (d gated) Open() device.Space { return gatedSpace{d.Device.Open(), d} }

type gatedSpace struct {
	device.Space
	d gated
}

func (s gatedSpace) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	s.d.began <- scalars[0]
	<-s.d.goOn
	return s.Space.Run(p, base, inputs, scalars, stop)
}

// gatedWorker is a worker on a gated device, and one program for it.
type gatedWorker struct {
	*fixture
	d   gated
	p   program
	seq uint64
}

func startGated(t *testing.T, o worker.Options) *gatedWorker {
	t.Helper()
	dev := worker.NewTestDevice(t, cpu.Options{Arena: shm.ArenaOptions{Segment: worker.Segments()}})
	d := gated{dev, make(chan float64), make(chan struct{})}
	o.Device = d
	f := start(t, o)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	return &gatedWorker{fixture: f, d: d, p: p}
}

// batchOf sends a batch whose program reports the session's number.
func (g *gatedWorker) batchOf(session uint64, flags uint32) {
	g.seq++
	g.batch(&wire.Run{Session: session, Seq: g.seq, Flags: flags, Hash: g.p.hash, Base: 1000 * g.seq,
		Uploads: []wire.Upload{floats(1000*g.seq+500, 1, 2)}, Inputs: []uint64{1000*g.seq + 500}, Scalars: []float64{float64(session)}})
}

// next waits for a program to begin, and returns whose it is.
func (g *gatedWorker) next() float64 {
	select {
	case session := <-g.d.began:
		return session
	case <-g.ctx.Done():
		g.Fatal(g.ctx.Err())
		return 0
	}
}

// TestTurns checks that a session that floods the worker is held back, and that the
// single batch of another session is next.
func TestTurns(t *testing.T) {
	f := startGated(t, worker.Options{})
	for id := range uint64(3) {
		f.open(id, 0)
		f.body(id, f.p)
	}
	const flood = 200
	for range flood {
		f.batchOf(0, 0)
	}
	if what := f.next(); what != 0 {
		t.Errorf("first is a program of session %v", what)
	}
	f.batchOf(1, wire.RunSync)
	f.batchOf(2, 0)
	f.batchOf(2, wire.RunSync)
	// All of these are there when the first ends.
	seen := map[float64]int{}
	for i := range 3 {
		f.d.goOn <- struct{}{}
		what := f.next()
		seen[what]++
		if what == 0 {
			t.Errorf("turn %d is the flood's: %v", i+1, seen)
		}
	}
	if seen[1] != 1 || seen[2] != 2 {
		t.Errorf("turns of the sessions: %v", seen)
	}
	for range flood - 1 {
		f.d.goOn <- struct{}{}
		if what := f.next(); what != 0 {
			t.Errorf("a program of session %v", what)
		}
	}
	f.d.goOn <- struct{}{}

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
			if err := wire.Parse(m.Body, &flow); err != nil {
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

// TestBatch: with Options.Batch a session has so many of its messages handled before the
// worker looks at another.
func TestBatch(t *testing.T) {
	const batch, messages = 3, 12
	f := startGated(t, worker.Options{Batch: batch})
	for id := range uint64(2) {
		f.open(id, 0)
		f.body(id, f.p)
	}
	f.batchOf(0, 0)
	if what := f.next(); what != 0 { // the others wait until it ends
		t.Errorf("first is a program of session %v", what)
	}
	for range messages {
		f.batchOf(0, 0)
		f.batchOf(1, 0)
	}
	var order []float64
	left := [2]int{messages, messages}
	for left[0] > 0 && left[1] > 0 {
		f.d.goOn <- struct{}{}
		what := f.next()
		left[int(what)]--
		order = append(order, what)
	}
	for range left[0] + left[1] {
		f.d.goOn <- struct{}{}
		f.next()
	}
	f.d.goOn <- struct{}{}
	// The batch before had begun with other messages.
	first := slices.Index(order, 1-order[0])
	for i := first + 1; i < len(order); i++ {
		if order[i] != order[i-1] && (i-first)%batch != 0 {
			t.Errorf("session %v had its turn after %d messages of the one before: %v", order[i], i-first, order)
		}
	}
	if first < 0 || len(order)-first < 2*batch {
		t.Errorf("too few turns: %v", order)
	}
}

// TestBacklogOfFiles checks that a session whose messages wait with descriptors is held
// back, long before the worker has none left.
func TestBacklogOfFiles(t *testing.T) {
	f := startGated(t, worker.Options{})
	f.open(0, 0)
	f.body(0, f.p)
	f.batchOf(0, 0)
	f.next()
	for range 8 {
		f.segment(0, 4096)
	}
	for _, want := range []wire.Flow{{Stop: true}, {}} {
		var got wire.Flow
		if err := wire.Parse(f.recv(wire.KindFlow), &got); err != nil || got != want {
			t.Fatalf("%+v, %v; expected %+v", got, err, want)
		}
		if want.Stop {
			f.d.goOn <- struct{}{} // the program ends, and the segments are mapped
		}
	}
}

// TestTurnsOfAnOnlySession checks that a session that another client opens behind a queue
// of long batches has its turn after the batch under way.
func TestTurnsOfAnOnlySession(t *testing.T) {
	f := startGated(t, worker.Options{})
	f.open(0, 0)
	f.body(0, f.p)
	const flood = 1000
	f.batchOf(0, 0)
	// A worker that has begun no batch may begin with the other session's.
	if what := f.next(); what != 0 {
		t.Errorf("first is a program of session %v", what)
	}
	for range flood - 1 {
		f.batchOf(0, 0)
	}
	f.run[1] = &wire.History{}
	open := wire.OpenSession{Session: 1, Name: "late"}
	f.send(wire.KindOpenSession, wire.Append(nil, &open))
	f.body(1, f.p)
	f.batchOf(1, wire.RunSync)
	for began := time.Now(); time.Since(began) < 5*time.Millisecond; {
		runtime.Gosched()
	}
	turns := 0 // of the flood's, after the first
	for f.d.goOn <- struct{}{}; f.next() != 1; turns++ {
		f.d.goOn <- struct{}{}
	}
	if turns > 2 {
		t.Errorf("the flood had %d more turns before the other session its first", turns)
	}
	for range flood - turns - 1 {
		f.d.goOn <- struct{}{}
		f.next()
	}
	f.d.goOn <- struct{}{}
}
