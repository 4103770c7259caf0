package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
)

// held is a tensor that the caller holds, or the graph of one that it holds. The caller
// drops intermediates as soon as no variable of its program has them, but gradients need
// their values: so a result with a graph claims those that it was computed from.
type held struct {
	t      *tensor.Tensor
	claims int     // of the caller and of results; without any it is freed
	born   int64   // how many the session had made with it
	in     []*held // what it claims
	spent  bool    // its graph is gone: its gradients have been computed
	old    []*tensor.Tensor
}

// newHeld returns a tensor with the caller's claim. in are its operands.
func newHeld(s *session, t *tensor.Tensor, in []*held) *held {
	s.born++
	h := &held{t: t, claims: 1, born: s.born}
	if len(in) > 0 && t.Node() != nil {
		h.claim(in)
	}
	return h
}

// claim keeps the values of in as long as h exists.
func (h *held) claim(in []*held) {
	for _, x := range in {
		x.claims++
	}
	h.in = append(h.in, in...)
}

// release ends a claim, and the claims of what is freed with it.
func (h *held) release() {
	for todo := []*held{h}; len(todo) > 0; {
		h, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if h.claims--; h.claims > 0 {
			continue
		}
		h.t.SetGrad(nil)
		h.t.Free()
		for _, t := range h.old {
			t.Free()
		}
		todo = append(todo, h.in...)
		h.in, h.old = nil, nil
	}
}

// forget ends the claims of a graph whose gradients have been computed.
func (h *held) forget() {
	in := h.in
	h.in, h.spent = nil, h.spent || len(in) > 0
	for _, x := range in {
		x.release()
	}
}

// Flags of gradients.
const (
	gradRetain = 1 // the graph stays, for further gradients
	gradCreate = 2 // the gradients have a graph themselves
	gradZeros  = 4 // zeros where the loss does not depend on a tensor
)

// retainAdvice is for gradients whose graph is gone, or a part of it.
const retainAdvice = "retain_graph=True in the call that computes the first gradients keeps a graph for others"

// graphOf returns a loss of s whose graph is there.
func graphOf(s *session, loss int64) (*held, error) {
	l, err := s.get(loss)
	if err == nil && l.spent {
		err = fmt.Errorf("%w: the graph of the loss, whose gradients have been computed; %s", tensor.ErrReleased, retainAdvice)
	}
	return l, err
}

// advised says what keeps a graph, if err is that a part of it is gone.
func advised(err error) error {
	if errors.Is(err, tensor.ErrReleased) {
		return fmt.Errorf("%w; %s", err, retainAdvice)
	}
	return err
}

// gradOptions returns what flags ask for; output is a tensor's number, or 0.
func (s *session) gradOptions(output int64, flags int) (*autograd.Options, error) {
	o := &autograd.Options{CreateGraph: flags&gradCreate != 0, Zeros: flags&gradZeros != 0}
	if output != 0 {
		h, err := s.get(output)
		if err != nil {
			return nil, err
		}
		o.GradOutput = h.t
	}
	return o, nil
}

// grad returns the gradients of a loss with respect to xs.
func (s *session) grad(loss, output int64, flags int, xs []int64) ([]*held, error) {
	l, err := graphOf(s, loss)
	if err != nil {
		return nil, err
	}
	o, err := s.gradOptions(output, flags)
	if err != nil {
		return nil, err
	}
	in, ts, err := s.all(xs)
	if err != nil {
		return nil, err
	}
	s.work *= 3 // each product has two more
	gs, err := autograd.GradWith(o, l.t, ts...)
	for _, g := range gs {
		err = cmp.Or(err, g.Err())
	}
	if err = s.end(advised(err)); err != nil {
		for _, g := range gs {
			g.Free()
		}
		return nil, err
	}
	out := make([]*held, len(gs))
	for i, g := range gs {
		out[i] = newHeld(s, g, nil)
		if o.CreateGraph { // which refers to the loss's
			out[i].claim(append([]*held{l}, in...))
		}
	}
	if flags&(gradRetain|gradCreate) == 0 {
		l.forget()
	}
	return out, nil
}

// all returns the tensors of numbers.
func (s *session) all(ids []int64) ([]*held, []*tensor.Tensor, error) {
	in, ts := make([]*held, len(ids)), make([]*tensor.Tensor, len(ids))
	for i, id := range ids {
		h, err := s.get(id)
		if err != nil {
			return nil, nil, err
		}
		in[i], ts[i] = h, h.t
	}
	return in, ts, nil
}

// backward adds the gradients of a loss to those of its leaves.
func (s *session) backward(loss, output int64, flags int) error {
	l, err := graphOf(s, loss)
	if err != nil {
		return err
	}
	o, err := s.gradOptions(output, flags)
	if err != nil {
		return err
	}
	s.work *= 3
	if err := s.end(advised(autograd.BackwardWith(o, l.t))); err != nil {
		return err
	}
	if flags&(gradRetain|gradCreate) == 0 {
		l.forget()
	}
	return nil
}

// gradient returns the gradient that backward left at a tensor, or 0.
func (s *session) gradient(id int64) (int64, error) {
	h, err := s.get(id)
	if err != nil || h.t.Grad() == nil {
		return 0, err
	}
	return s.put(h.t.Grad().Detach())
}

// setGradient replaces the gradient of a tensor by another tensor, or removes it.
func (s *session) setGradient(id, to int64) error {
	h, err := s.get(id)
	if err != nil {
		return err
	}
	if to == 0 {
		h.t.SetGrad(nil)
		return nil
	}
	g, err := s.get(to)
	if err != nil {
		return err
	}
	if g.t.DType() != h.t.DType() || !g.t.Shape().Equal(h.t.Shape()) {
		return fmt.Errorf("%w: a gradient %v of %v", tensor.ErrShape, g.t, h.t)
	}
	h.t.SetGrad(g.t)
	return nil
}

// detach returns the same value without a graph.
func (s *session) detach(id int64) (int64, error) {
	h, err := s.get(id)
	if err != nil {
		return 0, err
	}
	return s.put(h.t.Detach())
}

// requireGrad makes a tensor a leaf that requires gradients.
func (s *session) requireGrad(id int64) error {
	h, err := s.get(id)
	if err != nil {
		return err
	}
	return s.end(h.t.RequireGrad().Err())
}

// assign gives a tensor another value. A graph that has the old one keeps it, unless the
// tensor is a leaf: then its gradients can't be computed any more.
func (s *session) assign(id, value int64, noGrad bool) error {
	h, err := s.get(id)
	if err != nil {
		return err
	}
	v, err := s.get(value)
	if err != nil {
		return err
	}
	if h == v {
		return nil
	}
	if !noGrad && v.t.Node() != nil && !h.t.RequiresGrad() {
		return s.rebind(id, h, v)
	}
	var old *tensor.Tensor
	if h.claims > 1 && !h.t.RequiresGrad() {
		old = h.t.Detach()
	}
	from := v.t
	if noGrad && from.Node() != nil {
		from = from.Detach()
		defer from.Free()
	}
	if err := s.end(h.t.Assign(from)); err != nil {
		if old != nil {
			old.Free()
		}
		return err
	}
	if old != nil {
		h.old = append(h.old, old)
	}
	return nil
}

// rebind gives the tensor of a number the value and the graph of v. That graph may claim
// the tensor as it was, as in x += y: so h goes on as what it was, and another one, which
// h does not claim, is the tensor.
func (s *session) rebind(id int64, h, v *held) error {
	before := h.t.Detach()
	if err := s.end(h.t.Assign(v.t)); err != nil {
		before.Free()
		return err
	}
	now := newHeld(s, h.t, v.in)
	now.born = h.born
	s.tensors[id] = now
	h.t = before
	h.release()
	return nil
}

// setSignal gives a tensor alone the signal of a number.
func (s *session) setSignal(id int64, signal int) error {
	h, err := s.get(id)
	if err != nil {
		return err
	}
	return s.end(h.t.Signal(signals.name(signal)).Err())
}
