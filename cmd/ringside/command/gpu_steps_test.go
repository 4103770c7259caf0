package command

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// stepCalls bounds the calls of the driver for a step on one worker: the page, the graph,
// what comes back, the event that is waited for.
const stepCalls = 4

// gpuSteps makes TestStepsOnGPUs the long test.
var gpuSteps = flag.Int("gpu.steps", 0, "steps of each way of TestStepsOnGPUs, 5 at least; 0: 5 on one worker, 2 on several")

// TestStepsOnGPUs has a client train a language model through workers on GPUs, each a
// process over the stand-in, in the ways that several do it together. The losses are
// those of the cores, and stages send from GPU to GPU alone. On one worker, and with
// -gpu.steps in all ways, the steps after the third capture nothing and open no memory of
// others, and those on one worker make four calls of the driver. Sampled, it is one
// worker.
func TestStepsOnGPUs(t *testing.T) {
	ways := []struct {
		workers int
		args    []string
	}{
		{1, nil}, {2, []string{"--workers", "2"}}, {2, []string{"--workers", "2", "--zero1"}},
		{2, []string{"--stages", "2"}}, {4, []string{"--mesh", "2x2", "--auto-shard"}},
	}
	if testsize.Sampled() || testing.Short() {
		ways = ways[:1]
	}
	for _, w := range ways {
		steps := *gpuSteps
		if w.workers == 1 || steps > 0 {
			steps = max(steps, 5)
		}
		t.Run(fmt.Sprint(w.workers, w.args), func(t *testing.T) { stepsOnGPUs(t, w.workers, steps, w.args) })
	}
}

// stepsOnGPUs is the test of one way. With no number of steps it looks at the losses of
// two alone.
func stepsOnGPUs(t *testing.T, workers, steps int, how []string) {
	runtimeDir(t)
	standIn(t)
	args := []string{"--data", shortText(t), "--sample=-1", "--seed", "3", "--loss-every", "1", "--batch", fmt.Sprint(min(workers, 2))}
	want := trained(t, append(args, "--steps", fmt.Sprint(max(steps, 2)), "--in-process")...)
	up := start(t, "up", "--device", "cuda", "-n", fmt.Sprint(workers))
	args = slices.Concat(args, how, []string{"--connect", up.wait(`^ready at (\S+);`)[1]})
	run := func(steps int) (o outcome, did gpuWork) {
		before := gpuWorkOf(t)
		o = trainedApart(t, append(slices.Clone(args), "--steps", fmt.Sprint(steps))...)
		now := gpuWorkOf(t)
		return o, gpuWork{now.captures - before.captures, now.calls - before.calls, now.opens - before.opens, now.byPeer - before.byPeer, now.byHost - before.byHost}
	}
	if steps == 0 {
		got, did := run(2)
		sameLosses(t, "on GPUs", got, want)
		if did.captures == 0 {
			t.Error("no graph was captured in 2 steps")
		}
		if stages := slices.Contains(how, "--stages"); stages != (did.byPeer > 0) || did.byHost > 0 {
			t.Errorf("%d values were sent from GPU to GPU and %d by host memory", did.byPeer, did.byHost)
		}
	} else {
		steadyOnGPUs(t, workers, steps, run, want)
	}
	_ = up.Process.Signal(os.Interrupt)
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
}

// steadyOnGPUs compares what so many steps do with what three do. On several workers the
// addresses of the first steps' values depend on when others are ready, so two sessions
// may differ by a few captures: fewer than one for each further step.
func steadyOnGPUs(t *testing.T, workers, steps int, run func(steps int) (outcome, gpuWork), want outcome) {
	t.Helper()
	run(2) // has all kernels loaded
	_, few := run(3)
	got, many := run(steps)
	sameLosses(t, "on GPUs", got, want)
	more := int64(many.captures) - int64(few.captures)
	if more >= int64(steps-3) || workers == 1 && more != 0 || few.captures == 0 {
		t.Errorf("%d captures in %d steps and %d in 3, expected as many", many.captures, steps, few.captures)
	}
	if many.opens != few.opens || workers == 1 && few.opens > 0 {
		t.Errorf("%d segments of other processes were opened in %d steps and %d in 3, expected as many, and none on one worker", many.opens, steps, few.opens)
	}
	calls := float64(many.calls-few.calls) / float64(steps-3)
	t.Logf("%.4g calls of the driver a step, %.4g a worker; %d captures, %d in 3 steps; %d segments of others opened in the session",
		calls, calls/float64(workers), many.captures, few.captures, many.opens)
	if workers == 1 && (calls > stepCalls || calls < 1) {
		t.Errorf("%.4g calls of the driver a step, expected 1 to %d", calls, stepCalls)
	}
}

// gpuWork is what the workers of a cluster have had their GPUs do.
type gpuWork struct {
	captures, calls, opens uint64
	byPeer, byHost         uint64 // values sent to another stage
}

// gpuWorkOf asks the workers of this user's dispatcher, as soon as none of them has a
// session: a worker frees what a session had on its GPU after its client has gone, and
// that takes calls of the driver too.
func gpuWorkOf(t *testing.T) (sum gpuWork) {
	t.Helper()
	w, err := watcher(t.Context(), "", &keys{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for open := 1; open > 0; {
		s, err := sampleNow(t.Context(), w, nil, notice)
		if err != nil {
			t.Fatal(err)
		}
		sum, open = gpuWork{}, 0
		for name, x := range s.Workers {
			if x.Watched == nil {
				t.Fatalf("%s does not answer", name)
			}
			open += len(x.Sessions)
			sum.captures += x.Counters.Get(metrics.Captures)
			sum.calls += x.Counters.Get(metrics.DriverCalls)
			sum.opens += x.Counters.Get(metrics.IPCOpens)
			sum.byPeer += x.Counters.Get(metrics.TransfersPeer)
			sum.byHost += x.Counters.Get(metrics.TransfersHost)
		}
	}
	return sum
}
