package train

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Weight is a parameter and its values, row-major.
type Weight struct {
	Name   string
	Shape  []int
	Values []float32
}

// Outer exchanges the weights of peers that train one model apart, each with an optimizer
// and examples of its own. Its calls come from the training goroutine. Peers begin with
// the same weights: of the same seed, or the same file.
type Outer interface {
	// Peer returns this peer's place among all: it takes every peers-th batch.
	Peer() (index, peers int)

	// Begin is called before the first step. It replaces the weights by those of the last
	// round that is over, and returns the number of rounds that are.
	Begin(ctx context.Context, weights []Weight) (rounds int, err error)

	// Exchange ends a round: it replaces the weights that this peer reached by those from
	// which all peers go on, and returns the number of rounds that are over. A peer that
	// is behind skips rounds.
	Exchange(ctx context.Context, weights []Weight) (rounds int, err error)
}

// exchange has do replace the weights, and takes the number of steps from its rounds.
func (r *run) exchange(ctx context.Context, do func(context.Context, []Weight) (int, error)) error {
	params := r.net.Params()
	weights := make([]Weight, len(params))
	for i, p := range params {
		if p.T.DType() != tensor.F32 {
			return fmt.Errorf("%w: %s is %v, expected F32 weights for peers that train apart", ErrOption, p.Name, p.T.DType())
		}
		values, err := tensor.Data[float32](p.T)
		if err != nil {
			return err
		}
		weights[i] = Weight{p.Name, p.T.Shape(), values}
	}
	rounds, err := do(ctx, weights)
	if err != nil {
		return fmt.Errorf("train: after step %d: %w", r.sum.Steps, err)
	}
	r.sum.Steps = min(rounds*r.o.Inner, r.o.Steps)
	for i, p := range params {
		r.s.NoGrad(func() {
			r.s.Scope(func(*tensor.Scope) { err = p.T.Assign(tensor.From(r.s, weights[i].Values, weights[i].Shape...)) })
		})
		if err != nil {
			return err
		}
	}
	return r.s.Flush()
}

// roundEnds reports whether the last step was the last of a round.
func (r *run) roundEnds() bool {
	return r.o.Outer != nil && (r.sum.Steps%r.o.Inner == 0 || r.sum.Steps == r.o.Steps)
}

// apart returns the feed of one peer: every peers-th batch.
func (r *run) apart(next feed) feed {
	if r.o.Outer == nil {
		return next
	}
	index, peers := r.o.Outer.Peer()
	return func(n int) (x, y *tensor.Tensor, err error) { return next(n*peers + index) }
}
