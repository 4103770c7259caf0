package cpu

import (
	"cmp"
	"sync/atomic"

	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Steps are the steps of a plan, each of which runs alone over memory that its caller
// has. They serve a device that lacks a kernel for some steps.
type Steps struct {
	dev *Device
	c   *compiled
}

// Steps makes the steps of a plan ready to run.
func (d *Device) Steps(plan *compile.Plan) *Steps { return &Steps{d, d.lowered(plan)} }

// Run runs step i. bufs holds the memory of each buffer that the step touches, as long as
// the buffer and aligned as the compiler says. The error is a *tensor.RunError; that of
// a step which stop has ended is tensor.ErrStopped.
func (s *Steps) Run(i int, bufs [][]byte, scalars []float64, stop *atomic.Bool) (err error) {
	d, step := s.dev, &s.c.steps[i]
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		if err != nil {
			err = s.c.plan.RunError(step.instr, err)
		}
	}()
	if step.parts > 1 {
		d.pool.begin()
		defer d.pool.end()
	}
	d.sums = grow(d.lanes[0], d.sums, s.c.sums)
	for _, l := range d.lanes {
		l.bufs, l.scalars, l.sums, l.stop = bufs, scalars, d.sums, cmp.Or(stop, &never)
	}
	return d.runStep(step)
}
