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

const (
	fourRanks    = 4  // of which the back end should be faster than Gloo at every size
	maxFourCalls = 50 // in a round: ranks that share cores wait for each other's turns
)

// runBackend times calls of torch.distributed and DDP's training steps over Gloo and over
// ringside.torch in turn, by two processes of one thread each, and calls of four.
func runBackend(r *run) {
	t := r.torch()
	c := exec.CommandContext(r.ctx, t.python, "-B", "-c", backendCheck)
	c.Dir = t.dir
	if out, err := c.CombinedOutput(); err != nil {
		check(fmt.Errorf("%w: %w: %s", ErrNoBackend, err, out))
	}
	peers := r.backends(t, ddpRanks)
	for i, x := range backendCases {
		faster := r.besideGloo(peers, x.name, x.bytes, x.n)
		if i > 0 && backendCases[i-1].bar == x.bar {
			last := &r.Bars[len(r.Bars)-1]
			faster = math.Min(faster, last.Value)
			r.Bars = r.Bars[:len(r.Bars)-1]
		}
		r.atLeast(x.bar, faster, x.limit)
	}
	peers = r.backends(t, fourRanks)
	least := math.Inf(1)
	for _, x := range backendCases {
		if x.bytes > 0 {
			least = math.Min(least, r.besideGloo(peers, x.name+", 4 ranks", x.bytes, min(x.n, maxFourCalls)))
		}
	}
	r.atLeast("ddp_4_ranks_over_gloo", least, 1)
}

// backends starts the ranks of both back ends.
func (r *run) backends(t *torch, ranks int) []*torchPeer {
	var peers []*torchPeer
	for _, name := range []string{"gloo", "ringside"} {
		p := &torchPeer{name: name}
		for rank := range ranks {
			p.start(r, t, append(torchEnv(1, t.fastCore(r.ctx)), "GLOO_SOCKET_IFNAME=lo", t.python, "-B", "backend.py",
				strconv.Itoa(rank), strconv.Itoa(ranks), filepath.Join(t.dir, fmt.Sprintf("store-%s-%d", name, ranks)), name))
		}
		peers = append(peers, p)
	}
	return peers
}

// besideGloo times n all-reduces of so many bytes, or n steps, over both back ends in
// turn, and returns Gloo's time over ringside's.
func (r *run) besideGloo(peers []*torchPeer, name string, bytes, n int) float64 {
	n = r.work(n)
	question := map[string]any{"bytes": bytes, "n": n}
	if bytes == 0 {
		question = map[string]any{"steps": n}
	}
	var sides []side
	for _, p := range peers {
		sides = append(sides, number(name+", "+p.name, "us", n, func() float64 {
			slowest := 0.0
			for _, reply := range p.ask(question, 1) {
				slowest = max(slowest, mean(reply.MS)*1e3)
			}
			return slowest
		}))
	}
	r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
	faster := ratio(sides[0].series, sides[1].series)
	r.single(name+", gloo's time over ringside's", "ratio", faster)
	return faster
}
