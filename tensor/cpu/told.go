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

// tell tells of the i-th step of c, which began at start.
func (d *Device) tell(c *compiled, i int, start time.Time) {
	took := time.Since(start)
	if d.trace != nil {
		d.trace(c.plan, i, took)
	}
	if d.told == nil {
		return
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
}

// stepOf returns the operations of a step, its bytes, and the shape of its result.
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
	out.DType, out.Shape = s.Out.DType, s.Out.Shape
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
