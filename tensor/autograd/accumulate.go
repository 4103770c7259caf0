package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Accumulate computes the gradients of loss, multiplies them by 1/n and adds them to the
// Grad of the leaves. With it, one step can use more examples than fit into memory at
// once:
//
//	for _, b := range batches { // n of them, each in a Scope and flushed
//		err = autograd.Accumulate(model.Loss(b.X, b.Y), n)
//	}
//	err = opt.Step(nil)
//	opt.ZeroGrad()
//
// The sum is taken in the order of the calls. It equals the gradient of the mean over all
// examples if the batches are of equal size and each loss is a mean. The bits are those
// of one large batch only where no operation rounds. The errors are those of Backward,
// and tensor.ErrShape for an n below 1.
func Accumulate(loss *tensor.Tensor, n int) error {
	if err := loss.Err(); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("%w: accumulate: one of %d losses; expected 1 or more", tensor.ErrShape, n)
	}
	var err error
	s := loss.Session()
	s.Scope(func(*tensor.Scope) {
		part := tensor.Full(s, loss.DType(), 1/float64(n), loss.Shape()...)
		err = BackwardWith(&Options{GradOutput: part}, loss)
	})
	return err
}
