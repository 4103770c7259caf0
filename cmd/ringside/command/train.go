package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
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
that was not stopped, with another number they differ by roundings. Options that are not given are the run's own, but for
--model and --data, --recompute, what comes behind the training (--save, --sample, --prompt) and how it runs on which workers
(--workers, --mesh, --stages, --micro-batches, --exact, --config, --connect): give these again. Other --steps or --lr are
another schedule of the learning rate from there on, and so other bits than a run that had them from the start. So is another
--recompute on several workers.

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
		return usagef("--elastic: expected checkpoints during the run as well (--checkpoint and --every)")
	case t.elastic && (at.inProcess || at.mesh != "" || at.auto || at.zero1 || at.file != "" || at.stages != 0):
		return usagef("--elastic and --in-process, --mesh, --auto-shard, --zero1, --config, --stages exclude each other: more workers have smaller parts of a batch")
	case t.restarts > 0 && f.Changed("restarts") && o.Checkpoint == "" && o.Resume == "":
		return usagef("--restarts %d: expected a checkpoint to go on from as well (--checkpoint)", t.restarts)
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
func (t *trainFlags) run(cmd *cobra.Command) error {
	m, err := t.check(cmd)
	if err != nil {
		return err
	}
	if t.severalHosts(cmd.Flags()) {
		return onTwoHosts(cmd, &t.at)
	}
	if err := checkResumed(cmd.ErrOrStderr(), cmd.Flags(), &t.o); err != nil {
		return err
	}
	if err := t.live.listen(); err != nil {
		return err
	}
	defer t.live.end()
	d, err := loadData(m, t.path)
	if err != nil {
		return err
	}
	sayFiles(cmd.ErrOrStderr(), t.path, d)
	if t.profile != "" {
		stop, err := profileTo(t.profile)
		if err != nil {
			return err
		}
		defer stop()
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

// outcome is what train --json ends with.
type outcome struct {
	*train.Summary
	*Traffic
	// PlanCacheHits and the like are of the engine in this process.
	PlanCacheHits    *uint64 `json:"plan_cache_hits,omitempty"`
	PlanCacheMisses  *uint64 `json:"plan_cache_misses,omitempty"`  // programs compiled
	PlanCacheEvicted *uint64 `json:"plan_cache_evicted,omitempty"` // to make room
	PlanCachePlans   *int    `json:"plan_cache_plans,omitempty"`   // that are there
	PlanCacheBytes   *int    `json:"plan_cache_bytes,omitempty"`   // of encoded programs
	Saved            string  `json:"saved,omitempty"`              // the file of weights
	Error            string  `json:"error,omitempty"`
}

// loadData loads what --data names.
func loadData(m *train.Model, path string) (train.Data, error) {
	if path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--data: %w, expected %s", err, map[string]string{
				"images": "a folder of images in IDX files", "text": "a file or a folder of text"}[m.Data])
		}
	}
	d, err := m.Load(path)
	switch {
	case errors.Is(err, data.ErrNotFound) && path != "":
		return nil, fmt.Errorf("--data: %w; %s learns from %s", err, m.Name, m.Data)
	case err != nil && path != "":
		return nil, fmt.Errorf("--data: %w", err)
	case errors.Is(err, data.ErrNotFound):
		return nil, fmt.Errorf("%w; or name yours with --data", err)
	}
	return d, err
}

// sayFiles says which files of a folder of text are trained on, or that a file is not the
// text that a language model is for.
func sayFiles(w io.Writer, path string, d train.Data) {
	t, ok := d.(*train.Text)
	if !ok || path == "" {
		return
	}
	if t.Files[0] == path { // no folder
		switch ext := strings.ToLower(filepath.Ext(path)); {
		case ext == ".csv" || ext == ".tsv":
			fmt.Fprintf(w, "warning: %s is learnt as text, byte by byte; to predict a column of a table, see the examples classifier and ownmodel in cmd/examples\n", path)
		default:
			if why := noText(slices.Concat(t.Train, t.Held)); why != "" {
				fmt.Fprintf(w, "warning: %s is no text (%s); it is learnt byte by byte\n", path, why)
			}
		}
		return
	}
	fmt.Fprintf(w, "data: %s of text in %s, %sB: %s\n", number(uint64(len(t.Files)), "file"), path, count(float64(len(t.Train)+len(t.Held))), someNames(inside(path, t.Files)))
	if n := len(t.Left); n > 0 {
		fmt.Fprintf(w, "warning: left out %s, no text or too large: %s\n", number(uint64(n), "file"), someNames(inside(path, t.Left)))
	}
}

// noText says why b is no text in UTF-8; empty if it is.
func noText(b []byte) string {
	if at := bytes.IndexByte(b, 0); at >= 0 {
		if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
			return "it is in UTF-16, expected UTF-8"
		}
		return fmt.Sprintf("byte %d is 0", at)
	}
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Sprintf("byte %d is no UTF-8", at)
		}
		at += n
	}
	return ""
}

// inside returns the paths of files from the folder path on.
func inside(path string, files []string) []string {
	root, err := filepath.EvalSymlinks(path) // as data.LoadText names files
	if err != nil {
		return files
	}
	names := make([]string, len(files))
	for i, f := range files {
		if names[i], err = filepath.Rel(root, f); err != nil {
			names[i] = f
		}
	}
	return names
}

// someNames returns the names of the first files, and how many more there are.
func someNames(files []string) string {
	const most = 4
	names := make([]string, 0, most)
	for _, f := range files[:min(len(files), most)] {
		names = append(names, fmt.Sprintf("%q", f))
	}
	s := strings.Join(names, ", ")
	if n := len(files) - most; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// defaultRestarts is more than the workers that die in a long run by accident. A program
// that ends its worker does so every time.
const defaultRestarts = 5

// endurance says how a run goes on by itself.
type endurance struct {
	restarts int  // how often, when a worker dies
	elastic  bool // with workers that have joined
}

// errGrows ends a session after a checkpoint, as more workers can have the next one.
var errGrows = errors.New("workers have joined")

// trainOn trains. It goes on from the last checkpoint, or from the start before the
// first, when a worker of the session dies, and from a checkpoint with more workers when
// some have joined, as far as how says so. It tells of both by say.
func trainOn(ctx context.Context, m *train.Model, d train.Data, o *train.Options, sess *seat, how endurance, say func(string)) (*train.Summary, error) {
	from, folder := *o, cmp.Or(o.Checkpoint, o.Resume)
	batch := func(sum *train.Summary) int { return sum.Batch / max(o.MicroBatches, 1) }
	// that a next session could have, and that it could not after all
	workers, missed := 0, 0
	if how.elastic && sess.client != nil {
		from.Saved = func(sum *train.Summary) error {
			if workers = sess.couldHave(ctx, batch(sum)); workers > sess.layout.Workers() && workers != missed {
				return errGrows
			}
			return nil
		}
	}
	var before []train.Point // losses of the sessions before
	for n := 0; ; {
		sum, err := m.Train(ctx, sess.Session, d, &from)
		if len(sum.Losses) > 0 { // those of steps that were taken again are the same
			before = slices.DeleteFunc(before, func(l train.Point) bool { return l.Step >= sum.Losses[0].Step })
		}
		if sum.Losses = append(before, sum.Losses...); len(sum.Losses) > 0 {
			// Nothing was read if it went on after the last step.
			sum.Loss = sum.Losses[len(sum.Losses)-1].Loss
		}
		sum.Restarts = n
		grows := errors.Is(err, errGrows)
		if !grows && (err == nil || sess.client == nil || folder == "" || n >= how.restarts ||
			!errors.Is(err, client.ErrLost) || sess.over() != nil) || ctx.Err() != nil {
			if grows {
				err = ctx.Err()
			}
			return sum, err
		}
		step, last := 0, folder
		c, e := checkpoint.Open(last)
		if errors.Is(e, checkpoint.ErrNone) && o.Resume != "" { // none was saved yet
			last = o.Resume
			c, e = checkpoint.Open(last)
		}
		switch {
		case e == nil:
			step, from.Resume, from.Load = int(c.Step), last, ""
			c.Close()
		case !errors.Is(e, checkpoint.ErrNone):
			return sum, errors.Join(err, e)
		}
		if grows {
			if e = sess.resize(ctx, workers); e != nil {
				return sum, e
			}
			with := number(uint64(sess.layout.Workers()), "worker")
			if missed = 0; sess.layout.Workers() < workers {
				missed = workers
				say(fmt.Sprintf("the dispatcher has %d workers, but no session with them: going on from step %d with %s", workers, step, with))
			} else {
				say(fmt.Sprintf("%v: going on from step %d with %s", err, step, with))
			}
		} else {
			n++
			say(fmt.Sprintf("%v; going on from step %d, restart %d of %d", err, step, n, how.restarts))
			e = sess.reopen(ctx)
			if how.elastic && errors.Is(e, client.ErrNoWorker) {
				if left := sess.couldHave(ctx, batch(sum)); left > 0 && left < sess.layout.Workers() {
					if e = sess.resize(ctx, left); e == nil {
						say("with " + number(uint64(left), "worker"))
					}
				}
			}
			if e != nil {
				return sum, errors.Join(err, e)
			}
		}
		before = sum.Losses
	}
}

func runTrain(cmd *cobra.Command, m *train.Model, d train.Data, o *train.Options, at *place, how endurance, log *lossLog, live *livePage, asJSON bool) (err error) {
	ctx := cmd.Context()
	sess, err := at.open(ctx, cmd)
	if err != nil {
		_ = at.rec.end(io.Discard, io.Discard)
		return err
	}
	defer sess.close()
	if how.elastic && (sess.client == nil || sess.cluster != nil) {
		return usagef("--elastic: no dispatcher runs that workers could join; start one with: ringside up, or name one by --connect")
	}
	defer func() {
		// After an error of the run itself that of the trace is no news.
		e := at.rec.end(cmd.ErrOrStderr(), cmd.ErrOrStderr())
		switch {
		case err == nil && errors.Is(e, ipc.ErrPeerGone): // the training went on
			logger(cmd).Warn("the trace ends where the dispatcher died", "err", e)
		case err == nil:
			err = e
		}
	}()

	o.MicroBatches, o.Exact = at.micro, at.exact
	if c := sess.layout; c != nil {
		o.MicroBatches, o.Exact = max(at.micro, c.MicroBatches), c.Exact
		if len(c.Stages()) > 1 {
			o.StageOf = c.StageFor
		}
	}
	p, tell := newProgress(cmd.ErrOrStderr(), m.Name), newTeller(m.Name, logger(cmd))
	defer tell.end()
	about, runs := &client.Options{Secret: sess.secret, TLS: sess.tls}, tell.trainings
	if sess.addr != "" {
		tell.begin(about, sess.addr)
		runs = nil // the dispatcher has them
	}
	if err := live.begin(cmd, cmd.ErrOrStderr(), m.Name, about, sess.addr, runs); err != nil {
		return err
	}
	defer live.end()
	o.Progress = func(x train.Progress) {
		p.show(x)
		log.show(x)
		tell.show(x)
		if at.rec.Recorder != nil {
			at.rec.Mark(x.Step)
		}
	}
	if o.Samples != nil {
		o.Samples.Wrote = func(step int, text string) {
			log.sampled(step, text)
			tell.sampled(text)
		}
	}
	warned := false
	o.Started = func() {
		sess.started()
		// By now everything has the signals that it will have.
		if at.file != "" && !warned {
			for _, w := range sess.layout.Unused(sess.Session.Signals()) {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w)
			}
			warned = true
		}
	}
	o.Trained = sess.trained
	sum, err := trainOn(ctx, m, d, o, sess, how, func(why string) {
		p.end()
		fmt.Fprintln(cmd.ErrOrStderr(), why)
	})
	p.end()
	if sum.Sample != "" {
		tell.sampled(sum.Sample)
	}
	tell.over()
	if e := log.end(sum, err); err == nil {
		err = e
	}
	if err == nil && sum.Steps == 0 && ctx.Err() != nil {
		return ctx.Err() // before its first step: there is nothing to sum up
	}
	out := outcome{Summary: sum, Traffic: sess.Traffic}
	if err != nil {
		out.Error = err.Error()
	} else {
		out.Saved = o.Save
	}
	sess.plans(&out)
	if asJSON {
		if e := json.NewEncoder(cmd.OutOrStdout()).Encode(&out); e != nil && err == nil {
			err = e
		}
	} else if sum.Steps > 0 {
		if e := out.write(cmd.OutOrStdout()); e != nil && err == nil {
			err = e
		}
	}
	if err != nil && !errors.Is(err, train.ErrOption) && sess.over() != nil {
		return fmt.Errorf("%w: %w", err, sess.over())
	}
	switch {
	case err == nil && sum.Stopped:
		return interrupted(ctx, out.left(asJSON))
	case ctx.Err() != nil && errors.Is(err, context.Canceled) && sum.Checkpoint != "":
		// It came after the steps, or while there was no worker.
		return interrupted(ctx, fmt.Sprintf("--resume %s goes on from the last checkpoint", sum.Checkpoint))
	}
	return asTyped(cmd.Flags(), err)
}

// left says what a run that was stopped leaves, and how it goes on. In JSON the object
// itself says so.
func (o *outcome) left(asJSON bool) string {
	switch {
	case asJSON:
		return ""
	case o.Checkpoint != "":
		return fmt.Sprintf("--resume %s goes on from step %d, with the same --model and --data", o.Checkpoint, o.Steps)
	case o.Saved != "":
		return fmt.Sprintf("the weights are in %s; with --checkpoint DIR the run could go on", o.Saved)
	}
	return "nothing was kept: --checkpoint DIR keeps a run that can go on"
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

// write prints the summary for people.
func (o *outcome) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) { fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, a...)) }
	row("model", "%s, %d parameters", o.Model, o.Parameters)
	row("data", "%s", o.Data)
	row("engine", "%s", o.Engine)
	done := fmt.Sprintf("%d of batch %d in %.1f s, %.0f a second, %s %s a second", o.Steps-o.Resumed, o.Batch, o.Seconds, o.Rate, count(o.Items), o.Unit)
	if o.Accumulate > 1 {
		done += fmt.Sprintf("; %d batches a step", o.Accumulate)
	}
	if o.Stopped {
		done += fmt.Sprintf("; stopped before step %d", o.Planned)
	}
	row("steps", "%s", done)
	if o.Traffic != nil && o.MessagesPerStep != nil {
		row("messages", "%.3g a step of %.0f bytes, %.3g round trips, %d programs sent, %d tensor bytes through the dispatcher",
			*o.MessagesPerStep, *o.BytesPerStep, *o.RoundTripsPerStep, o.ProgramBodies, o.TensorBytes)
	}
	if o.Traffic != nil && o.CollectivesPerStep != nil {
		hidden := ""
		if o.CollectivesHidden != nil {
			hidden = fmt.Sprintf("; they take %.2f ms of it, %.0f %% of that beside programs", 1000**o.CollectiveSeconds, 100**o.CollectivesHidden)
		}
		row("workers", "%d: %.4g collectives a step, in which a worker sends %s bytes at most%s", o.Workers, *o.CollectivesPerStep, count(*o.MovedPerStep), hidden)
	}
	if o.Traffic != nil {
		for _, p := range o.Paths {
			row("path", "%s", p)
		}
	}
	if len(o.Losses) > 0 { // none, if an error came before the first was read
		row("loss", "%.4f", o.Loss)
	}
	if o.Accuracy != nil {
		row("test accuracy", "%.2f %%", 100**o.Accuracy)
	}
	if o.BitsPerByte != nil {
		row("held out", "%.3f bits per byte", *o.BitsPerByte)
	}
	if o.Resumed > 0 {
		row("resumed", "at step %d", o.Resumed)
	}
	if o.Restarts > 0 {
		row("restarted", "%s, as workers were gone", number(uint64(o.Restarts), "time"))
	}
	if o.ExactWeights != "" {
		row("weights", "sha256 %s, in %d parts a batch", o.ExactWeights, o.Exact)
	}
	if o.Saved != "" {
		row("saved", "%s", o.Saved)
	}
	if o.Checkpoint != "" {
		row("checkpoint", "%s", o.Checkpoint)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if drawn := curve(o.Losses); drawn != "" {
		if _, err := fmt.Fprintf(w, "loss by step:\n%s", drawn); err != nil {
			return err
		}
	}
	if o.Sample != "" {
		if _, err := fmt.Fprintf(w, "sample:\n%s\n", printable(o.Sample)); err != nil {
			return err
		}
	}
	return nil
}
