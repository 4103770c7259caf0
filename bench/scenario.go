package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
)

// Options of a run. The zero value is the documented default, except for Self.
type Options struct {
	// Rounds is how often every side is measured; 0 is the scenario's own number.
	Rounds int

	// Self makes a command of this program with the given arguments: peers and clusters
	// are processes of the same binary. `ringside bench-peer ARGS` is what they call;
	// tests have their own. Required.
	Self func(args ...string) *exec.Cmd

	// Collective chooses what the scenario collective times.
	Collective CollectiveOptions

	// Reduce chooses what the scenario reduce times.
	Reduce ReduceOptions

	// GPU chooses what the scenario gpu times.
	GPU GPUOptions

	// Table chooses what the scenario ops-table times.
	Table TableOptions

	// Logger receives what a cluster has to say; nil discards.
	Logger *slog.Logger

	// Only restricts a scenario to one of its Parts.
	Only string

	// Scale divides the amount of work in a round, for tests; 0 is 1.
	Scale int
}

func (o *Options) rounds(n int) int {
	if o.Rounds > 0 {
		return o.Rounds
	}
	return n
}

// work is n by the scale, at least 1.
func (o *Options) work(n int) int { return max(n/max(o.Scale, 1), 1) }

// withoutSide is logged of a side that a scenario leaves out.
const withoutSide = "bench: left out"

// without says which side is left out, and why.
func (o *Options) without(what string, why error) {
	if o.Logger != nil {
		o.Logger.Warn(withoutSide, "side", what, "err", why)
	}
}

// progress says how far a scenario that takes minutes has come.
func (o *Options) progress(what ...any) {
	if o.Logger != nil {
		o.Logger.Info("bench: measured", what...)
	}
}

// Scenario is one thing that is timed.
type Scenario struct {
	Name string
	Doc  string // one line
	run  func(r *run)
}

// Run measures the scenario.
func (s Scenario) Run(ctx context.Context, o *Options) (_ *Report, err error) {
	r := &run{Options: o, Report: &Report{Bench: s.Name}, ctx: ctx}
	r.near = series{name: "cache line in C, cores near", unit: "ns"}
	r.far = series{name: "cache line in C, cores far", unit: "ns"}
	defer func() {
		for _, end := range slices.Backward(r.ends) {
			err = errors.Join(err, end())
		}
		if ctx.Err() != nil {
			err = ctx.Err() // rather than that processes ended
		}
	}()
	return r.Report, try(func() {
		s.run(r)
		for _, line := range []*series{&r.near, &r.far} {
			if len(line.rounds) > 0 {
				r.measured(line)
			}
		}
	})
}

// Scenarios lists them in the order they are shown.
func Scenarios() []Scenario {
	return []Scenario{
		{"step", "a training step of a small transformer through a cluster of processes, beside the same step in-process", runStep},
		{"torch", "training steps of ten models and decoding with one through a cluster of processes, beside PyTorch", runTorch},
		{"ddp", "training steps of two workers that have half of a batch each, beside two processes of PyTorch with DDP over Gloo", runDDP},
		{"exact", "training steps of two workers with the same bits on any number of them, beside ordinary ones", runExact},
		{"torch-backend", "calls of torch.distributed by two and four processes, and DDP steps of two, over ringside.torch, beside Gloo", runBackend},
		{"python", "operations, views and training steps of the client in Python, beside the client in Go", runPython},
		{"kernels", "matrix products, an optimizer's pass and a chain of elementwise operations, beside OpenBLAS, C and PyTorch", runKernels},
		{"gpu", "loading of kernels, launches, passes over memory, matrix products, attention and training steps on a GPU, beside its own copy and kernels", runGPU},
		{"ops", "many small operations, and one at a time, through a cluster of processes, beside a unix socket", runOps},
		{"ops-table", "every operation of the op table by dtypes and layouts, beside PyTorch and the least that the machine needs", runOpsTable},
		{"eager", "operations that are each waited for, as in interactive use, through a cluster beside in-process", runEager},
		{"transfer", "values going to a worker and coming back, beside memcpy", runTransfer},
		{"wire", "exchanges over TCP with checksums and with TLS, beside the same without", runWire},
		{"latency", "round trips of 64 bytes between two processes, beside C, sockets, pipes and other libraries", runLatency},
		{"latency-idle", "round trips with pauses of 1 ms, in which both sleep, beside a futex in C", runIdle},
		{"latency-hops", "round trips through a process in the middle, beside unix sockets", runHops},
		{"throughput", "messages and payloads one way, beside C, Open MPI and memcpy; what an idle conn costs", runThroughput},
		{"collective", "all-reduces and other collectives of 2 and 4 ranks, beside C, Open MPI and Gloo", runCollective},
		{"reduce", "reductions of a tensor that several workers have parts of, beside fetching the parts, and beside one worker", runReduce},
		{"trace", "a training step of a small transformer while a trace of it is written, beside the same step without", runTrace},
		{"guide", "choices of a user both ways, as the table of docs/tuning.md", runGuide},
		{"fairness", "steps of clients beside one that floods their worker, beside an even load", runFairness},
		{"gather", "gathers of many peers on several ranks, and updates under a memory budget, beside one rank and limits", runGather},
	}
}

// Parts are what Options.Only may restrict the scenario to: models of torch, ddp and
// exact, parts of kernels, gpu and gather; none of most.
func (s Scenario) Parts() []string {
	var of []trial
	switch s.Name {
	case "kernels":
		return []string{"products", "adamw", "chain"}
	case "gpu":
		var names []string
		for _, part := range gpuParts {
			names = append(names, part.name)
		}
		return names
	case "gather":
		var names []string
		for _, part := range gatherParts {
			names = append(names, part.name)
		}
		return names
	case "torch":
		of = trials()
	case "ddp":
		of = inBatches(ddpBatch)
	case "exact":
		of = inBatches(exactBatch)
	}
	var names []string
	for _, t := range of {
		names = append(names, t.Name)
	}
	return names
}

// Find is the scenario of that name: ErrUnknown, which lists all, if there is none.
func Find(name string) (Scenario, error) {
	var all []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		all = append(all, s.Name)
	}
	return Scenario{}, fmt.Errorf("%w scenario %q; expected one of %s", ErrUnknown, name, strings.Join(all, ", "))
}
