package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outer"
	"github.com/ringside-go/ringside/gather/store"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/train"
)

// apartFlags are of peers that train one model apart.
type apartFlags struct {
	storeFlags
	method, sign, publicKeys string
	aggregator               string
	peers, peer              int
	batch                    int
	topK, levels             int
	lr, momentum             float64
	compare                  bool
	timeout                  time.Duration
}

func (f *apartFlags) add(flags *pflag.FlagSet, inner *int) {
	f.storeFlags.add(flags)
	flags.StringVar(&f.method, "outer", "", "diloco: have several peers train the model apart and meet in --store")
	flags.IntVar(&f.peers, "peers", 0, "with --outer: number of peers")
	flags.IntVar(&f.peer, "peer", 0, "with --outer: which of the peers this is, from 1 on; 0: all of them, in this process")
	flags.IntVar(inner, "inner", 100, "with --outer: steps that a peer takes by itself in a round")
	flags.IntVar(&f.batch, "inner-batch", 0, "with --outer: examples in a step of a peer, which takes as many more steps (default: --batch over --peers)")
	flags.IntVar(&f.topK, "topk", outer.DefaultConfig().TopK, "with --outer: values that an update sends of each 64x64; 4096: all")
	flags.IntVar(&f.levels, "levels", outer.DefaultConfig().Bins, "with --outer: levels of a value: 2 to 256, of which 4, 16 and 256 fill their bits")
	flags.Float64Var(&f.lr, "outer-lr", outer.DefaultLR, "with --outer: learning rate of the outer step")
	flags.Float64Var(&f.momentum, "outer-momentum", outer.DefaultMomentum, "with --outer: Nesterov momentum of the outer step")
	flags.StringVar(&f.aggregator, "aggregate", agg.Default, "with --outer: rule by which updates become one, as of gather plan")
	flags.DurationVar(&f.timeout, "outer-timeout", outer.DefaultTimeout, "with --outer: how long a round waits for a peer")
	flags.BoolVar(&f.compare, "compare", false, "with --outer: then train by data parallelism with as many examples, and compare")
	flags.StringVar(&f.sign, "sign-key-file", "", "with --outer and --peer: file with the ed25519 seed that signs this peer's updates, as of gather put")
	flags.StringVar(&f.publicKeys, "peer-keys-file", "", "with --outer: file with the peers' public keys, as of gather run")
}

// check refuses flags that do not go together.
func (f *apartFlags) check(flags *pflag.FlagSet, o *train.Options, at *place) error {
	if f.method == "" {
		for _, name := range []string{"peers", "peer", "inner", "inner-batch", "store", "topk", "levels", "compare", "outer-lr", "outer-momentum", "aggregate", "outer-timeout", "sign-key-file", "peer-keys-file"} {
			if flags.Changed(name) {
				return usagef("--%s: it is about peers: say --outer diloco", name)
			}
		}
		return nil
	}
	if err := positive(flags, "peers", "inner", "inner-batch", "topk", "outer-lr"); err != nil {
		return err
	}
	elsewhere := at.connect != "" || at.workers != 0 || at.exact != 0 || at.mesh != "" || at.file != "" || at.stages != 0 || at.hosts != 1
	switch {
	case f.method != "diloco":
		return usagef("--outer %s: expected diloco", f.method)
	case f.peers < 1:
		return usagef("--peers %d: expected the number of peers", f.peers)
	case f.levels < 2 || f.levels > codec.MaxBins:
		return usagef("--levels %d: expected 2 to %d", f.levels, codec.MaxBins)
	case f.compare && f.peer != 0:
		return usagef("--compare and --peer exclude each other: all peers' training is compared")
	case !(f.momentum >= 0 && f.momentum < 1):
		return usagef("--outer-momentum %v: expected at least 0 and below 1", f.momentum)
	case f.timeout < 0:
		return usagef("--outer-timeout %v: expected above 0; leave it out for the default", f.timeout)
	case f.peer < 0 || f.peer > f.peers:
		return usagef("--peer %d: expected 1 to %d, or 0 for all in this process", f.peer, f.peers)
	case flags.Changed("sample-every"):
		return usagef("--outer and --sample-every exclude each other: peers write a sample in the end")
	case flags.Changed("log-dir"):
		return usagef("--outer and --log-dir exclude each other: --json has the losses of every peer in the end")
	case o.Checkpoint != "" || o.Resume != "":
		return usagef("--outer and --checkpoint, --resume exclude each other: a peer that is started again goes on from the store")
	case f.peer == 0 && elsewhere:
		return usagef("--outer without --peer trains in this process: say which --peer runs on the workers")
	case f.peer == 0 && f.sign != "":
		return usagef("--sign-key-file is of one peer: say which with --peer")
	}
	return nil
}

// open returns a peer. Its spool is a folder of its own in spool.
func (f *apartFlags) open(uid int, s store.Store, spool string) (*outer.Outer, error) {
	c := outer.DefaultConfig()
	c.TopK, c.Bins = f.topK, f.levels
	c.Value = codec.ValueOf(f.levels)
	o := &outer.Options{Store: s, Spool: filepath.Join(spool, fmt.Sprint(uid)), UID: uint64(uid), Peers: f.peers, Config: &c,
		Optimizer: apply.Optimizer{LR: f.lr, Momentum: f.momentum, Nesterov: f.momentum != 0}, Aggregator: f.aggregator, Timeout: f.timeout}
	var err error
	if o.Key, err = readSeed(f.sign); err != nil {
		return nil, err
	}
	if o.Keys, err = readPublicKeys(f.publicKeys); err != nil {
		return nil, err
	}
	return outer.New(o)
}

// peerOutcome is what train --outer says about each peer.
type peerOutcome struct {
	outer.Stats
	*train.Summary
	// Dense is the bytes of the gradients of data-parallel training of as many examples,
	// with batches of --batch, for each byte that this peer sent.
	Dense float64 `json:"dense_over_sent,omitempty"`
}

// apartOutcome is what train --outer --json ends with.
type apartOutcome struct {
	Peers []peerOutcome `json:"peers"`
	Saved string        `json:"saved,omitempty"`

	// DataParallel is a run of as many examples, with --compare, whose workers have
	// batches of --batch. Over is the peers' held-out loss over that run's, less 1.
	DataParallel *train.Summary `json:"data_parallel,omitempty"`
	Over         float64        `json:"held_out_over_data_parallel,omitempty"`
}

// train trains one peer, or all of them in this process.
func (f *apartFlags) train(cmd *cobra.Command, m *train.Model, d train.Data, o *train.Options, at *place, asJSON bool) error {
	s, err := f.storeFlags.open(f.url)
	if err != nil {
		return err
	}
	spool, err := os.MkdirTemp("", "ringside-outer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(spool)
	uids := []int{f.peer}
	if f.peer == 0 {
		uids = nil
		for uid := 1; uid <= f.peers; uid++ {
			uids = append(uids, uid)
		}
		at.inProcess = true
	}
	peers := make([]*outer.Outer, len(uids))
	for i, uid := range uids {
		if peers[i], err = f.open(uid, s, spool); err != nil {
			return err
		}
	}
	whole, part := f.cut(m, o)
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	out := apartOutcome{Peers: make([]peerOutcome, len(peers)), Saved: o.Save}
	p := newProgress(cmd.ErrOrStderr(), m.Name)
	var wg sync.WaitGroup
	for i, peer := range peers {
		own := part
		own.Outer = peer
		if i > 0 { // all have the same weights in the end
			own.Save, own.Sample = "", -1
		} else {
			own.Progress = p.show
		}
		wg.Go(func() {
			sum, err := trainPeer(ctx, cmd, m, d, &own, at)
			if err != nil {
				cancel(fmt.Errorf("peer %d: %w", uids[i], err))
				return
			}
			out.Peers[i] = peerOutcome{Stats: peer.Stats(), Summary: sum}
			if sent := out.Peers[i].Sent; sent > 0 {
				steps := float64(sum.Steps-sum.Resumed) * float64(part.Batch) / float64(whole.Batch)
				out.Peers[i].Dense = float64(sum.Parameters) * 4 * steps / float64(sent)
			}
		})
	}
	wg.Wait()
	p.end()
	failed := slices.ContainsFunc(out.Peers, func(p peerOutcome) bool { return p.Summary == nil })
	if err := context.Cause(ctx); err != nil && (cmd.Context().Err() == nil || failed) {
		return asTyped(cmd.Flags(), err)
	}
	if f.compare {
		if err := out.compare(cmd, m, d, whole, at); err != nil {
			return asTyped(cmd.Flags(), err)
		}
	}
	if asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(&out)
	} else {
		err = out.write(cmd.OutOrStdout())
	}
	if err == nil && cmd.Context().Err() != nil {
		return interrupted(cmd.Context(), "a peer goes on from the store when it is started again")
	}
	return err
}

// cut returns the options of data parallelism's workers, and those of a peer with as many
// examples. A peer takes smaller batches and more steps (docs/decisions.md).
func (f *apartFlags) cut(m *train.Model, o *train.Options) (whole, part train.Options) {
	whole = *o
	whole.Batch, whole.Steps = cmp.Or(o.Batch, m.Defaults.Batch), cmp.Or(o.Steps, m.Defaults.Steps)
	part = whole
	part.Batch = cmp.Or(f.batch, max(whole.Batch/f.peers, 1))
	part.Steps = whole.Steps * whole.Batch / part.Batch
	return whole, part
}

// compare trains by data parallelism: a step takes a batch for each peer.
func (o *apartOutcome) compare(cmd *cobra.Command, m *train.Model, d train.Data, own train.Options, at *place) error {
	own.Batch, own.Save, own.Sample = own.Batch*len(o.Peers), "", -1
	var err error
	if o.DataParallel, err = trainPeer(cmd.Context(), cmd, m, d, &own, at); err == nil && o.DataParallel.HeldOut > 0 {
		o.Over = o.Peers[0].HeldOut/o.DataParallel.HeldOut - 1
	}
	return err
}

func trainPeer(ctx context.Context, cmd *cobra.Command, m *train.Model, d train.Data, o *train.Options, at *place) (*train.Summary, error) {
	sess, err := at.open(ctx, cmd)
	if err != nil {
		return nil, err
	}
	defer sess.close()
	return m.Train(ctx, sess.Session, d, o)
}

// write prints a table of peers, and the sample.
func (o *apartOutcome) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "peer\tsteps\trounds\tloss\theld out\tbytes sent\tgradients/sent\treceived\tweights")
	trained := false
	for i := range o.Peers {
		p := &o.Peers[i]
		loss, dense := "-", "-"
		if p.Steps > p.Resumed {
			loss, trained = fmt.Sprintf("%.4f", p.Loss), true
		}
		if p.Dense > 0 {
			dense = fmt.Sprintf("%.0f", p.Dense)
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%s\t%.4f\t%d\t%s\t%d\t%.16s\n", p.Peer, p.Steps, p.Rounds, loss, p.HeldOut, p.Sent, dense, p.Received, p.Weights)
		for uid, n := range p.Missing {
			fmt.Fprintf(tw, "\t%d rounds without peer %d: %s\n", n, uid, p.Reasons[uid])
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if !trained && !o.Peers[0].Stopped {
		fmt.Fprintln(w, "no step was taken, as the store has all rounds of this run; a new run needs an empty store")
	}
	if d := o.DataParallel; d != nil {
		fmt.Fprintf(w, "data parallel, batches of %d: held out %.4f; apart %+.1f %%, and 1/%.0f of the bytes sent\n", d.Batch, d.HeldOut, 100*o.Over, o.Peers[0].Dense)
	}
	if o.Saved != "" {
		fmt.Fprintf(w, "saved %s\n", plain.Name(o.Saved))
	}
	if s := o.Peers[0].Sample; s != "" {
		fmt.Fprintf(w, "sample:\n%s\n", printable(s))
	}
	return nil
}
