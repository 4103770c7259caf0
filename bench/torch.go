package bench

import (
	"cmp"
	"slices"
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
func runTorch(r *run) {
	t := r.torch()
	var rigs []*rig
	var peers []*torchPeer
	for threads := 1; threads <= torchThreads; threads++ {
		g := r.through(1, threads)
		g.name = "ringside, " + count(threads, "thread")
		rigs = append(rigs, g)
	}
	for _, how := range []tuning{untuned, fullTuned} {
		for threads := 1; threads <= torchThreads; threads++ {
			peers = append(peers, r.torchPeer(t, threads, how))
		}
	}
	worst := 0.0
	for _, t := range trials() {
		if r.Only == "" || r.Only == t.Name {
			within(t.Name, func() { worst = max(worst, runTrial(r, &t, rigs, peers)) })
		}
	}
	r.atMost("torch_losses", worst, maxLossOff)
}

// runTrial measures one trial on all sides, the rigs first, and returns how far the
// losses are apart.
func runTrial(r *run, t *trial, rigs []*rig, peers []*torchPeer) (off float64) {
	began := time.Now()
	n, rounds := r.work(t.steps), r.rounds(7)
	if r.Rounds == 0 && t.steps < 5 {
		rounds = 3 // a round of these models takes a quarter of a minute
	}
	var trainers []*trainer
	var waits, ours, theirs []side // waits are ours, where each loss is waited for
	for _, g := range rigs {
		tr := newTrainer(g.sess, t)
		defer tr.free()
		trainers = append(trainers, tr)
		name := t.Name + ", " + g.name
		waits = append(waits, sampled(name+", every loss read", "ms", 0, func(int) []float64 { return tr.each(r.ctx, n) }))
		ours = append(ours, tr.turn(r, name, n))
	}
	for _, p := range peers {
		p.load(t)
		defer p.drop(t)
		theirs = append(theirs, p.turn(t, t.Name+", "+p.name, n))
	}
	off = compareLosses(r, t, trainers, peers[torchThreads-1], peers[2*torchThreads-1])
	r.progress("model", t.Name, "losses", off, "seconds", time.Since(began).Seconds())
	r.measure(turns{rounds: rounds, warm: true}, slices.Concat(waits, ours, theirs)...)
	r.progress("model", t.Name, "rounds", rounds, "seconds", time.Since(began).Seconds())
	r.single(t.Name+" over tuned PyTorch", "ratio", ratio(best(ours), best(theirs[torchThreads:])))
	r.atMost("torch_"+t.Name, ratio(best(ours), best(theirs[:torchThreads])), t.limit)
	return off
}

// turn is a side that takes n steps, of which every tenth loss is read.
func (tr *trainer) turn(r *run, name string, n int) side {
	return number(name, "ms", n, func() float64 {
		every := onTheWay
		if _, ok := tr.net.(*decoder); ok {
			every = 1 // the next token depends on the last one
		}
		_, average := tr.steps(r.ctx, n, every)
		return average
	})
}

// turn is a side that takes n steps of a model that is loaded.
func (p *torchPeer) turn(t *trial, name string, n int) side {
	return number(name, "ms", n, func() float64 { return p.steps(t, n) })
}

// best is the series with the least median.
func best(sides []side) *series {
	return slices.MinFunc(sides, func(a, b side) int { return cmp.Compare(a.median(), b.median()) }).series
}
