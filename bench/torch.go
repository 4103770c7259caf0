package bench

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	// maxLossOff is how far losses may be from PyTorch's, relatively, over lossSteps
	// steps, see compareLosses.
	maxLossOff = 1e-4
	lossSteps  = 50
	// torchThreads is up to how many threads both sides are tried with; the best of each
	// counts.
	torchThreads = 2
)

// runTorch times training steps through a cluster beside eager PyTorch. Both sides start
// from the same weights, and their losses are compared first. A turn is some steps until
// all of them are done. Neither side reads the loss of each step, as a training loop does
// not; ours is also measured with that. The best number of threads of each side counts.
// Tuned PyTorch is measured as well, without a bar; it says more where OpenBLAS chooses
// bad kernels.
func runTorch(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "torch"}
	python, err := findTorch(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ringside-torch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpackTorch(dir); err != nil {
		return nil, err
	}
	var rigs []*rig
	var peers []*torchPeer
	defer func() {
		for _, g := range rigs {
			g.close()
		}
		for _, p := range peers {
			p.close()
		}
	}()
	for threads := 1; threads <= torchThreads; threads++ {
		g, err := throughThreads(ctx, o, threads)
		if err != nil {
			return nil, err
		}
		g.name = "ringside, " + count(threads, "thread")
		rigs = append(rigs, g)
	}
	for _, how := range []tuning{untuned, fullTuned} {
		for threads := 1; threads <= torchThreads; threads++ {
			p, err := startTorch(ctx, python, dir, threads, how)
			if err != nil {
				return nil, err
			}
			peers = append(peers, p)
		}
	}
	worst := 0.0
	for _, t := range trials() {
		if o.Only != "" && o.Only != t.Name {
			continue
		}
		off, err := runTrial(ctx, o, r, &t, dir, rigs, peers)
		if ctx.Err() != nil {
			return nil, ctx.Err() // rather than that its processes ended
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		worst = max(worst, off)
	}
	r.atMost("torch_losses", worst, maxLossOff)
	return r, nil
}

// runTrial measures one trial on all sides, the rigs first, and returns how far the
// losses are apart.
func runTrial(ctx context.Context, o *Options, r *Report, t *trial, dir string, rigs []*rig, peers []*torchPeer) (off float64, err error) {
	began := time.Now()
	var trainers []*trainer
	var sides []*series
	for _, g := range rigs {
		tr, err := newTrainer(g.sess, t)
		if err != nil {
			return 0, err
		}
		defer tr.free()
		trainers = append(trainers, tr)
		sides = append(sides, &series{name: t.Name + ", " + g.name, unit: "ms"})
	}
	for _, p := range peers {
		if err := p.load(t); err != nil {
			return 0, err
		}
		defer p.drop(t)
		sides = append(sides, &series{name: t.Name + ", " + p.name, unit: "ms"})
	}
	if off, err = compareLosses(ctx, o, r, t, dir, trainers, peers[torchThreads-1], peers[2*torchThreads-1]); err != nil {
		return 0, err
	}
	waits := make([]*series, len(trainers)) // ours, where each loss is waited for
	for i := range waits {
		waits[i] = &series{name: sides[i].name + ", every loss read", unit: "ms"}
	}
	o.progress("model", t.Name, "losses", off, "seconds", time.Since(began).Seconds())
	n, rounds := o.work(t.steps), o.rounds(7)
	if o.Rounds == 0 && t.steps < 5 {
		rounds = 3 // a round of these models takes a quarter of a minute
	}
	for round := range rounds + 1 { // the first is not counted
		for i, side := range sides {
			var mean float64
			if i < len(trainers) {
				got, err := trainers[i].each(ctx, n)
				if err != nil {
					return 0, err
				}
				if round > 0 {
					waits[i].add(got...)
				}
				mean, err = trainers[i].steps(ctx, n)
				if err != nil {
					return 0, err
				}
			} else {
				got, err := peers[i-len(trainers)].steps(t, n)
				if err != nil {
					return 0, err
				}
				mean = total(got) / float64(n)
			}
			if round > 0 {
				side.n = n
				side.add(mean)
			}
		}
	}
	o.progress("model", t.Name, "rounds", rounds, "seconds", time.Since(began).Seconds())
	for _, side := range waits {
		r.measured(side)
	}
	for _, side := range sides {
		r.measured(side)
	}
	ours := best(sides[:len(rigs)])
	r.measured(&series{name: t.Name + " over tuned PyTorch", unit: "ratio",
		rounds: [][]float64{{ratio(ours, best(sides[len(rigs)+torchThreads:]))}}})
	r.atMost("torch_"+t.Name, ratio(ours, best(sides[len(rigs):len(rigs)+torchThreads])), t.limit)
	return off, nil
}

func total(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum
}

// best is the series with the least median.
func best(sides []*series) *series {
	b := sides[0]
	for _, s := range sides[1:] {
		if quantile(s.medians(), 0.5) < quantile(b.medians(), 0.5) {
			b = s
		}
	}
	return b
}
