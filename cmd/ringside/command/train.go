package command

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/train"
)

func newTrain() *cobra.Command {
	var t trainFlags
	c := &cobra.Command{
		Use:   "train",
		Short: "train a model on real data and evaluate it on what was held out",
		Long:  trainHelp + modelList() + trainDataHelp,
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return t.run(cmd) },
	}
	t.add(c.Flags())
	return c
}

// trainFlags are the flags of train.
type trainFlags struct {
	model, path string
	asJSON      bool
	logDir      string
	profile     string
	o           train.Options
	at          place
	apart       apartFlags
	restarts    int
	elastic     bool
	live        livePage
	samples     int
}

// trainHelp is the text before the list of models, trainDataHelp that after it.
const trainHelp = `Train trains a model through a running dispatcher, or starts a cluster of its own for the time, or does it in
this process (--in-process). An interrupt, SIGTERM or the end of the terminal ends the training between two steps; weights
(--save) and a checkpoint (--checkpoint) are saved and the summary so far is printed. The exit status is then 130, of SIGTERM
143.

--checkpoint keeps all that a run goes on from: weights, optimizer, random numbers, the place in the data. It is written by
the workers, and a crash at any moment leaves it as it was. When a worker dies, the run goes on by itself from the last
checkpoint on the worker that takes its place (--restarts). With --elastic it goes on with more workers from a checkpoint on,
when some have joined the dispatcher and a batch can be cut into as many parts. --resume goes on with the same model and data,
whichever process died; with as many workers as before, or with --exact, the steps that follow are bit for bit those of a run
that was not stopped, with another number they differ by roundings. Options that are not given are the run's own, --data too
if it is where it was, but for --model, --recompute, what comes behind the training (--save, --sample, --prompt) and how it
runs on which workers (--workers, --mesh, --stages, --micro-batches, --exact, --config, --connect): give these again. Other
--steps or --lr are another schedule of the learning rate from there on, and so other bits than a run that had them from the
start. So is another --recompute on several workers.

--exact 12 cuts every batch in 12 parts and adds their gradients in one fixed order, so that 1, 2, 3, 4, 6 and 12 workers,
on one host or several, with and without --zero1, give the same bits. The batch must be a multiple of it. The summary has the
SHA-256 of the weights. It costs time, as products are smaller: docs/sharding.md.

--stages 2, or a --config such as docs/pipeline.yaml, puts a model's layers on different workers: each then works on another
micro-batch of the step at a time, forward and backward in turns.

--outer diloco --peers 4 --inner 100 --store DIR has four peers train the model apart: each takes 100 steps on batches of its
own, puts its compressed update into the store, and all apply the same outer step. --steps and --batch are those of a worker
of data parallelism with as many examples; a peer takes smaller batches and more steps (--inner-batch). With --peer 2 this is
one of them, which needs nothing of the others but the store; a peer that is gone is skipped, and goes on from the store when
it is started again. Without --peer all peers train in this process; --compare then trains by data parallelism, and says how
far apart the two are. A new run needs an empty store. The table in the end has for each peer the bytes that it sent, how many
bytes the gradients of data parallelism have for each of them, and a digest of its weights after the last round, which is the
same for all.

Models:
`

const trainDataHelp = `
Without --data, image models take Fashion-MNIST where Debian's dataset-fashion-mnist puts it, and language models
the text that comes with Go (Newton's Opticks). --json ends with one object on standard output.`

// add defines the flags.
func (t *trainFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.model, "model", "qwen3-tiny", "which model")
	f.StringVar(&t.path, "data", "", "folder of images in IDX files, or a file or folder of text")
	f.IntVar(&t.o.Steps, "steps", 0, "optimizer steps (default: the model's)")
	f.IntVar(&t.o.Batch, "batch", 0, "examples in a batch (default: the model's)")
	f.IntVar(&t.o.Accumulate, "accumulate", 0, "batches in a step, whose gradients are added up (default 1)")
	f.BoolVar(&t.o.Recompute, "recompute", false, "keep only what lies between layers and compute the rest again: less memory, more time")
	f.Float64Var(&t.o.LR, "lr", 0, "peak learning rate (default: the model's)")
	f.Uint64Var(&t.o.Seed, "seed", 0, "of the weights and of the order of the examples")
	f.IntVar(&t.o.LossEvery, "loss-every", 0, "read the loss every so many steps, which waits for the step (default: the model's)")
	f.StringVar(&t.o.Load, "load", "", "weights to begin with: a safetensors file, a folder with a model.safetensors, or else a checkpoint's folder")
	f.StringVar(&t.o.Save, "save", "", "safetensors file to save the weights to; beside model.safetensors a config.json is written, for loaders of other libraries")
	f.StringVar(&t.o.Checkpoint, "checkpoint", "", "folder to save the run to at its end or when it is stopped (default: that of --resume)")
	f.IntVar(&t.o.Every, "every", 0, "save the checkpoint after every so many steps, too")
	f.IntVar(&t.restarts, "restarts", defaultRestarts, "with --checkpoint, go on by itself from the last one so many times when a worker dies")
	f.BoolVar(&t.elastic, "elastic", false, "with --checkpoint and --every, use workers that join the dispatcher from the next checkpoint on")
	f.StringVar(&t.o.Resume, "resume", "", "folder with the checkpoint to go on from")
	f.IntVar(&t.o.Sample, "sample", 0, "bytes that a language model writes in the end; 0: none (default: the model's)")
	f.IntVar(&t.samples, "sample-every", 0, "have a language model write such a sample after every so many steps, too, for --http, --log-dir, top and pages")
	f.StringVar(&t.o.Prompt, "prompt", "", "what the sample goes on from (default: a piece of the held-out text)")
	f.BoolVar(&t.asJSON, "json", false, "end with one JSON object on standard output")
	f.StringVar(&t.logDir, "log-dir", "", "folder for losses.jsonl (a JSON object a line for each loss as it is read, again for steps that are taken again, and one in the end), losses.csv, and a file of events for TensorBoard")
	f.StringVar(&t.profile, "cpuprofile", "", "file for a profile of this process, for go tool pprof; with --in-process of the training as well")
	t.at.flags(f)
	t.at.stageFlags(f)
	t.at.rec.flags(f)
	t.live.flags(f)
	t.apart.add(f, &t.o.Inner)
}

// check checks the flags, completes the options by them and returns the model.
func (t *trainFlags) check(cmd *cobra.Command) (*train.Model, error) {
	flags, o, at := cmd.Flags(), &t.o, &t.at
	if err := positive(flags, "steps", "batch", "accumulate", "lr", "loss-every", "every", "sample-every", "workers", "stages", "micro-batches", "exact"); err != nil {
		return nil, err
	}
	if o.Load != "" && o.Resume != "" {
		return nil, usagef("--load %s and --resume %s exclude each other: the weights come from one of them", plain.Name(o.Load), plain.Name(o.Resume))
	}
	if err := t.checkEndurance(flags); err != nil {
		return nil, err
	}
	if flags.Changed("sample") && o.Sample == 0 {
		o.Sample = -1
	}
	if t.samples > 0 {
		o.Samples = &train.Samples{Every: t.samples, Wrote: func(int, string) {}}
	}
	m, err := train.Find(t.model)
	if err != nil {
		return nil, usagef("--model: %v", err)
	}
	if err := t.apart.check(flags, o, at); err != nil {
		return nil, err
	}
	if err := at.cutInStages(m, o.Batch); err != nil {
		return nil, asTyped(flags, err)
	}
	o.NameParams = at.file != "" || at.staged != nil
	if err := t.live.check(); err != nil {
		return nil, err
	}
	return m, t.checkLive(flags)
}

// checkEndurance checks what is done about workers that die or join.
func (t *trainFlags) checkEndurance(f *pflag.FlagSet) error {
	o, at := &t.o, &t.at
	switch {
	case t.restarts < 0:
		return usagef("--restarts %d: expected at least 0", t.restarts)
	case t.elastic && (o.Checkpoint == "" && o.Resume == "" || o.Every == 0 && o.Resume == ""):
		return usagef("--elastic needs --checkpoint DIR and --every N: more workers go on from a checkpoint during the run")
	case t.elastic && (at.inProcess || at.mesh != "" || at.auto || at.zero1 || at.file != "" || at.stages != 0):
		return usagef("--elastic and --in-process, --mesh, --auto-shard, --zero1, --config, --stages exclude each other: more workers have smaller parts of a batch")
	case t.restarts > 0 && f.Changed("restarts") && o.Checkpoint == "" && o.Resume == "":
		return usagef("--restarts %d needs --checkpoint DIR: the run goes on from what is saved there", t.restarts)
	case o.Every > 0 && o.Checkpoint == "" && o.Resume == "":
		return usagef("--every %d needs --checkpoint DIR, the folder to save the run to", o.Every)
	}
	return nil
}

// checkLive refuses to show or to record what no single cluster of this host does.
func (t *trainFlags) checkLive(f *pflag.FlagSet) error {
	if err := t.at.rec.check(); err != nil {
		return err
	}
	hosts, outer := t.severalHosts(f), t.apart.method != ""
	switch {
	case hosts && t.live.addr != "":
		return usagef("--hosts and --http exclude each other: the page would be in a network of its own")
	case hosts:
		return nil
	case outer && t.live.addr != "":
		return usagef("--outer and --http exclude each other: its peers share no cluster")
	case outer && t.at.rec.wanted():
		return usagef("--outer and --trace, --log exclude each other: its peers share no cluster")
	}
	return nil
}

// severalHosts reports whether the run is one on two hosts that it makes.
func (t *trainFlags) severalHosts(f *pflag.FlagSet) bool {
	return f.Changed("hosts") && t.at.hosts != 1
}

// run is the command.
func (t *trainFlags) run(cmd *cobra.Command) (err error) {
	m, err := t.check(cmd)
	if err != nil {
		return err
	}
	if t.severalHosts(cmd.Flags()) {
		return onTwoHosts(cmd, &t.at)
	}
	atEnd, err := checkResumed(cmd.Flags(), m, &t.o)
	if err == nil {
		err = checkLoaded(cmd.Context(), m, t.o.Load)
	}
	if err != nil {
		return err
	}
	if err := t.live.listen(); err != nil {
		return err
	}
	defer t.live.end()
	if t.o.Resume != "" && t.path == "" {
		t.path = resumedData(t.o.Resume)
	}
	d, err := loadData(m, t.path)
	if err != nil {
		return err
	}
	if t.o.Resume != "" {
		if err := m.Resumes(t.o.Resume, d); err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
	}
	fmt.Fprint(cmd.ErrOrStderr(), atEnd)
	sayFiles(cmd.ErrOrStderr(), t.path, d)
	sayHeld(cmd.ErrOrStderr(), m, d)
	if t.profile != "" {
		stop, errProfile := profileTo(t.profile)
		if errProfile != nil {
			return errProfile
		}
		defer func() { err = cmp.Or(err, stop()) }()
	}
	if t.apart.method != "" {
		return t.apart.train(cmd, m, d, &t.o, &t.at, t.asJSON)
	}
	var log *lossLog
	if t.logDir != "" {
		if log, err = newLossLog(t.logDir, t.o.Resume != ""); err != nil {
			return err
		}
	}
	return runTrain(cmd, m, d, &t.o, &t.at, endurance{t.restarts, t.elastic}, log, &t.live, t.asJSON)
}

func modelList() string {
	var s string
	for _, m := range train.Models() {
		s += fmt.Sprintf("  %-14s %s\n", m.Name, m.Doc)
	}
	return s
}

// asTyped has an error of options be one of the flag that was typed.
func asTyped(flags *pflag.FlagSet, err error) error {
	var o *train.OptionError
	switch {
	case errors.As(err, &o) && flags.Changed(o.Name):
		return usagef("--%s %v: expected %s", o.Name, o.Got, o.Want)
	case errors.Is(err, train.ErrOption):
		return &usageError{err.Error()}
	}
	return err
}
