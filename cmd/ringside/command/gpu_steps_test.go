package command

import (
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

// TestStepsOnGPUs has a client train a language model through workers on GPUs, each a
// process over the stand-in, in the ways that several do it together. The losses are
// those of the cores. All graphs are captured by step 3, no memory of another process is
// opened, and a step on one worker makes four calls of the driver. Sampled, it is one
// worker and few steps.
func TestStepsOnGPUs(t *testing.T) {
	ways := []struct {
		workers, steps int
		args           []string
	}{
		{1, 20, nil}, {2, 20, []string{"--workers", "2"}}, {2, 6, []string{"--workers", "2", "--zero1"}},
		{2, 6, []string{"--stages", "2"}}, {4, 6, []string{"--mesh", "2x2", "--auto-shard"}},
	}
	if testsize.Sampled() {
		ways = ways[:1]
		ways[0].steps = 5
	}
	for _, w := range ways {
		t.Run(fmt.Sprint(w.workers, w.args), func(t *testing.T) { stepsOnGPUs(t, w.workers, w.steps, w.args) })
	}
}

// stepsOnGPUs is the test of one way.
func stepsOnGPUs(t *testing.T, workers, steps int, how []string) {
	runtimeDir(t)
	standIn(t)
	args := []string{"--data", shortText(t), "--sample=-1", "--seed", "3", "--loss-every", "1", "--batch", fmt.Sprint(min(workers, 2))}
	want := trained(t, append(args, "--steps", fmt.Sprint(steps), "--in-process")...)
	up := start(t, "up", "--device", "cuda", "-n", fmt.Sprint(workers))
	args = slices.Concat(args, how, []string{"--connect", up.wait(`^ready at (\S+);`)[1]})
	run := func(steps int) (o outcome, did gpuWork) {
		before := gpuWorkOf(t)
		o = trainedApart(t, append(slices.Clone(args), "--steps", fmt.Sprint(steps))...)
		now := gpuWorkOf(t)
		return o, gpuWork{now.captures - before.captures, now.calls - before.calls, now.opens}
	}
	run(2) // has all kernels loaded
	_, few := run(3)
	got, many := run(steps)
	sameLosses(t, "on GPUs", got, want)
	if many.captures != few.captures || few.captures == 0 {
		t.Errorf("%d captures in %d steps, expected the %d of 3 steps", many.captures, steps, few.captures)
	}
	if many.opens > 0 {
		t.Errorf("%d segments of other processes were opened, expected none", many.opens)
	}
	calls := float64(many.calls-few.calls) / float64(steps-3)
	t.Logf("%.4g calls of the driver a step, %.4g a worker", calls, calls/float64(workers))
	if workers == 1 && (calls > stepCalls || calls < 1) {
		t.Errorf("%.4g calls of the driver a step, expected 1 to %d", calls, stepCalls)
	}
	_ = up.Process.Signal(os.Interrupt)
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
}

// gpuWork is what the workers of a cluster have had their GPUs do.
type gpuWork struct{ captures, calls, opens uint64 }

// gpuWorkOf asks the workers of this user's dispatcher.
func gpuWorkOf(t *testing.T) (sum gpuWork) {
	t.Helper()
	w, err := watcher(t.Context(), "", &keys{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, err := sampleNow(t.Context(), w, nil, notice)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range s.Workers {
		if x.Watched == nil {
			t.Fatalf("%s does not answer", name)
		}
		sum.captures += x.Counters.Get(metrics.Captures)
		sum.calls += x.Counters.Get(metrics.DriverCalls)
		sum.opens += x.Counters.Get(metrics.IPCOpens)
	}
	return sum
}
