package optim

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Optimizer is the interface of SGD, Adam and AdamW.
type Optimizer interface {
	// Step updates the parameters with grads, one for each in order. A nil gradient
	// leaves its parameter unchanged. Nil grads means the gradients that Backward left at
	// the parameters.
	Step(grads []*tensor.Tensor) error
	// State returns the optimizer's tensors under the parameters' names, for saving.
	State() []tensor.Named
	// Steps returns the number of steps taken; SetSteps restores it.
	Steps() int
	SetSteps(n int)
}

// base holds the parameters and the number of steps.
type base struct {
	params []tensor.Named
	steps  int
}

// Steps returns the number of steps taken.
func (b *base) Steps() int { return b.steps }

// SetSteps restores the number of steps taken, so that with State an optimizer continues
// another one's work.
func (b *base) SetSteps(n int) { b.steps = n }

// ZeroGrad clears the gradients that Backward left at the parameters.
func (b *base) ZeroGrad() {
	for _, p := range b.params {
		p.T.SetGrad(nil)
	}
}

// each calls f for every parameter with a gradient, in a scope without graphs.
func (b *base) each(grads []*tensor.Tensor, f func(s *tensor.Session, i int, p, g *tensor.Tensor) error) error {
	if grads == nil {
		grads = make([]*tensor.Tensor, len(b.params))
		for i, p := range b.params {
			grads[i] = p.T.Grad()
		}
	}
	if len(grads) != len(b.params) {
		return fmt.Errorf("%w: %d gradients for %d parameters", ErrGrads, len(grads), len(b.params))
	}
	for i, g := range grads {
		switch p := b.params[i]; {
		case g == nil:
		case g.Err() != nil:
			return g.Err()
		case !g.Shape().Equal(p.T.Shape()) || g.DType() != p.T.DType():
			return fmt.Errorf("%w: %s is %v, its gradient %v", ErrGrads, p.Name, p.T, g)
		}
	}
	b.steps++
	for i := 0; i < len(grads); {
		if grads[i] == nil {
			i++
			continue
		}
		n, err := b.some(b.params[i].T.Session(), i, grads, f)
		if err != nil {
			return fmt.Errorf("optim: %s: %w", b.params[n].Name, err)
		}
		i = n
	}
	return nil
}

// some is each for the parameters from index i on, as far as they belong to s. It returns
// the index of the first one that doesn't, or for which f fails.
func (b *base) some(s *tensor.Session, i int, grads []*tensor.Tensor, f func(s *tensor.Session, i int, p, g *tensor.Tensor) error) (n int, err error) {
	s.NoGrad(func() {
		one := func(*tensor.Scope) { err = f(s, i, b.params[i].T, grads[i]) }
		for ; i < len(grads); i++ {
			if grads[i] == nil {
				continue
			}
			if b.params[i].T.Session() != s {
				break
			}
			if s.Scope(one); err != nil {
				break
			}
		}
	})
	return i, err
}

// StateSignal is the signal (tensor.Session.Signal) under which optimizers make their
// state. If it is cut, every worker updates a part of each parameter (ZeRO-1: Rajbhandari
// et al. 2020).
const StateSignal = "optimizer.state"

// stateSignal returns StateSignal, followed by the parameter's signal if it has one, so
// that its state lies as the parameter does.
func stateSignal(p *tensor.Tensor) string {
	if name := StateSignal + "/" + p.SignalName(); p.SignalName() != "" && tensor.CheckSignalName(name) == nil {
		return name
	}
	return StateSignal
}

// zeros makes a state tensor for every parameter, under StateSignal. They belong to the
// open scope as parameters do, so make optimizers outside a scope.
func (b *base) zeros() []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(b.params))
	for i, p := range b.params {
		s := p.T.Session()
		s.Signal(stateSignal(p.T), func() {
			s.NoGrad(func() { out[i] = tensor.Zeros(s, p.T.DType(), p.T.Shape()...) })
		})
	}
	return out
}

// named returns ts, a state tensor for every parameter, with names.
func (b *base) named(kind string, ts []*tensor.Tensor) []tensor.Named {
	var out []tensor.Named
	for i, t := range ts {
		out = append(out, tensor.Named{Name: b.params[i].Name + "." + kind, T: t})
	}
	return out
}

// ClipGradNorm scales grads so that the norm of all of them together is at most max. Nil
// gradients stay nil. The norm is never read by the client.
func ClipGradNorm(grads []*tensor.Tensor, max float64) []*tensor.Tensor {
	norm := GradNorm(grads)
	if norm == nil {
		return grads
	}
	scale := norm.AddS(1e-6).RDivS(max).MinimumS(1)
	out := make([]*tensor.Tensor, len(grads))
	for i, g := range grads {
		if g != nil {
			out[i] = g.Mul(scale)
		}
	}
	return out
}

// GradNorm returns the Euclidean norm of all gradients together, or nil if there are
// none.
func GradNorm(grads []*tensor.Tensor) *tensor.Tensor {
	var squares []*tensor.Tensor
	for _, g := range grads {
		if g != nil {
			g = g.Cast(g.DType().Wide()) // squares of halves may overflow
			squares = append(squares, g.Square().Sum().Reshape(1))
		}
	}
	if len(squares) == 0 {
		return nil
	}
	return tensor.Concat(0, squares...).Sum().Sqrt()
}
