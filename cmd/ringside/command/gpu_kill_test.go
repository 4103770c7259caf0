package command

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

const (
	// latestGPUKill is when the clients, on an idle machine, have taken some steps. The
	// moments before it are those of starts, captures and first steps too.
	latestGPUKill = 6 * time.Second

	// gpuNotice is notice where a client ends behind a step, and the stand-in takes
	// seconds for one.
	gpuNotice = 5 * time.Minute
)

var gpuKills = flag.Int("gpu.kills", 3, "how many moments TestKillOnGPUs kills at")

// TestKillOnGPUs is TestKillWhileTraining with workers on GPUs, each a process over the
// stand-in, which the first client uses both together. In the end the processes have
// nothing of the GPUs.
func TestKillOnGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("clusters over the stand-in start and end: 15 s")
	}
	r := killRand(t)
	moments := *gpuKills
	standIn(t)
	counters := filepath.Join(t.TempDir(), "counters")
	t.Setenv("FAKECUDA_COUNTERS", counters)
	shm := ownShm(t)
	up := []string{"-n", "2", "--device", "cuda"}
	if shm != "" {
		up = append(up, "--shm", shm)
	}
	args := []string{"--data", shortText(t), "--steps", "1000", "--sample=-1", "--json", "--loss-every", "1"}
	together, alone := append([]string{"--workers", "2", "--batch", "2"}, args...), append([]string{"--batch", "1"}, args...)
	var longest time.Duration
	for i := range moments {
		k := &killing{
			T: t, r: r, at: time.Duration(r.Int64N(int64(latestGPUKill))), within: gpuNotice,
			victim: []string{"worker", "dispatcher", "client"}[i%3],
			up:     up, train: [][]string{together, alone},
		}
		k.round()
		longest = max(longest, k.took)
		ctx, cancel := context.WithTimeout(t.Context(), notice)
		drained(t, ctx, shm)
		cancel()
		if left, err := fakecuda.ReadCounters(counters); err != nil || left != (fakecuda.Counters{}) {
			t.Errorf("left of the GPUs: %+v, %v", left, err)
		}
		if t.Failed() {
			t.Fatalf("moment %d: %s killed %v after the clients' start", i, k.victim, k.at)
		}
	}
	t.Logf("%d kills; the others took at most %v", moments, longest.Round(time.Millisecond))
}
