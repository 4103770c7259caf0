package train

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// accumulate records step n in Accumulate batches, each in a program of its own: the step
// needs the memory of one batch and of the gradients' sums. The loss is the mean of the
// batches'.
func (r *run) accumulate(opt *optim.AdamW, _ []*tensor.Tensor, next feed, n int) (loss *tensor.Tensor, err error) {
	parts := r.o.Accumulate
	one := func(sc *tensor.Scope, i int) error {
		var x, y *tensor.Tensor
		r.s.Signal(BatchSignal, func() { x, y, err = next(n*parts + i) })
		if err != nil {
			return err
		}
		part := r.loss(r.net.Forward(x), y)
		if err := autograd.Accumulate(part, parts); err != nil {
			return err
		}
		part = sc.Keep(meanLoss(loss, part, parts))
		if loss != nil {
			loss.Free()
		}
		loss = part
		if i < parts-1 {
			return nil
		}
		err := r.descend(opt, nn.Grads(r.net.Params()))
		opt.ZeroGrad()
		return err
	}
	for i := range parts {
		r.s.Scope(func(sc *tensor.Scope) { err = one(sc, i) })
		if err == nil && i < parts-1 {
			err = r.s.Flush()
		}
		if err != nil {
			return loss, err
		}
	}
	return loss, nil
}

// recompute has the model keep only the values between its parts, if the options ask for
// it.
func (r *run) recompute() error {
	if !r.o.Recompute {
		return nil
	}
	m, ok := r.net.(nn.Recomputer)
	if !ok {
		return fmt.Errorf("%w: %s has no parts that could be recomputed", ErrOption, r.model.Name)
	}
	m.SetRecompute(true)
	return nil
}
