package cpu

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/compile"
	"github.com/ringside-go/ringside/tensor/cpu/kernel"
)

// tile is how many elements a strided or scalar operand is made contiguous for at a time: few enough to stay in the
// first-level cache with the others.
const tile = 1024

// lowered is a step with everything decided that doesn't depend on the run.
type lowered struct {
	instr int
	f     func(r *run) error
}

// run is the memory of a running program. A device has one; it grows to what its largest program needs and is used
// again, so a program that ran before allocates nothing but its results.
type run struct {
	table   *kernel.Table
	bufs    [][]byte // of each of the plan's buffers
	outs    []*shm.Block
	scalars []float64
	temp    *shm.Block
	in      [4]pointer  // operands of a loop; here because what a function value is given lives on the heap
	own     [5]float64  // its scalars
	tiles   [4][]uint64 // contiguous copies of operands
	pack    []float32   // for the matrix product
	rows    [3][]uint64 // rows of softmax and the like along an inner dim
	cols    []uint64    // convolution windows
	runs    uint64
}

func (r *run) release() {
	if r.temp != nil {
		r.temp.Release()
		r.temp = nil
	}
}

// grow returns s with at least n elements, what they hold is undefined.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// execute runs c over the inputs in s.got and stores its results.
func (d *Device) execute(s *Space, c *Compiled, base uint64, scalars []float64) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.run
	r.runs++
	r.scalars = scalars
	plan := c.plan
	if r.temp == nil && plan.Temp > 0 || r.temp != nil && r.temp.Len() < plan.Temp {
		r.release()
		if r.temp, err = d.alloc(plan.Temp); err != nil {
			return fmt.Errorf("temporaries: %w", err)
		}
	}
	r.outs = r.outs[:0]
	at := -1 // instruction of the step that runs
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrInternal, p, debug.Stack())
			if at >= 0 {
				err = runError(plan, at, err)
			}
		}
		if err == nil {
			return
		}
		for i, b := range r.outs {
			if b != nil && !taken(s, &plan.Outputs[i], b) {
				b.Release()
			}
		}
	}()
	r.bufs = grow(r.bufs, len(plan.Buffers))
	for i := range plan.Buffers {
		b := &plan.Buffers[i]
		switch b.Place {
		case compile.External:
			r.bufs[i] = s.got[b.Index].Bytes()
		case compile.Temp:
			if b.Size > 0 {
				r.bufs[i] = r.temp.Bytes()[b.Off : b.Off+b.Size]
			} else {
				r.bufs[i] = nil
			}
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		var block *shm.Block
		if o.Take >= 0 && s.got[o.Take].exclusive() {
			block = s.got[o.Take].Block
		} else if block, err = d.alloc(plan.Buffers[o.Buf].Size); err != nil {
			return fmt.Errorf("result of instruction %d: %w", o.Instr, err)
		}
		r.outs = append(r.outs, block)
		r.bufs[o.Buf] = nil
		if block != nil {
			r.bufs[o.Buf] = block.Bytes()[:plan.Buffers[o.Buf].Size]
		}
	}
	for i := range c.steps {
		at = c.steps[i].instr
		if err = c.steps[i].f(r); err != nil {
			return runError(plan, at, err)
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		if b := r.outs[i]; taken(s, o, b) {
			s.got[o.Take].Block = nil // moved
		}
		in := &plan.Program.Instrs[o.Instr]
		s.put(base+uint64(o.Instr), in.DType, plan.Program.Shapes[in.Shape], r.outs[i])
	}
	return nil
}

// taken reports whether b is the donated input's own memory.
func taken(s *Space, o *compile.OutputOf, b *shm.Block) bool {
	return b != nil && o.Take >= 0 && s.got[o.Take].Block == b
}

// runError names the instruction that failed.
func runError(plan *compile.Plan, i int, err error) error {
	p := plan.Program
	var in []string
	for _, r := range p.ArgsOf(i) {
		if _, ok := r.Scalar(); !ok {
			d, s := p.TypeOf(r)
			in = append(in, fmt.Sprintf("%v%v", d, s))
		}
	}
	return &tensor.RunError{Instr: i, Op: p.Instrs[i].Op.String(), Inputs: strings.Join(in, ", "), Err: err}
}
