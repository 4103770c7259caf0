package bench

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
)

// backendCases are all-reduces of so many bytes, and what the back end of
// torch.distributed should be faster than Gloo's by. 0 bytes is a DDP step.
var backendCases = []struct {
	name  string
	bytes int
	n     int // calls in a round
	bar   string
	limit float64
}{
	{"all-reduce of 4 B", 4, 500, "ddp_small_over_gloo", 20},
	{"all-reduce of 1 KB", 1 << 10, 500, "ddp_small_over_gloo", 20},
	{"all-reduce of 64 KB", 64 << 10, 300, "ddp_small_over_gloo", 20},
	{"all-reduce of 1 MB", 1 << 20, 100, "ddp_medium_over_gloo", 8},
	{"all-reduce of 16 MB", 16 << 20, 20, "ddp_large_over_gloo", 3},
	{"DDP step of MLP 784-128-128-10, batch 32", 0, 100, "ddp_step_over_gloo", 2},
}

// backendCheck fails without the Python package.
const backendCheck = `import ringside.torch
from ringside import _native
_native.library()`

// runBackend times calls of torch.distributed and DDP's training steps over Gloo and over
// ringside.torch in turn, by two processes of one thread each.
func runBackend(r *run) {
	t := r.torch()
	c := exec.CommandContext(r.ctx, t.python, "-B", "-c", backendCheck)
	c.Dir = t.dir
	if out, err := c.CombinedOutput(); err != nil {
		check(fmt.Errorf("%w: %w: %s", ErrNoBackend, err, out))
	}
	var peers []*torchPeer
	for _, name := range []string{"gloo", "ringside"} {
		p := &torchPeer{name: name}
		for rank := range ddpRanks {
			p.start(r, t, append(torchEnv(1, t.fastCore(r.ctx)), "GLOO_SOCKET_IFNAME=lo", t.python, "-B", "backend.py",
				strconv.Itoa(rank), strconv.Itoa(ddpRanks), filepath.Join(t.dir, "store-"+name), name))
		}
		peers = append(peers, p)
	}
	for i, x := range backendCases {
		n := r.work(x.n)
		question := map[string]any{"bytes": x.bytes, "n": n}
		if x.bytes == 0 {
			question = map[string]any{"steps": n}
		}
		var sides []side
		for _, p := range peers {
			sides = append(sides, number(x.name+", "+p.name, "us", n, func() float64 {
				slowest := 0.0
				for _, reply := range p.ask(question, 1) {
					slowest = max(slowest, mean(reply.MS)*1e3)
				}
				return slowest
			}))
		}
		r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
		faster := ratio(sides[0].series, sides[1].series)
		r.single(x.name+", gloo's time over ringside's", "ratio", faster)
		if i > 0 && backendCases[i-1].bar == x.bar {
			last := &r.Bars[len(r.Bars)-1]
			faster = math.Min(faster, last.Value)
			r.Bars = r.Bars[:len(r.Bars)-1]
		}
		r.atLeast(x.bar, faster, x.limit)
	}
}
