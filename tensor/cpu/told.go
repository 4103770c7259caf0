package cpu

import (
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

var _ device.StepTracer = (*Device)(nil)

// TraceSteps implements device.StepTracer.
func (d *Device) TraceSteps(f func(device.Step)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = f
}

// tell tells of the i-th step of c, which began at start, and returns when it ended: the
// next one begins then. So the clock is read once a step, and telling of a step counts as
// the next one's time.
func (d *Device) tell(c *compiled, i int, start time.Time) (end time.Time) {
	took := time.Since(start)
	end = start.Add(took)
	if d.trace != nil {
		d.trace(c.plan, i, took)
	}
	if d.told == nil {
		return end
	}
	if c.told == nil { // told of for the first time
		c.told = make([]device.Step, len(c.plan.Steps))
		for k := range c.told {
			c.told[k] = stepOf(c.plan, &c.plan.Steps[k])
		}
	}
	s := c.told[i]
	s.Began, s.Took = start, took
	d.told(s)
	return end
}

// stepOf returns the operations of a step, its bytes, and the shape of its result as the
// program has it.
func stepOf(p *compile.Plan, s *compile.Step) (out device.Step) {
	switch s.Fused {
	case compile.Tiles, compile.TilesFold, compile.Epilogue:
		for _, in := range s.Body {
			out.Ops = append(out.Ops, in.Op)
		}
		if s.Fused == compile.TilesFold {
			out.Ops = append(out.Ops, s.Op)
		}
	case compile.Single, compile.HalfRows:
		out.Ops = []tensor.Op{s.Op}
	default:
		out.Ops = []tensor.Op{p.Program.Instrs[s.Instr].Op}
	}
	out.DType, out.Shape = s.Out.DType, recorded(p, s)
	for i := range s.In {
		if o := &s.In[i]; o.Scalar < 0 {
			out.Bytes += o.Shape.Elems() * o.DType.Size()
		}
	}
	for _, o := range s.Outs() {
		out.Bytes += o.Shape.Elems() * o.DType.Size()
	}
	return out
}

// recorded returns the dims that the program gives the first result of a step. The step
// itself may have the dims of a product without its batch, those of memory, or those of
// the last of several operations that a reshape lies between.
func recorded(p *compile.Plan, s *compile.Step) tensor.Shape {
	i := s.Instr
	switch s.Fused {
	case compile.Tiles, compile.Epilogue:
		for _, in := range s.Body { // the last one that writes there
			if in.Out == 0 {
				i = in.Instr
			}
		}
	case compile.Single:
		if in := &p.Program.Instrs[i]; in.Op != s.Op && in.Op.Info().Class != tensor.ClassView {
			return s.Out.Shape // a copy of an operand
		}
	case compile.TilesFold, compile.HalfRows, compile.Attention:
	default:
		return s.Out.Shape // the first of several results, which passes leave as it is
	}
	return p.Program.Shapes[p.Program.Instrs[i].Shape]
}
