package bench

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// blasCores names the kernel sets of OpenBLAS, by OPENBLAS_CORETYPE, that are tried where
// its own choice may be bad: Debian's 0.3.21 takes unvectorised ones on newer Intel
// servers (bench/results/emerald-rapids.md).
var blasCores = []string{"SkylakeX", "Haswell"}

// minCoreGain is how much faster kernels must be than those of OpenBLAS's own choice to
// be worth pinning.
const minCoreGain = 1.2

// blasRate prints the GFLOP/s of the better of some products on one thread.
const blasRate = `import time, torch
torch.set_num_threads(1)
n, best = 384, 0
a, b, c = torch.rand(n, n), torch.rand(n, n), torch.empty(n, n)
torch.mm(a, b, out=c)
for _ in range(10):
    start = time.perf_counter()
    for _ in range(4):
        torch.mm(a, b, out=c)
    best = max(best, 4 * 2 * n**3 / (time.perf_counter() - start) * 1e-9)
print(best)`

// fastCore returns what OPENBLAS_CORETYPE must be for PyTorch's matrix products to run at
// this machine's speed, empty where OpenBLAS chooses well by itself or is not what
// PyTorch uses.
func (t *torch) fastCore(ctx context.Context) string {
	if t.tried {
		return t.core
	}
	rates := map[string]float64{}
	for range 2 { // neighbours may be in the way once
		for _, core := range append([]string{""}, blasCores...) {
			rates[core] = max(rates[core], blasSpeed(ctx, t.python, core))
		}
	}
	most := minCoreGain * rates[""]
	for _, core := range blasCores {
		if rates[core] > most {
			t.core, most = core, rates[core]
		}
	}
	check(ctx.Err())
	t.tried = true
	return t.core
}

// blasSpeed is 0 where these kernels don't run.
func blasSpeed(ctx context.Context, python, core string) float64 {
	// The rate is printed if nothing failed; otherwise there is no number.
	out, _ := exec.CommandContext(ctx, "env", append(torchEnv(1, core), python, "-c", blasRate)...).Output()
	rate, _ := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return rate
}

// torchEnv are env's arguments before a command of PyTorch with so many threads: what
// would pin its BLAS from outside is unset. core pins it to these kernels, if not empty.
func torchEnv(threads int, core string) []string {
	args := []string{"-u", "OPENBLAS_CORETYPE", "-u", "OPENBLAS_L2_SIZE", "-u", "OPENBLAS_NUM_THREADS", "-u", "MKL_NUM_THREADS",
		"OMP_NUM_THREADS=" + strconv.Itoa(threads)}
	if core != "" {
		args = append(args, "OPENBLAS_CORETYPE="+core)
	}
	return args
}
