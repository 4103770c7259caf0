package cpu

import (
	"time"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// NewEager is New, but threads share every step that can be shared,
// however small.
func NewEager(o *Options) (*Device, error) {
	d, err := New(o)
	if err == nil {
		d.lower.eager = true
	}
	return d, err
}

// CompileWith makes d compile as an engine with those options.
func (d *Device) CompileWith(o compile.Options) { d.compile = o }

// OnStep has d call f with every step that it runs, and its plan.
func (d *Device) OnStep(f func(p *compile.Plan, step int)) {
	d.trace = func(p *compile.Plan, step int, _ time.Duration) { f(p, step) }
}

// GoesFar reports whether d runs fused step s in stretches rather than tile by tile.
func (d *Device) GoesFar(s *compile.Step) bool {
	return s.Fused == compile.Tiles && d.lower.tileProgram(s, newNestOf(s, s.Out.Shape, s.Out.Strides), nil).far
}

// Stretch is the number of elements of a stretch.
const Stretch = stretch

// Table returns d's kernels.
func (d *Device) Table() *kernel.Table[float32] { return d.lower.table }
