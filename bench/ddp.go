package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

const (
	minTrainOverDDP = 1.3
	ddpRanks        = 2
	ddpLosses       = 20
)

// ddpTrials are models and batches of the size that train takes: each of two workers has
// half of a batch.
func ddpTrials() []trial {
	var out []trial
	for _, t := range trials() {
		switch t.Name {
		case "qwen_t64", "qwen_t128":
			t.Form.Batch = 8
			t.Name += "_b8"
			out = append(out, t)
		}
	}
	return out
}

// runDDP times training steps of two workers of one thread each, of which each has half
// of the batch, beside two processes of PyTorch of one thread each, whose matrix products
// are by OpenBLAS's fastest kernels and whose gradients DistributedDataParallel adds up
// over Gloo, and beside one worker of two threads. All start from the same weights, and
// the losses are compared first.
func runDDP(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "ddp"}
	python, err := findTorch(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ringside-ddp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpackTorch(dir); err != nil {
		return nil, err
	}
	two, err := dataParallel(ctx, o, ddpRanks)
	if err != nil {
		return nil, err
	}
	defer two.close()
	one, err := throughThreads(ctx, o, ddpRanks)
	if err != nil {
		return nil, err
	}
	defer one.close()
	one.name = fmt.Sprintf("1 worker of %d threads", ddpRanks)
	peers, err := startDDP(ctx, python, dir)
	defer peers.close()
	if err != nil {
		return nil, err
	}
	worst, off := 0.0, 0.0
	for _, t := range ddpTrials() {
		if o.Only != "" && o.Only != t.Name {
			continue
		}
		ratio, apart, err := ddpTrial(ctx, o, r, &t, []*rig{two, one}, peers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		if off = max(off, apart); worst == 0 || ratio < worst {
			worst = ratio
		}
	}
	r.atMost("ddp_losses", off, maxLossOff)
	r.atLeast("train_2w_over_ddp", worst, minTrainOverDDP)
	return r, nil
}

// dataParallel is a session of n workers of one thread each, which have a part of every
// batch each.
func dataParallel(ctx context.Context, o *Options, n int) (*rig, error) {
	c, err := cluster.Start(context.WithoutCancel(ctx), &cluster.Options{Workers: n, Threads: 1, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	e, err := client.Dial(ctx, c.Addr(), &client.Options{Config: config.DataParallel(n)})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s := tensor.NewSession(e, nil)
	return &rig{name: fmt.Sprintf("%d workers", n), sess: s, client: e, close: func() error { return errors.Join(s.Close(), c.Close()) }}, nil
}

// ddpTrial measures one model on all sides, interleaved, and returns how many steps the
// first rig takes in the time of one of the peers', and how far losses are apart.
func ddpTrial(ctx context.Context, o *Options, r *Report, t *trial, rigs []*rig, peers ddpPeers) (ratioOfSteps, off float64, err error) {
	if err := peers.load(t); err != nil {
		return 0, 0, err
	}
	var trainers []*trainer
	var sides []*series
	for _, g := range rigs {
		tr, err := newTrainer(g.sess, t)
		if err != nil {
			return 0, 0, err
		}
		defer tr.free()
		trainers = append(trainers, tr)
		sides = append(sides, &series{name: t.Name + ", " + g.name, unit: "ms"})
	}
	theirs := &series{name: t.Name + ", PyTorch DDP over Gloo", unit: "ms"}
	want, err := peers.losses(t, ddpLosses)
	if err != nil {
		return 0, 0, err
	}
	for _, tr := range trainers {
		for _, w := range want {
			got, err := tr.step()
			if err != nil {
				return 0, 0, err
			}
			off = max(off, math.Abs(got-w)/math.Abs(w))
		}
	}
	before := rigs[0].client.Stats().Calls
	n := o.work(t.steps)
	for round := range o.rounds(7) + 1 { // the first is not counted
		for i, tr := range trainers {
			ms, err := tr.steps(ctx, n)
			if err != nil {
				return 0, 0, err
			}
			if round > 0 {
				sides[i].add(ms)
			}
		}
		ms, err := peers.steps(t, n)
		if err != nil {
			return 0, 0, err
		}
		if round > 0 {
			theirs.add(ms)
		}
	}
	if rigs[0].client.Stats().Calls == before {
		return 0, 0, errors.New("bench: no collective in a training step of several workers")
	}
	for _, s := range append(sides, theirs) {
		r.measured(s)
	}
	r.measured(&series{name: t.Name + ", steps of 2 workers over 1 worker's", unit: "ratio", rounds: [][]float64{{ratio(sides[1], sides[0])}}})
	return ratio(theirs, sides[0]), off, peers.drop(t)
}

// ddpPeers are the ranks of PyTorch. All are asked before one is heard: they wait for
// each other.
type ddpPeers []*torchPeer

func startDDP(ctx context.Context, python, dir string) (peers ddpPeers, err error) {
	core, err := fastCore(ctx, python)
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "store")
	for rank := range ddpRanks {
		args := append(torchEnv(1, core), "GLOO_SOCKET_IFNAME=lo", python, "-B", "ddp.py", strconv.Itoa(rank), strconv.Itoa(ddpRanks), store)
		p, err := newTorchPeer(ctx, dir, fmt.Sprintf("PyTorch DDP, rank %d", rank), args)
		if err != nil {
			return peers, err
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// ask asks all and returns their answers.
func (d ddpPeers) ask(question any, n int) ([]*torchReply, error) {
	replies, errs := make([]*torchReply, len(d)), make([]error, len(d))
	done := make(chan struct{})
	for i, p := range d {
		go func() {
			replies[i], errs[i] = p.ask(question, n)
			done <- struct{}{}
		}()
	}
	for range d {
		<-done
	}
	return replies, errors.Join(errs...)
}

func (d ddpPeers) load(t *trial) error {
	_, err := d.ask(t, 0)
	return err
}

func (d ddpPeers) drop(t *trial) error {
	_, err := d.ask(map[string]any{"drop": t.Name}, 0)
	return err
}

// steps is what a step took on average, in ms, by the slower one's clock.
func (d ddpPeers) steps(t *trial, n int) (ms float64, err error) {
	all, err := d.ask(map[string]any{"model": t.Name, "steps": n}, 1)
	if err != nil {
		return 0, err
	}
	for _, r := range all {
		if len(r.MS) != 1 {
			return 0, fmt.Errorf("bench: PyTorch DDP gave %d times, expected 1", len(r.MS))
		}
		ms = max(ms, r.MS[0])
	}
	return ms, nil
}

// losses are those of the whole batch: the means of the ranks', whose parts are equally
// large.
func (d ddpPeers) losses(t *trial, n int) ([]float64, error) {
	all, err := d.ask(map[string]any{"model": t.Name, "losses": n}, n)
	if err != nil {
		return nil, err
	}
	out := make([]float64, n)
	for _, r := range all {
		for i, x := range r.Losses {
			out[i] += x / float64(len(all))
		}
	}
	return out, nil
}

func (d ddpPeers) close() {
	for _, p := range d {
		p.close()
	}
}
