package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/explain"
)

const (
	maxLargerRatio = 1.05
	maxPeakRatio   = 1.3
	minHits        = 1
	maxFaults      = 0
)

// largerSteps adds to r what a step of 10 ms of arithmetic costs through the cluster, and
// what both do once they have done a step before: plans found in the cache, memory beside
// the least possible, page faults of the worker.
func largerSteps(ctx context.Context, o *Options, r *Report, far *rig) error {
	t, err := findTrial("qwen_t128")
	if err != nil {
		return err
	}
	dev, err := cpu.New(&cpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Close()
	s := tensor.NewSession(device.NewEngine(dev), nil)
	defer s.Close()
	sides := []*series{{name: "t128 in-process", unit: "ms"}, {name: "t128 cluster", unit: "ms"}}
	faults := &series{name: "page faults of the worker in a step", unit: "faults"}
	var trainers []*trainer
	for _, sess := range []*tensor.Session{s, far.sess} {
		tr, err := newTrainer(sess, t)
		if err != nil {
			return err
		}
		defer tr.free()
		trainers = append(trainers, tr)
	}
	n := o.work(10)
	var before device.Stats
	var sent client.Stats
	for round := range o.rounds(9) + 1 { // the first is not counted
		for i, side := range sides {
			start, err := pageFaults(far.worker)
			if err != nil {
				return err
			}
			got, err := trainers[i].each(ctx, max(n, 2))
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			end, err := pageFaults(far.worker)
			if err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			side.add(got...)
			if i == 1 {
				faults.add(float64((end - start) / len(got)))
			}
		}
		if round == 0 {
			before, sent = dev.Stats(), far.client.Stats()
		}
	}
	after, known := dev.Stats(), far.client.Stats()
	plan, err := planOf(t)
	if err != nil {
		return err
	}
	for _, side := range sides {
		r.measured(side)
	}
	r.measured(faults)
	r.atMost("step_t128_cluster_over_inprocess", ratio(sides[1], sides[0]), maxLargerRatio)
	r.atLeast("plan_hits", float64(after.Hits-before.Hits)/float64(after.Hits-before.Hits+after.Misses-before.Misses), minHits)
	r.atLeast("program_hits", float64(known.Known-sent.Known)/float64(known.Known-sent.Known+known.Bodies-sent.Bodies), minHits)
	r.measured(&series{name: "t128 programs that the worker keeps", unit: "programs", rounds: [][]float64{{float64(known.Programs)}}})
	r.measured(&series{name: "t128 programs that it keeps, encoded", unit: "bytes", rounds: [][]float64{{float64(known.ProgramBytes)}}})
	r.atMost("peak_over_lower_bound", plan.Stats().Over, maxPeakRatio)
	r.atMost("faults_per_step", quantile(faults.medians(), 0.5), maxFaults)
	return nil
}

// planOf takes a step of t on a device of its own and returns its plan: the longest that
// ran.
func planOf(t *trial) (explain.Plan, error) {
	var longest explain.Plan
	steps := 0
	s, err := cpu.NewSession(&cpu.Options{Trace: func(p explain.Plan, _ int, _ time.Duration) {
		if p.Steps() > steps {
			longest, steps = p, p.Steps()
		}
	}}, nil)
	if err != nil {
		return explain.Plan{}, err
	}
	defer s.Close()
	tr, err := newTrainer(s, t)
	if err != nil {
		return explain.Plan{}, err
	}
	_, err = tr.step()
	return longest, err
}

// findTrial is the trial of that name.
func findTrial(name string) (*trial, error) {
	for _, t := range trials() {
		if t.Name == name {
			return &t, nil
		}
	}
	return nil, fmt.Errorf("%w model %q", ErrUnknown, name)
}

// pageFaults is how many a process has had, minor ones and major ones: fields 10 and 12
// of /proc/PID/stat.
func pageFaults(pid int) (int, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	// From field 3 on: the name may have spaces.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	total := 0
	for _, i := range []int{10, 12} {
		if i-3 >= len(f) {
			return 0, fmt.Errorf("bench: %s has %d fields after the name, expected %d or more", name, len(f), i-2)
		}
		n, err := strconv.Atoi(string(f[i-3]))
		if err != nil {
			return 0, fmt.Errorf("bench: %s: field %d: %w", name, i, err)
		}
		total += n
	}
	return total, nil
}
