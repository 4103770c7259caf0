package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestExact wants a run in parts to end with the same weights on any number of workers,
// with and without parts of the optimizer's state, also if it goes on from a checkpoint
// on another number of them.
func TestExact(t *testing.T) { devicetest.Each(t, testExact) }

func testExact(t *devicetest.T) {
	const parts = 6
	m := find(t, "qwen3-tiny")
	run := func(workers int, zero1 bool, o Options) *Summary {
		t.Helper()
		c := parse(t, fmt.Sprintf("workers: %d\nzero1: %v\nexact: %d\nbatch: {shard: {axis: 0}}", workers, zero1, parts))
		s, _ := throughWorkers(t, workers, &client.Options{Config: c})
		ctx, o2 := stopAt(t, o, o.Steps/2)
		if o.Checkpoint == "" || o.Resume != "" {
			ctx = t.Context()
		}
		sum, err := m.Train(ctx, s, someText(), o2)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	o := Options{Steps: 4, Batch: 2 * parts, LossEvery: 1, Seed: 7, Sample: -1, Exact: parts, inFlight: 1}
	one := run(1, false, o)
	if one.ExactWeights == "" {
		t.Fatal("the summary has no digest of the weights")
	}
	for _, c := range []struct {
		workers int
		zero1   bool
	}{{2, true}, {3, false}} {
		if got := run(c.workers, c.zero1, o); got.ExactWeights != one.ExactWeights {
			t.Errorf("%d workers, zero1 %v: weights %s, on one worker %s", c.workers, c.zero1, got.ExactWeights, one.ExactWeights)
		}
	}
	o.Checkpoint = filepath.Join(t.TempDir(), "run")
	if sum := run(3, true, o); !sum.Stopped || sum.Steps != o.Steps/2 {
		t.Fatalf("stopped %v at step %d", sum.Stopped, sum.Steps)
	}
	if _, err := m.Train(t.Context(), inProcess(t), someText(), &Options{Resume: o.Checkpoint}); !errors.Is(err, checkpoint.ErrMismatch) {
		t.Errorf("going on without parts: %v", err)
	}
	other := &Options{Resume: o.Checkpoint, Exact: parts, Recompute: true}
	if _, err := m.Train(t.Context(), inProcess(t), someText(), other); !errors.Is(err, checkpoint.ErrMismatch) || !strings.Contains(err.Error(), "recompute") {
		t.Errorf("resumed with other layers computed again: %v", err)
	}
	back := Options{Resume: o.Checkpoint, Exact: parts, Steps: o.Steps, LossEvery: 1, Sample: -1}
	if got := run(2, false, back); got.ExactWeights != one.ExactWeights || got.Resumed != o.Steps/2 {
		t.Errorf("resumed at step %d on two workers: weights %s, on one worker %s", got.Resumed, got.ExactWeights, one.ExactWeights)
	}
}
