package worker

import (
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
)

// rankPlan is a plan as one worker carries it out.
type rankPlan struct {
	plan   *shard.Plan
	stage  int // of this worker, in the plan
	steps  []planStep
	values int  // length of a table of the plan's values
	inline bool // every collective is waited for at once: none runs beside another step
}

// planStep is a step of this rank, with its program compiled. A program that could not be
// compiled is a step that fails.
type planStep struct {
	*shard.Step
	program device.Program
	hash    tensor.Hash
	err     error
	scalars []float64
	inputs  []uint64
	first   uint64 // id of the first result of its last run
	// dead reports for every tensor of a collective that no later step reads it: the
	// result may take its place.
	dead []bool
	// inline is set for a collective that is waited for at once: it needs no goroutine.
	inline bool
}

// preparePlan compiles the programs of one rank of a plan.
func preparePlan(dev device.Device, p *shard.Plan, rank, stage int) *rankPlan {
	mine := p.Ranks[rank].Steps
	r := &rankPlan{plan: p, stage: stage, steps: make([]planStep, len(mine)), values: len(p.Inputs), inline: true}
	pending := map[int]*planStep{} // collectives that are started and not waited for
	for i := range mine {
		step := &r.steps[i]
		step.Step = &mine[i]
		switch step.Kind {
		case shard.RunProgram:
			step.compile(dev)
			for _, v := range step.Run.Inputs {
				readBeside(pending, v)
			}
			for _, k := range step.Run.Kept {
				r.note(k.Var)
			}
		case shard.Start:
			r.prepareCollective(step, pending)
			step.inline = i+1 < len(mine) && mine[i+1].Kind == shard.Wait && mine[i+1].Collective.ID == step.Collective.ID
			r.inline = r.inline && step.inline
			pending[step.Collective.ID] = step
		case shard.Wait:
			from := pending[step.Collective.ID]
			delete(pending, step.Collective.ID)
			for k, m := range step.Collective.Moves {
				from.dead[k] = from.dead[k] && slices.Contains(step.Frees, m.In)
			}
		}
	}
	return r
}

// note makes room for v in tables of the plan's values.
func (r *rankPlan) note(v shard.Var) { r.values = max(r.values, int(v)+1) }

// compile compiles the step's program.
func (step *planStep) compile(dev device.Device) {
	encoded := step.Run.Program.Append(nil)
	step.hash = tensor.HashOf(encoded)
	step.program, step.err = dev.Compile(step.hash, encoded)
	step.scalars, step.inputs = make([]float64, len(step.Run.Scalars)), make([]uint64, len(step.Run.Inputs))
}

// prepareCollective finds which inputs of a collective are dead as far as the steps
// before its wait tell.
func (r *rankPlan) prepareCollective(step *planStep, pending map[int]*planStep) {
	moves := step.Collective.Moves
	step.dead = make([]bool, len(moves))
	for k, m := range moves {
		if step.Collective.Kind != protocol.Send {
			r.note(m.Out)
		}
		if step.Collective.Kind == protocol.Recv {
			continue
		}
		step.dead[k] = !slices.ContainsFunc(moves[:k], func(n shard.Move) bool { return n.In == m.In })
		readBeside(pending, m.In)
	}
}

// readBeside notes that a step reads v while collectives are pending: their results may
// not take its place.
func readBeside(pending map[int]*planStep, v shard.Var) {
	for _, from := range pending {
		for k, m := range from.Collective.Moves {
			from.dead[k] = from.dead[k] && m.In != v
		}
	}
}

// planCache keeps the plans of one program, or of redistributions, by the layouts of
// their inputs.
type planCache struct {
	byLayout map[string]*rankPlan
	chosen   []shard.Layout // for inputs without a layout; nil before the first run
}

// maxPlans bounds the plans of a cache.
const maxPlans = 64

// put keeps a plan.
func (c *planCache) put(key []byte, p *rankPlan) {
	if c.byLayout == nil || len(c.byLayout) >= maxPlans {
		c.byLayout = map[string]*rankPlan{}
	}
	c.byLayout[string(key)] = p
}

// appendLayout appends a layout to the key of a plan.
func appendLayout(b []byte, l shard.Layout) []byte {
	for _, p := range l {
		x := byte(0)
		if d, ok := p.Sharded(); ok {
			x = 1 + byte(d)
		} else if f, ok := p.Partial(); ok {
			x = 128 + byte(f)
		}
		b = append(b, x)
	}
	return b
}
