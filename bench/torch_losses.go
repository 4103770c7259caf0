package bench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

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
func compareLosses(ctx context.Context, o *Options, r *Report, t *trial, dir string, trainers []*trainer, p, other *torchPeer) (float64, error) {
	n := o.work(lossSteps)
	last := trainers[len(trainers)-1]
	alone := make([]float64, min(n, aloneTurns*t.steps))
	for i := range alone {
		var err error
		if err = ctx.Err(); err == nil {
			alone[i], err = last.step()
		}
		if err != nil {
			return 0, err
		}
	}
	var want []float64
	worst := 0.0
	path := filepath.Join(dir, "parameters.safetensors")
	for len(want) < n {
		if err := p.save(t, path); err != nil {
			return 0, err
		}
		span, err := p.losses(t, min(lossSpan, n-len(want)))
		if err != nil {
			return 0, err
		}
		for _, tr := range trainers {
			if len(want) > 0 && tr != last {
				continue
			}
			off, err := tr.follow(ctx, path, len(want), span)
			if err != nil {
				return 0, fmt.Errorf("from PyTorch's step %d: %w", len(want), err)
			}
			worst = math.Max(worst, off) // NaN stays
		}
		want = append(want, span...)
	}
	same, err := other.losses(t, len(alone))
	if err != nil {
		return 0, err
	}
	r.measured(&series{name: fmt.Sprintf("%s, losses from PyTorch's, %d steps", t.Name, n), unit: "relative", rounds: [][]float64{{worst}}})
	r.measured(&series{name: t.Name + ", steps that a run of its own is as near, of " + strconv.Itoa(len(alone)), unit: "steps", rounds: [][]float64{{float64(together(alone, want))}}})
	r.measured(&series{name: t.Name + ", steps that tuned PyTorch is as near, of " + strconv.Itoa(len(alone)), unit: "steps", rounds: [][]float64{{float64(together(same, want))}}})
	return worst, nil
}

// follow takes over what a process of PyTorch wrote to path after so many steps, takes as
// many steps as want has losses and returns how far one is from these at most,
// relatively.
func (tr *trainer) follow(ctx context.Context, path string, steps int, want []float64) (off float64, err error) {
	if _, err := nn.Load(path, append(tr.net.Params(), tr.opt.State()...), nil); err != nil {
		return 0, err
	}
	tr.opt.SetSteps(steps)
	for _, w := range want {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		got, err := tr.step()
		if err != nil {
			return 0, err
		}
		off = math.Max(off, relativeTo(got, w))
	}
	return off, nil
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
