package cpu

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// tile is how many elements a strided or scalar operand is made contiguous for at a time: few enough to stay in the
// first-level cache with the others.
const tile = 1024

// lowered is a step with everything decided that doesn't depend on the run.
type lowered struct {
	instr int
	f     func(r *run) error
	// second, if there is one, is shared as f is, when all parts of f are done.
	second func(r *run) error
	after  func(r *run) error // if there is one: when all parts of f are done, by one thread
	sums   int                // words that parts leave to after
	parts  int                // more than 1: shared among all threads, f does part r.part of r.parts
}

// run is what one thread has of the running program: the operands, which part of a shared step is its own, and scratch
// memory. It grows to what its largest program needs and is used again, so a program that ran before allocates nothing
// but its results.
type run struct {
	table       *kernel.Table
	part, parts int
	bufs        [][]byte // of each of the plan's buffers
	scalars     []float64

	in    [4]pointer   // operands of a loop; here because what a function value is given lives on the heap
	own   [5]float64   // its scalars
	tiles [4][]uint64  // contiguous copies of operands
	pack  []float32    // for the matrix product
	wide  [2][]float32 // and its operands of 16 bits
	grad  []float32    // rows of a gradient
	rows  [3][]uint64  // rows of softmax and the like along an inner dim
	cols  []uint64     // convolution windows
	words []uint64     // of tile programs
	ptrs  []pointer    // theirs

	sums []uint64 // the same for all threads: what parts of a step leave to its end

	foldAt  int // the result that a tile program folds into, -1 for none yet
	foldAcc float64

	chain        []kernel.ChainOp
	chainScalars []float32
}

// share is this thread's part of n elements, cut at multiples of unit. Which elements are one's own changes no bit of
// them: loops go by whole tiles and rows.
func (r *run) share(n, unit int) (lo, hi int) {
	if r.parts <= 1 {
		return 0, n
	}
	units := (n + unit - 1) / unit
	return min(units*r.part/r.parts*unit, n), min(units*(r.part+1)/r.parts*unit, n)
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
	if c.shares {
		d.pool.begin() // so that they are awake when the first step comes
		defer d.pool.end()
	}
	r := d.lanes[0]
	d.runs++
	plan := c.plan
	if d.temp == nil && plan.Temp > 0 || d.temp != nil && d.temp.Len() < plan.Temp {
		d.release()
		if d.temp, err = d.alloc(plan.Temp); err != nil {
			return fmt.Errorf("temporaries: %w", err)
		}
	}
	d.outs = d.outs[:0]
	at := -1 // instruction of the step that runs
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
			if at >= 0 {
				err = runError(plan, at, err)
			}
		}
		if err == nil {
			return
		}
		for i, b := range d.outs {
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
				r.bufs[i] = d.temp.Bytes()[b.Off : b.Off+b.Size]
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
		d.outs = append(d.outs, block)
		r.bufs[o.Buf] = nil
		if block != nil {
			r.bufs[o.Buf] = block.Bytes()[:plan.Buffers[o.Buf].Size]
		}
	}
	d.sums = grow(d.sums, c.sums)
	for _, l := range d.lanes {
		l.bufs, l.scalars, l.sums = r.bufs, scalars, d.sums
	}
	var start time.Time
	for i := range c.steps {
		at = c.steps[i].instr
		if d.trace != nil {
			start = time.Now()
		}
		if c.steps[i].parts > 1 {
			err = d.pool.run(c.steps[i].f, c.steps[i].parts)
			if err == nil && c.steps[i].second != nil {
				err = d.pool.run(c.steps[i].second, c.steps[i].parts)
			}
		} else {
			err = c.steps[i].f(r) // alone there is nothing left for a second round
		}
		if err == nil && c.steps[i].after != nil {
			err = c.steps[i].after(r)
		}
		if err != nil {
			return runError(plan, at, err)
		}
		if d.trace != nil {
			d.trace(plan, i, time.Since(start))
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		if b := d.outs[i]; taken(s, o, b) {
			s.got[o.Take].Block = nil // moved
		}
		in := &plan.Program.Instrs[o.Instr]
		s.put(base+uint64(o.Instr), in.DType, plan.Program.Shapes[in.Shape], d.outs[i])
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
	for k, r := range p.ArgsOf(i) {
		if k == tensor.MaxErrorArgs {
			in = append(in, fmt.Sprintf("%d more", len(p.ArgsOf(i))-k))
			break
		}
		if _, ok := r.Scalar(); !ok {
			d, s := p.TypeOf(r)
			in = append(in, fmt.Sprintf("%v%v", d, s))
		}
	}
	return &tensor.RunError{Instr: i, Op: p.Instrs[i].Op.String(), Inputs: strings.Join(in, ", "), Err: err}
}
