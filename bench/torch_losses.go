package bench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/ringside-go/ringside/tensor/nn"
)

const (
	// lossSpan is how many steps are compared before our sides take over PyTorch's
	// parameters again.
	lossSpan = 5
	// aloneTurns is for how many turns, at most, runs go on that take nothing over: of
	// the largest models 20 steps, after which they are apart, and which take a quarter
	// of a minute a side.
	aloneTurns = 10
)

// compareLosses takes the same steps on our side with the most threads and on PyTorch's
// p, and returns the largest relative distance of a loss from p's. Our other sides take
// only the first span: numbers of threads give the same bits.
//
// Every lossSpan steps our sides take over p's parameters and its optimizer's state. So
// every step along p's way is compared: its loss at once, its gradients and update in the
// losses of the following steps. Rounding errors don't build up from the first step on,
// because their size says nothing about correctness: some models amplify them a
// thousandfold within ten steps. Two processes of PyTorch with different kernels, p and
// other, are then as far apart.
//
// It also measures for how long a run of ours that takes nothing over stays within
// maxLossOff of p, and for how long other does.
func compareLosses(r *run, t *trial, trainers []*trainer, p, other *torchPeer) (worst float64) {
	n := r.work(lossSteps)
	last := trainers[len(trainers)-1]
	alone := make([]float64, min(n, aloneTurns*t.steps))
	for i := range alone {
		check(r.ctx.Err())
		alone[i] = last.step()
	}
	var want []float64
	path := filepath.Join(r.tempDir(), "parameters.safetensors")
	for len(want) < n {
		p.save(t, path)
		span := p.losses(t, min(lossSpan, n-len(want)))
		for _, tr := range trainers {
			if len(want) > 0 && tr != last {
				continue
			}
			within(fmt.Sprintf("from PyTorch's step %d", len(want)), func() {
				// NaN stays.
				worst = math.Max(worst, tr.follow(r.ctx, path, len(want), span))
			})
		}
		want = append(want, span...)
	}
	same := other.losses(t, len(alone))
	r.single(fmt.Sprintf("%s, losses from PyTorch's, %d steps", t.Name, n), "relative", worst)
	r.single(fmt.Sprintf("%s, steps that a run of its own is as near, of %d", t.Name, len(alone)), "steps", float64(together(alone, want)))
	r.single(fmt.Sprintf("%s, steps that tuned PyTorch is as near, of %d", t.Name, len(alone)), "steps", float64(together(same, want)))
	return worst
}

// follow takes over what a process of PyTorch wrote to path after so many steps, takes as
// many steps as want has losses and returns how far one is from these at most,
// relatively.
func (tr *trainer) follow(ctx context.Context, path string, steps int, want []float64) (off float64) {
	must(nn.Load(path, append(tr.net.Params(), tr.opt.State()...), nil))
	tr.opt.SetSteps(steps)
	if m, ok := tr.net.(*decoder); ok {
		m.next = steps % m.form.Seq
	}
	for _, w := range want {
		check(ctx.Err())
		off = math.Max(off, relativeTo(tr.step(), w))
	}
	return off
}

// together is for how many steps two runs' losses, of which one may have taken fewer
// steps, are within maxLossOff of each other.
func together(got, want []float64) int {
	n := min(len(got), len(want))
	for i := range n {
		if !(relativeTo(got[i], want[i]) <= maxLossOff) {
			return i
		}
	}
	return n
}

func relativeTo(x, y float64) float64 { return math.Abs(x-y) / math.Abs(y) }
