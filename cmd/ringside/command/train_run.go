package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/train"
)

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
			with := plain.Count(sess.layout.Workers(), "worker")
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
						say("with " + plain.Count(left, "worker"))
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
	case err == nil && !sum.Stopped && !asJSON && out.Saved == "" && sum.Checkpoint == "" && sum.Steps > sum.Resumed:
		fmt.Fprintln(cmd.ErrOrStderr(), "the weights were not kept: --save FILE keeps them, --checkpoint DIR a run that can go on")
	case err == nil && sum.Stopped:
		return interrupted(ctx, out.left(asJSON))
	case ctx.Err() != nil && errors.Is(err, context.Canceled) && sum.Checkpoint != "":
		// It came after the steps, or while there was no worker.
		return interrupted(ctx, fmt.Sprintf("--resume %s goes on from the last checkpoint", shellWord(sum.Checkpoint)))
	}
	return asTyped(cmd.Flags(), err)
}
