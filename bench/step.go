package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/explain"
)

const (
	maxStepRatio = 1.25
	maxStepMS    = 8

	maxLargerRatio = 1.05
	maxPeakRatio   = 1.3
	minHits        = 1
	maxFaults      = 0
)

// runStep times training steps of a transformer so small that the cost around the
// arithmetic shows, each on tokens of its own. Every step waits for its loss, as in
// interactive use. A third side reads every tenth loss, and so shows the cost without
// waiting.
func runStep(r *run) {
	t := must(findTrial("qwen_t64"))
	fresh := func(g *rig) *trainer {
		tr := newTrainer(g.sess, t)
		tr.fresh = &t.Form
		return tr
	}
	near, far := r.inProcess(nil), r.through(1, 1)
	local, remote := fresh(near), fresh(far)
	// In turns of few steps: whatever disturbs one side disturbs the other.
	const block = 10
	steps := func(name string, tr *trainer, every int) side {
		return sampled(name, "ms", 0, func(int) []float64 {
			each, _ := tr.steps(r.ctx, block, every)
			return each
		})
	}
	here, there := steps(near.name, local, 1), steps(far.name, remote, 1)
	r.measure(turns{rounds: r.rounds(15), warm: true, blocks: r.work(5)},
		here, there, steps("cluster, every 10th loss read", remote, r.work(10)))
	r.atMost("step_cluster_over_inprocess", ratio(there.series, here.series), maxStepRatio)
	r.atMost("step_cluster_ms", there.median(), maxStepMS)
	largerSteps(r, far)
}

// largerSteps measures what a step of 10 ms of arithmetic costs through the cluster, and
// what both do once they have done a step before: plans found in the cache, memory beside
// the least possible, page faults of the worker.
func largerSteps(r *run, far *rig) {
	t := must(findTrial("qwen_t128"))
	near := r.inProcess(&cpu.Options{})
	dev := device.Of(near.sess.Engine())
	local, remote := newTrainer(near.sess, t), newTrainer(far.sess, t)
	defer local.free()
	defer remote.free()
	n := max(r.work(10), 2)
	here := sampled("t128 in-process", "ms", 0, func(int) []float64 { return local.each(r.ctx, n) })
	faults := 0
	there := sampled("t128 cluster", "ms", 0, func(int) []float64 {
		start := pageFaults(far.worker())
		got := remote.each(r.ctx, n)
		faults = (pageFaults(far.worker()) - start) / len(got)
		return got
	})
	faulted := number("page faults of the worker in a step", "faults", 0, func() float64 { return float64(faults) })
	here.run(0) // and compile
	there.run(0)
	before, sent := dev.Stats(), far.client.Stats()
	r.measure(turns{rounds: r.rounds(9)}, here, there, faulted)
	after, known := dev.Stats(), far.client.Stats()

	share := func(hits, misses uint64) float64 { return float64(hits) / float64(hits+misses) }
	r.atMost("step_t128_cluster_over_inprocess", ratio(there.series, here.series), maxLargerRatio)
	r.atLeast("plan_hits", share(after.Hits-before.Hits, after.Misses-before.Misses), minHits)
	r.atLeast("program_hits", share(known.Known-sent.Known, known.Bodies-sent.Bodies), minHits)
	r.single("t128 programs that the worker keeps", "programs", float64(known.Programs))
	r.single("t128 programs that it keeps, encoded", "bytes", float64(known.ProgramBytes))
	r.atMost("peak_over_lower_bound", planOf(r, t).Stats().Over, maxPeakRatio)
	r.atMost("faults_per_step", faulted.median(), maxFaults)
}

// planOf takes a step of t on a device of its own and returns its plan: the longest that
// ran.
func planOf(r *run, t *trial) (longest explain.Plan) {
	steps := 0
	g := r.inProcess(&cpu.Options{Trace: func(p explain.Plan, _ int, _ time.Duration) {
		if p.Steps() > steps {
			longest, steps = p, p.Steps()
		}
	}})
	newTrainer(g.sess, t).step()
	return longest
}

// pageFaults is how many a process has had, minor ones and major ones: fields 10 and 12
// of /proc/PID/stat.
func pageFaults(pid int) (total int) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	b := must(os.ReadFile(name))
	// From field 3 on: the name may have spaces.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	for _, i := range []int{10, 12} {
		if i-3 >= len(f) {
			check(fmt.Errorf("bench: %s has %d fields after the name, expected %d or more", name, len(f), i-2))
		}
		within(fmt.Sprintf("bench: %s: field %d", name, i), func() { total += must(strconv.Atoi(string(f[i-3]))) })
	}
	return total
}
