package cpu

import (
	"bytes"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// A value may lie in another order of dims than row-major, in which a plan left it:
// value.strides tells. Programs read it so, by a plan for these strides. Everything that
// leaves the device is row-major, so a value that is read or shared is copied first.

// maxVariants bounds the further plans of a program, for inputs in other orders of dims.
const maxVariants = 4

// variant is a program compiled for inputs of these strides, each nil for row-major.
type variant struct {
	strides [][]int
	c       *compiled
}

// forInputs returns c as compiled for the strides of the inputs in s.got. If it has too
// many variants, or if one would be too much work, forInputs makes the inputs row-major.
func (s *space) forInputs(c *compiled) (*compiled, error) {
	if !slices.ContainsFunc(s.got, func(v *value) bool { return v.strides != nil }) {
		return c, nil
	}
	strides := make([][]int, len(s.got))
	for i, v := range s.got {
		strides[i] = v.strides
	}
	if v := s.dev.variant(c, strides); v != nil {
		return v, nil
	}
	for _, v := range s.got {
		if err := s.rowMajor(v); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// variant returns c compiled for inputs of these strides, nil if there is none.
func (d *Device) variant(c *compiled, strides [][]int) *compiled {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range c.variants {
		if slices.EqualFunc(v.strides, strides, func(a, b []int) bool { return slices.Equal(a, b) }) {
			return v.c
		}
	}
	if len(c.variants) == maxVariants {
		return nil
	}
	opt := d.compile
	opt.Strides = strides
	v := variant{strides, nil}
	if plan := compile.Compile(c.plan.Program, &opt); d.CheckWork(plan) == nil {
		v.c = d.lowered(plan)
	}
	c.variants = append(c.variants, v)
	return v.c
}

// rowMajor moves v to memory in which it lies in row-major order, if it does not yet.
func (s *space) rowMajor(v *value) error {
	if v.strides == nil {
		return nil
	}
	d, n := s.dev, v.Bytes()
	b, err := d.alloc(n)
	if err != nil {
		return s.rowMajorInPlace(v, err)
	}
	if err := d.copyOrdered(d.view(b, n), s.bytes(v), v); err != nil {
		b.Release()
		return err
	}
	v.block.Release()
	v.block, v.strides = b, nil
	return nil
}

// rowMajorInPlace is rowMajor where there was no room for a copy: by one outside the
// device's memory. It returns full, the error of that, if v's memory has other readers.
func (s *space) rowMajorInPlace(v *value, full error) error {
	if v.block.Refs() > 1 || v.block.ReadOnly() {
		return full
	}
	in := s.bytes(v)
	if err := s.dev.copyOrdered(in, bytes.Clone(in), v); err != nil {
		return err
	}
	v.strides = nil
	return nil
}

// copyOrdered copies src, in which v lies by its strides, to dst in row-major order.
func (d *Device) copyOrdered(dst, src []byte, v *value) (err error) {
	from := compile.Operand{Scalar: -1, DType: v.DType, Shape: v.Shape, Strides: v.strides}
	to := compile.Operand{Scalar: -1, Buf: 1, DType: v.DType, Shape: v.Shape, Strides: v.Shape.Strides(), Dense: true}
	step := &compile.Step{Op: tensor.OpCast, In: []compile.Operand{from}, Out: to}
	l := lowered{f: movesBySize[v.DType.Size()].plainCopy(step), parts: 1}
	if work := copyWork(step); d.lower.threads > 1 && (work >= minSharedPlan || d.lower.eager) {
		l.parts = d.lower.partsOf(step, work)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	if l.parts > 1 {
		d.pool.begin()
		defer d.pool.end()
	}
	for _, lane := range d.lanes {
		lane.bufs, lane.stop = [][]byte{src, dst}, &never
	}
	return d.runStep(&l)
}
