package worker_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// planFixture returns a worker whose device keeps two plans, and three programs of one
// operation each.
func planFixture(t *testing.T) (*fixture, []program) {
	t.Helper()
	dev := worker.NewTestDevice(t, cpu.Options{Plans: 2, Arena: worker.Checked()})
	f := start(t, worker.Options{Device: dev})
	return f, []program{
		f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) }),
		f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.MulS(2) }),
		f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.SubS(3) }),
	}
}

// counts compares the worker's counters of programs and plans.
func (f *fixture) counts(when string, want map[string]uint64) {
	f.Helper()
	got := f.look(wire.Watch{Ask: 1})
	for name, n := range want {
		if got.Get(name) != n {
			f.Errorf("%s: %s is %d, expected %d", when, name, got.Get(name), n)
		}
	}
}

// runner returns a function that runs a program of the fixture once more.
func (f *fixture) runner() func(session uint64, p program, forget ...wire.Hash) {
	seq := map[uint64]uint64{}
	return func(session uint64, p program, forget ...wire.Hash) {
		f.Helper()
		seq[session]++
		n := seq[session]
		f.batch(&wire.Run{Session: session, Seq: n, Flags: wire.RunSync, Hash: p.hash, Base: 1000 * n, Forget: forget,
			Uploads: []wire.Upload{floats(1000*n+500, 1, 2)}, Inputs: []uint64{1000*n + 500}, Scalars: []float64{1}})
		f.answer(wire.CodeOK, "")
	}
}

// TestPlansOfAllSessions checks that a program of one session is compiled once for all
// sessions, and once if the same session sends it again.
func TestPlansOfAllSessions(t *testing.T) {
	f, p := planFixture(t)
	run := f.runner()
	for id := uint64(1); id <= 3; id++ {
		f.open(id, 1<<20)
		f.body(id, p[0])
		run(id, p[0])
		run(id, p[0])
	}
	f.counts("three sessions of one program", map[string]uint64{"plans": 1, "plans_compiled": 1, "plans_shared": 2, "plans_evicted": 0,
		"programs": 3, "programs_kept": 3, "program_bytes": uint64(3 * len(p[0].encoded)), "plan_bytes": uint64(len(p[0].encoded)), "plan_hits": 3})
	f.body(1, p[0])
	f.counts("a program that came again", map[string]uint64{"plans_compiled": 1, "plans_shared": 2, "programs": 3, "programs_kept": 3})
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 2}))
	run(1, p[0])
	f.counts("one session less", map[string]uint64{"plans": 1, "programs_kept": 2, "program_bytes": uint64(2 * len(p[0].encoded)), "plan_hits": 4})
}

// TestPlanEvicted checks that a plan that the device evicts stays with the session that
// has its program, and is compiled again for another.
func TestPlanEvicted(t *testing.T) {
	f, p := planFixture(t)
	run := f.runner()
	f.open(1, 1<<20)
	f.open(2, 1<<20)
	for _, x := range p {
		f.body(1, x)
		run(1, x)
	}
	f.counts("three programs", map[string]uint64{"plans": 2, "plans_compiled": 3, "plans_shared": 0, "plans_evicted": 1, "programs_kept": 3, "plan_hits": 0})
	for _, x := range p {
		run(1, x)
	}
	f.counts("the same again", map[string]uint64{"plans": 2, "plans_compiled": 3, "plans_evicted": 1, "plan_hits": 3})
	f.body(2, p[2])
	run(2, p[2])
	f.counts("another session with the last one", map[string]uint64{"plans_compiled": 3, "plans_shared": 1, "plans_evicted": 1})
	f.body(2, p[0])
	run(2, p[0])
	f.counts("and with the one given up", map[string]uint64{"plans": 2, "plans_compiled": 4, "plans_shared": 1, "plans_evicted": 2, "programs_kept": 5})
}

// TestProgramForgotten checks that a session cannot run a program that it had forgotten,
// that another that has it can, and that the first can after sending it again.
func TestProgramForgotten(t *testing.T) {
	f, p := planFixture(t)
	run := f.runner()
	for id := uint64(1); id <= 2; id++ {
		f.open(id, 1<<20)
		f.body(id, p[0])
		run(id, p[0])
	}
	f.body(1, p[1])
	run(1, p[1], p[0].hash)
	f.counts("one is forgotten", map[string]uint64{"programs_kept": 2, "program_bytes": uint64(len(p[0].encoded) + len(p[1].encoded)), "plans": 2})
	run(2, p[0])
	f.body(1, p[0])
	run(1, p[0])
	f.counts("and brought again", map[string]uint64{"programs_kept": 3, "plans_compiled": 2, "plans_shared": 2})
	run(1, p[1], p[0].hash)
	f.batch(&wire.Run{Session: 1, Seq: 5, Hash: p[0].hash, Base: 9000})
	f.failed(1, wire.CodeProtocol, "never sent")
	run(2, p[0])
}
