package main

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/optim"
)

// optimizerOptions are what makes an optimizer, as JSON. They are those of package optim.
type optimizerOptions struct {
	Kind      string   `json:"kind"` // sgd, adam or adamw
	Names     []string `json:"names"`
	LR        float64  `json:"lr"`
	Momentum  float64  `json:"momentum"`
	Dampening float64  `json:"dampening"`
	Nesterov  bool     `json:"nesterov"`
	Beta1     float64  `json:"beta1"`
	Beta2     float64  `json:"beta2"`
	Eps       float64  `json:"eps"`
	Decay     float64  `json:"decay"`
	Decays    []bool   `json:"decays"` // by parameter; none: all decay
}

// optimizer updates tensors of a session, which it claims.
type optimizer struct {
	optim.Optimizer
	s      *session
	params []*held
	setLR  func(lr float64)
}

// newOptimizer makes an optimizer of tensors.
func (s *session) newOptimizer(options string, ids []int64) (*optimizer, error) {
	var o optimizerOptions
	if err := fromJSON(options, &o); err != nil {
		return nil, err
	}
	params, ts, err := s.all(ids)
	if err != nil {
		return nil, err
	}
	if len(o.Names) != len(ts) || len(o.Decays) != 0 && len(o.Decays) != len(ts) {
		return nil, fmt.Errorf("%w: %d names and %d decays of %d parameters", errArgument, len(o.Names), len(o.Decays), len(ts))
	}
	named, decays := make([]tensor.Named, len(ts)), map[*tensor.Tensor]bool{}
	for i, t := range ts {
		named[i] = tensor.Named{Name: o.Names[i], T: t}
		decays[t] = len(o.Decays) == 0 || o.Decays[i]
	}
	out := &optimizer{s: s, params: params}
	adam := optim.AdamWOptions{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, Decay: o.Decay,
		Decays: func(p tensor.Named) bool { return decays[p.T] }}
	switch o.Kind {
	case "sgd":
		x := optim.NewSGD(named, optim.SGDOptions{LR: o.LR, Momentum: o.Momentum, Dampening: o.Dampening, Nesterov: o.Nesterov, Decay: o.Decay})
		out.Optimizer, out.setLR = x, func(lr float64) { x.LR = lr }
	case "adam", "adamw":
		x := optim.NewAdamW(named, adam)
		if o.Kind == "adam" {
			x = optim.NewAdam(named, adam)
		}
		out.Optimizer, out.setLR = x, func(lr float64) { x.LR = lr }
	default:
		return nil, fmt.Errorf("%w: optimizer %q, expected sgd, adam or adamw", errArgument, o.Kind)
	}
	for _, p := range params {
		p.claims++
	}
	return out, nil
}

// step updates the parameters with grads, or with what backward left at them; number 0 is
// no gradient. Their norm is clipped to clip, unless that is 0.
func (o *optimizer) step(lr, clip float64, grads []int64) error {
	if math.IsNaN(lr) || math.IsInf(lr, 0) {
		return fmt.Errorf("%w: a learning rate of %g, expected a finite number", errArgument, lr)
	}
	if !(clip >= 0) {
		return fmt.Errorf("%w: gradients clipped to a norm of %g, expected 0, for none, or more", errArgument, clip)
	}
	gs := make([]*tensor.Tensor, len(o.params))
	for i, p := range o.params {
		if grads == nil {
			gs[i] = p.t.Grad()
		}
	}
	if grads != nil && len(grads) != len(gs) {
		return fmt.Errorf("%w: %d gradients of %d parameters", errArgument, len(grads), len(gs))
	}
	for i, id := range grads {
		if id == 0 {
			continue
		}
		g, err := o.s.get(id)
		if err != nil {
			return err
		}
		gs[i] = g.t
	}
	o.setLR(lr)
	var err error
	o.s.s.NoGrad(func() {
		o.s.s.Scope(func(*tensor.Scope) {
			if clip > 0 {
				gs = optim.ClipGradNorm(gs, clip)
			}
			err = o.Step(gs)
		})
	})
	return o.s.end(err)
}

// state returns the optimizer's tensors, in the order of the names that about has.
func (o *optimizer) state() ([]int64, error) {
	var out []int64
	for _, n := range o.State() {
		id, err := o.s.put(n.T.Detach())
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// restore continues another optimizer's work: its state, and how many steps it took.
func (o *optimizer) restore(steps int, ids []int64) error {
	state := o.State()
	_, ts, err := o.s.all(ids)
	if err != nil {
		return err
	}
	if len(ts) != len(state) || steps < 0 {
		return fmt.Errorf("%w: a state of %d tensors after %d steps, expected %d tensors", errArgument, len(ts), steps, len(state))
	}
	for i, n := range state {
		if err := o.s.end(n.T.Assign(ts[i])); err != nil {
			return fmt.Errorf("state %s: %w", n.Name, err)
		}
	}
	o.SetSteps(steps)
	return nil
}

// about describes the optimizer as JSON.
func (o *optimizer) about() (string, error) {
	if err := o.s.enter(); err != nil {
		return "", err
	}
	defer o.s.leave()
	var names []string
	for _, n := range o.State() {
		names = append(names, n.Name)
	}
	text, err := json.Marshal(map[string]any{"steps": o.Steps(), "state": names})
	return string(text), err
}

// close ends the claims on the parameters.
func (o *optimizer) close() error {
	o.s.later(func() {
		for _, p := range o.params {
			p.release()
		}
		o.params = nil
	})
	return nil
}
