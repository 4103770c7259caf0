package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// run is one training run.
type run struct {
	s     *tensor.Session
	o     Options
	model *Model
	net   nn.Layer // examples in, logits or numbers out
	loss  func(out, y *tensor.Tensor) *tensor.Tensor
	sum   *Summary
	pipe  *pipeline // nil for steps of one batch

	write func(ctx context.Context) error // a sample into the summary

	from  *checkpoint.Checkpoint // the checkpoint to continue from, nil for a new run
	print string                 // fingerprint of its data, if checkpoints are saved
	saved int                    // the step of the last checkpoint

	form string // of its table, as a note for weights; empty for other data
}

// feed uploads the examples of batch n, counted from 0, or of micro-batch n.
type feed func(n int) (x, y *tensor.Tensor, err error)

// train takes the steps, until all are done or ctx is, which it checks between steps.
func (r *run) train(ctx context.Context, next feed, itemsPerStep int) error {
	params := r.net.Params()
	r.sum.Parameters = nn.Count(params)
	leaves := nn.Tensors(params)
	if r.o.NameParams {
		r.nameParams(params)
	}
	opt := optim.NewAdamW(params, optim.AdamWOptions{Decay: r.o.Decay})
	schedule := optim.Cosine(r.o.LR, r.o.LRLast, r.o.Warmup, r.o.Steps)
	resumed, err := r.restore(ctx, opt)
	if err != nil {
		return err
	}
	if r.sum.Steps = resumed; r.o.Outer != nil {
		if err := r.exchange(ctx, r.o.Outer.Begin); err != nil {
			return err
		}
		resumed = r.sum.Steps
	}
	r.sum.Resumed = resumed
	// the operations so far are a program of their own, and the first step is one like
	// all
	if err := r.s.Flush(); err != nil {
		return err
	}

	start := time.Now()
	defer func() {
		r.sum.Seconds = time.Since(start).Seconds()
		r.sum.Rate = float64(r.sum.Steps-resumed) / r.sum.Seconds
		r.sum.Items = r.sum.Rate * float64(itemsPerStep)
	}()
	record := r.record
	if r.pipe != nil {
		record = r.pipelined
	} else if r.o.Accumulate > 1 {
		record = r.accumulate
	}
	last, err := r.steps(ctx, start, itemsPerStep, opt, func(n int) (*tensor.Tensor, error) {
		opt.LR = schedule(n)
		return record(opt, leaves, next, n)
	})
	if err != nil {
		return err
	}
	if last != nil {
		defer last.Free()
	}
	// the last steps may still run: this waits for them
	if r.sum.Stopped && last != nil && !r.known() {
		if err := r.read(last); err != nil {
			return err
		}
	}
	if r.o.Trained != nil {
		r.o.Trained(r.sum.Steps - resumed)
	}
	if last != nil { // after an interrupt the checkpoint is saved in full
		return r.save(context.WithoutCancel(ctx), opt, last)
	}
	return nil
}

// steps records and sends the steps from r.sum.Resumed on, and returns the loss of the
// last one, nil if there was none.
func (r *run) steps(ctx context.Context, start time.Time, itemsPerStep int, opt *optim.AdamW, record func(n int) (*tensor.Tensor, error)) (last *tensor.Tensor, err error) {
	resumed := r.sum.Resumed
	report := reporter{run: r, last: start, step: resumed, first: resumed}
	ahead := 1 // steps that are sent before waiting for one
	for n := resumed; n < r.o.Steps; n++ {
		if ctx.Err() != nil {
			r.sum.Stopped = true
			break
		}
		began := time.Now()
		loss, err := record(n)
		if last != nil { // not needed once the next step is recorded
			last.Free()
		}
		if last = loss; err != nil {
			return nil, err
		}
		r.sum.Steps = n + 1
		if err := r.send(loss, ahead); err != nil {
			if n == resumed && !errors.Is(err, ErrDiverged) {
				r.sum.Steps = n // the step was refused, or the worker has died
			}
			return nil, err
		}
		if n == resumed+1 { // the first one was also compiled
			ahead = max(1, int(r.o.inFlight/time.Since(began)))
		}
		if n == resumed && r.o.Started != nil {
			r.o.Started()
		}
		report.maybe(start, itemsPerStep, opt.LR)
		if err := r.sample(ctx); err != nil {
			return nil, err
		}
		if r.roundEnds() {
			err := r.exchange(ctx, r.o.Outer.Exchange)
			if err != nil && ctx.Err() != nil { // it waited for other peers
				r.sum.Stopped = true
				break
			}
			if err != nil {
				return nil, err
			}
			n = r.sum.Steps - 1
		}
		if r.o.Every > 0 && r.sum.Steps%r.o.Every == 0 {
			if err := r.save(context.WithoutCancel(ctx), opt, loss); err != nil {
				return nil, err
			}
			if r.o.Saved != nil && r.sum.Steps < r.o.Steps {
				if err := r.o.Saved(r.sum); err != nil {
					return nil, err
				}
			}
		}
	}
	return last, nil
}

// sample has the model write a sample after a step that is to have one, but not after the
// last, which has its own. An interrupt ends it.
func (r *run) sample(ctx context.Context) error {
	if r.o.Samples == nil || r.sum.Steps%r.o.Samples.Every != 0 || r.sum.Steps == r.o.Steps {
		return nil
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	if r.sum.Sample != "" {
		r.o.Samples.Wrote(r.sum.Steps, r.sum.Sample)
		r.sum.Sample = ""
	}
	return nil
}

// nameParams gives every parameter a signal of its name, and the values between layers
// theirs.
func (r *run) nameParams(params []tensor.Named) {
	for _, p := range params {
		p.T.Signal(p.Name)
	}
	if m, ok := r.net.(nn.Signaler); ok {
		m.SetSignals(true)
	}
}

// send sends the recorded step. It waits for it if its loss is to be read, or if enough
// steps were sent since the last wait.
func (r *run) send(loss *tensor.Tensor, ahead int) error {
	switch {
	case r.sum.Steps%r.o.LossEvery == 0 || r.sum.Steps == r.o.Steps:
		return r.read(loss)
	case r.sum.Steps%ahead == 0:
		return r.s.Sync()
	}
	return r.s.Flush()
}

// record records step n. The loss is kept in every step, whether it is read or not, so
// that all steps are one program.
func (r *run) record(opt *optim.AdamW, leaves []*tensor.Tensor, next feed, n int) (loss *tensor.Tensor, err error) {
	r.s.Scope(func(sc *tensor.Scope) {
		var x, y *tensor.Tensor
		r.s.Signal(BatchSignal, func() { x, y, err = next(n) })
		if err != nil {
			return
		}
		loss = sc.Keep(r.loss(r.net.Forward(x), y))
		var grads []*tensor.Tensor
		if grads, err = autograd.Grad(loss, leaves...); err != nil {
			return
		}
		err = r.descend(opt, grads)
	})
	return loss, err
}

// descend takes the optimizer's step with the gradients.
func (r *run) descend(opt *optim.AdamW, grads []*tensor.Tensor) (err error) {
	r.s.NoGrad(func() {
		if r.o.Clip > 0 {
			grads = optim.ClipGradNorm(grads, r.o.Clip)
		}
		err = opt.Step(grads)
	})
	return err
}

// meanLoss returns loss, nil for none so far, with its share of one of n parts added.
func meanLoss(loss, part *tensor.Tensor, n int) *tensor.Tensor {
	part.Session().NoGrad(func() {
		part = part.MulS(1 / float64(n))
		if loss != nil {
			part = loss.Add(part)
		}
	})
	return part
}

// known reports whether the last step's loss was read.
func (r *run) known() bool {
	k := len(r.sum.Losses)
	return k > 0 && r.sum.Losses[k-1].Step == r.sum.Steps
}

// read waits for the last recorded step's loss. One that is not finite is in the error,
// not in the summary: JSON has no number for it.
func (r *run) read(loss *tensor.Tensor) error {
	x, err := loss.Item()
	if err != nil {
		return err
	}
	if err := r.finite(x); err != nil {
		return err
	}
	r.sum.Loss = x
	r.sum.Losses = append(r.sum.Losses, Point{r.sum.Steps, x})
	return nil
}

// finite returns ErrDiverged if the loss of the last step isn't a finite number.
func (r *run) finite(x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%w: %v at step %d with learning rate %g; a smaller one may help", ErrDiverged, x, r.sum.Steps, r.o.LR)
	}
	return nil
}

// reporter calls Options.Progress.
type reporter struct {
	run   *run
	last  time.Time // time of the last report, which was of step
	step  int
	first int // the step before the first one of this run
}

// maybe reports if the last step's loss is known. lr is the step's learning rate.
func (p *reporter) maybe(start time.Time, itemsPerStep int, lr float64) {
	r := p.run
	if r.o.Progress == nil || !r.known() {
		return
	}
	now := time.Now()
	done := r.sum.Steps
	perStep := now.Sub(p.last).Seconds() / float64(done-p.step)
	overall := now.Sub(start) / time.Duration(done-p.first)
	r.o.Progress(Progress{
		Step: done, Steps: r.o.Steps, Loss: r.sum.Loss, LR: lr, Unit: r.sum.Unit,
		Rate: float64(itemsPerStep) / perStep, Left: overall * time.Duration(r.o.Steps-done),
	})
	p.last, p.step = now, done
}
