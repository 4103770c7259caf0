package cpu

import (
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// NewEager is New, but threads share every step that can be, however small.
func NewEager(o *Options) (*Device, error) {
	d, err := New(o)
	if err == nil {
		d.lower.eager = true
	}
	return d, err
}

// CompileWith makes d compile as an engine with those options.
func (d *Device) CompileWith(o compile.Options) { d.compile = o }

// OnStep has f called with every step that d runs, and its plan.
func (d *Device) OnStep(f func(p *compile.Plan, step int)) {
	d.trace = func(p *compile.Plan, step int, _ time.Duration) { f(p, step) }
}

// Collide makes d find the plan of one program under the hash of another, as if both had that.
func (d *Device) Collide(of, under tensor.Hash) { d.plans.byHash[under] = d.plans.byHash[of] }

// GoesFar reports whether d runs fused step s in stretches rather than tile by tile.
func (d *Device) GoesFar(s *compile.Step) bool {
	return s.Fused == compile.Tiles && d.lower.tileProgram(s, newNestOf(s, s.Out.Shape, s.Out.Strides), nil).far
}

// Stretch is how long they are.
const Stretch = stretch

// Table is d's kernels.
func (d *Device) Table() *kernel.Table { return d.lower.table }
