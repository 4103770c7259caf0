package autograd

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Accumulate is Backward of a loss that is one of n whose mean is meant: it adds an nth of its gradients to the leaves'
// Grad. So a step can be of more examples than fit the memory at once:
//
//	for _, b := range batches { // n of them, each in a Scope and flushed
//		err = autograd.Accumulate(model.Loss(b.X, b.Y), n)
//	}
//	err = opt.Step(nil)
//	opt.ZeroGrad()
//
// The sum is taken in the order of the calls. It is the gradient of the mean over all examples if every batch has as
// many and the loss is itself a mean; its bits are those of one large batch only where nothing is rounded. The errors are those
// of Backward, and tensor.ErrShape for an n below 1.
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
