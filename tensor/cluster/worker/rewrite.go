package worker

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
)

// planOf returns the plan of a program for its inputs: it decides the layouts of inputs
// that have none, and rewrites the program once for every combination of layouts.
func (l *ledger) planOf(p *program, ins []*placed) (*rankPlan, error) {
	if len(l.stages) > 1 {
		return l.stagedPlan(p, ins)
	}
	if err := l.decide(p, ins); err != nil {
		return nil, err
	}
	l.key = l.key[:0]
	for _, v := range ins {
		l.key = appendLayout(l.key, v.layout)
	}
	if r := p.plans.byLayout[string(l.key)]; r != nil {
		return r, nil
	}
	layouts := make([]shard.Layout, len(ins))
	for i, v := range ins {
		layouts[i] = v.layout
	}
	plan, err := shard.Rewrite(p.parsed, l.mesh, layouts, &shard.Options{Signals: l.hints, Parts: l.parts})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tensor.ErrProgram, err)
	}
	return l.prepare(&p.plans, plan, l.place, 0), nil
}

// stagedPlan is planOf for a session of several stages.
func (l *ledger) stagedPlan(p *program, ins []*placed) (*rankPlan, error) {
	l.key = l.key[:0]
	inputs := make([]shard.StagedLayout, len(ins))
	for i, v := range ins {
		inputs[i] = shard.StagedLayout{Stage: shard.AnyStage}
		if v.lies {
			inputs[i] = shard.StagedLayout{Stage: v.stage, Layout: v.layout}
		}
		n := uint16(inputs[i].Stage + 1)
		l.key = appendLayout(append(l.key, byte(n), byte(n>>8)), inputs[i].Layout)
	}
	r := p.plans.byLayout[string(l.key)]
	if r == nil {
		plan, err := shard.PlaceStages(p.parsed, l.stages, l.stageOf, inputs, &shard.Options{Signals: l.hints})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", tensor.ErrProgram, err)
		}
		r = l.prepare(&p.plans, plan, l.rank, l.stage)
	}
	for i, v := range ins {
		if !v.lies {
			v.stage, v.layout, v.lies = r.plan.Inputs[i].Stage, r.plan.Inputs[i].Layout, true
		}
	}
	return r, nil
}

// prepare compiles this worker's steps of a plan and keeps it under l.key. rank and stage
// are this worker's in the plan.
func (l *ledger) prepare(c *planCache, plan *shard.Plan, rank, stage int) *rankPlan {
	l.traffic.rewritten++
	r := preparePlan(l.dev, plan, rank, stage)
	c.put(l.key, r)
	return r
}

// decide gives layouts to the inputs of a program that have none.
func (l *ledger) decide(p *program, ins []*placed) error {
	for i, v := range ins {
		if v.lies {
			continue
		}
		if p.plans.chosen == nil {
			var err error
			if p.plans.chosen, err = l.choose(p.parsed); err != nil {
				return fmt.Errorf("%w: %w", tensor.ErrProgram, err)
			}
		}
		v.layout, v.lies = p.plans.chosen[i], true
	}
	return nil
}

// choose returns the layouts of p's inputs: those of the config, or the best for p if the
// config leaves the choice open.
func (l *ledger) choose(p *tensor.Program) ([]shard.Layout, error) {
	out, err := shard.Place(p, l.mesh, l.hints)
	if err != nil || !l.auto {
		return out, err
	}
	o := l.speed
	o.Signals = l.hints
	best, err := shard.Auto(p, l.mesh, &o)
	if err != nil {
		return nil, err
	}
	return best.Inputs, nil
}

// redistribution returns the plan that gives v another layout.
func (l *ledger) redistribution(v *placed, to shard.Layout) (*rankPlan, error) {
	l.key = append(appendLayout(appendLayout(l.key[:0], v.layout), to), byte(v.dtype))
	for _, n := range v.shape {
		l.key = binary.AppendUvarint(l.key, uint64(n))
	}
	if r := l.moves.byLayout[string(l.key)]; r != nil {
		return r, nil
	}
	plan, err := shard.Redistribute(l.mesh, v.dtype, v.shape, v.layout, to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", errProtocol, errInternal, err)
	}
	r := preparePlan(l.dev, plan, l.place, 0)
	l.moves.put(l.key, r)
	return r, nil
}
