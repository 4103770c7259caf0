package bench

import (
	"errors"
	"path/filepath"
	"strconv"
)

const (
	minTrainOverDDP = 1.3
	ddpRanks        = 2
	ddpBatch        = 8 // each of two workers has half of it
	ddpLosses       = 20
)

// runDDP times training steps of two workers of one thread each, of which each has half
// of the batch, beside two processes of PyTorch of one thread each, whose matrix products
// are by OpenBLAS's fastest kernels and whose gradients DistributedDataParallel adds up
// over Gloo, and beside one worker of two threads. All start from the same weights, and
// the losses are compared first.
func runDDP(r *run) {
	t := r.torch()
	two, one := r.through(ddpRanks, 1), r.through(1, ddpRanks)
	two.name, one.name = count(ddpRanks, "worker"), "1 worker of "+count(ddpRanks, "thread")
	peer := &torchPeer{name: "PyTorch DDP over Gloo"}
	store := filepath.Join(t.dir, "store")
	for rank := range ddpRanks {
		args := append(torchEnv(1, t.fastCore(r.ctx)), "GLOO_SOCKET_IFNAME=lo")
		peer.start(r, t, append(args, t.python, "-B", "ddp.py", strconv.Itoa(rank), strconv.Itoa(ddpRanks), store))
	}
	worst, off := 0.0, 0.0
	for _, t := range inBatches(ddpBatch) {
		if r.Only != "" && r.Only != t.Name {
			continue
		}
		within(t.Name, func() {
			ratio, apart := ddpTrial(r, &t, []*rig{two, one}, peer)
			if off = max(off, apart); worst == 0 || ratio < worst {
				worst = ratio
			}
		})
	}
	r.atMost("ddp_losses", off, maxLossOff)
	r.atLeast("train_2w_over_ddp", worst, minTrainOverDDP)
}

// ddpTrial measures one model on all sides, interleaved, and returns how many steps the
// first rig takes in the time of one of the peer's, and how far losses are apart.
func ddpTrial(r *run, t *trial, rigs []*rig, peer *torchPeer) (ratioOfSteps, off float64) {
	peer.load(t)
	defer peer.drop(t)
	n := r.work(t.steps)
	want := peer.losses(t, ddpLosses)
	var sides []side
	for _, g := range rigs {
		tr := newTrainer(g.sess, t)
		defer tr.free()
		for _, w := range want {
			off = max(off, relativeTo(tr.step(), w))
		}
		sides = append(sides, tr.turn(r, t.Name+", "+g.name, n))
	}
	theirs := peer.turn(t, t.Name+", "+peer.name, n)
	before := rigs[0].client.Stats().Calls
	r.measure(turns{rounds: r.rounds(7), warm: true}, sides[0], sides[1], theirs)
	if rigs[0].client.Stats().Calls == before {
		check(errors.New("bench: no collective in a training step of several workers"))
	}
	r.single(t.Name+", steps of 2 workers over 1 worker's", "ratio", ratio(sides[1].series, sides[0].series))
	return ratio(theirs.series, sides[0].series), off
}
