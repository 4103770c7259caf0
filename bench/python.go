package bench

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// Limits of the client in Python.
const (
	maxRecordOverCall = 15  // an operation recorded over an empty call by ctypes
	maxTripOverGo     = 2   // an operation read, over the client in Go
	maxViewOverCopy   = 0.1 // of 16 MiB
	maxStepOverGo     = 1.3 // a training step of a small model
)

// python finds a Python with the package ringside and its library, or ErrNoBackend, and
// writes the scripts.
func (r *run) python() *torch {
	dir := r.tempDir()
	check(os.CopyFS(dir, must(fs.Sub(torchSource, "torch"))))
	var err error
	for _, p := range pythons() {
		c := exec.CommandContext(r.ctx, p, "-B", "-c", "import numpy, ringside\nfrom ringside import _native\n_native.library()")
		c.Dir = dir
		out, failed := c.CombinedOutput()
		if failed == nil {
			return &torch{python: p, dir: dir}
		}
		err = fmt.Errorf("%w: %w: %s", ErrNoBackend, failed, out)
	}
	check(err)
	return nil
}

// runPython times the client in Python: recording beside an empty call of the C library,
// views beside copies, and round trips and training steps beside the client in Go, by one
// worker in turn.
func runPython(r *run) {
	t, g := r.python(), r.through(1, 1)
	p := &torchPeer{name: "Python"}
	p.start(r, t, []string{t.python, "-B", "client.py", g.cluster.Addr()})
	asked := func(name, unit, what string, n int) side {
		n = r.work(n)
		scale := map[string]float64{"ns": 1e6, "us": 1e3}[unit]
		return number(name, unit, n, func() float64 { return mean(p.ask(map[string]any{"what": what, "n": n}, 1)[0].MS) * scale })
	}
	here := func(name string, n int, f func()) side {
		n = r.work(n)
		return number(name, "us", n, func() float64 { return mean(r.samples(n, micros, f)) })
	}
	trip, step := goTrip(g.sess), goStep(g.sess)
	call, record := asked("an empty call of the C library", "ns", "call", 20_000), asked("an operation recorded from Python", "ns", "record", 3000)
	pyTrip, ourTrip := asked("add and read, Python", "us", "trip", 1000), here("add and read, Go", 1000, trip)
	view, copied := asked("16 MiB viewed", "us", "view", 50), asked("16 MiB copied", "us", "copy", 10)
	pyStep, ourStep := asked("step of MLP 784-128-128-10, batch 32, Python", "us", "step", 200), here("step of MLP 784-128-128-10, batch 32, Go", 200, step)
	r.measure(turns{rounds: r.rounds(31), warm: true}, call, record, pyTrip, ourTrip, view, copied, pyStep, ourStep)
	r.atMost("py_record_us_over_call", ratio(record.series, call.series), maxRecordOverCall)
	r.atMost("py_roundtrip_over_go", ratio(pyTrip.series, ourTrip.series), maxTripOverGo)
	r.atMost("py_view_over_copy", ratio(view.series, copied.series), maxViewOverCopy)
	r.atMost("py_step_over_go", ratio(pyStep.series, ourStep.series), maxStepOverGo)
}

// goTrip returns an addition whose result is read.
func goTrip(s *tensor.Session) func() {
	one := tensor.Ones(s, tensor.F32)
	return func() {
		y := one.AddS(1)
		must(y.Item())
		y.Free()
	}
}

// goStep returns the training step of client.py.
func goStep(s *tensor.Session) func() {
	net := nn.Sequential{nn.NewLinear(s, 784, 128, true), nn.ReLU(), nn.NewLinear(s, 128, 128, true), nn.ReLU(), nn.NewLinear(s, 128, 10, true)}
	params := nn.Tensors(net.Params())
	opt := optim.NewSGD(net.Params(), optim.SGDOptions{LR: 1e-2})
	classes := make([]int64, 32)
	for i := range classes {
		classes[i] = int64(i % 10)
	}
	x, y := tensor.Rand(s, tensor.F32, 32, 784), tensor.From(s, classes)
	return func() {
		var loss *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			loss = sc.Keep(nn.CrossEntropy(net.Forward(x), y))
			check(opt.Step(must(autograd.Grad(loss, params...))))
		})
		must(loss.Item())
		loss.Free()
	}
}
