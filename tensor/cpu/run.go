package cpu

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// tile is the number of elements for which a strided or scalar operand is made contiguous
// at a time: few enough to stay in the first-level cache with the other operands.
const tile = 1024

const (
	// breath is the most elements that a loop does between two looks at the stop flag:
	// the slowest loops take a few milliseconds for them.
	breath = 1 << 18
	// longRow is the same for a kernel that reads at the speed of memory and whose result
	// would have other bits if rows of a usual size were cut.
	longRow = 1 << 24
	// maxScratch bounds each piece of a thread's scratch memory, in bytes: a program must
	// not take the memory that all of the process needs.
	maxScratch = 4 << 30
	// smallScratch is the size of a piece that no one asks the machine for.
	smallScratch = 32 << 20
	// largeScratch is how many pieces beyond that a thread uses at a time.
	largeScratch = 2
)

// lowered is a step with all choices made that don't depend on the run.
type lowered struct {
	instr  int
	f      func(r *run) error // does part r.part of r.parts
	second func(r *run) error // as f, after all parts of f; may be nil
	after  func(r *run) error // runs once, after all parts of both; may be nil
	sums   int                // words that parts leave to after
	parts  int                // 1, or the number of parts that threads share
}

// run is one thread's state of the running program: the operands, the part of a shared
// step that the thread does, and scratch memory. The memory grows to what the largest
// program needs and is kept until Trim, so that a program which ran before allocates only
// its results.
type run struct {
	table       *kernel.Table[float32]
	table64     *kernel.Table[float64]
	ints        *kernel.IntProducts
	part, parts int
	lanes       int          // threads of the device
	stop        *atomic.Bool // the program is to end
	bufs        [][]byte     // of each of the plan's buffers
	scalars     []float64

	// The operands of a loop are here because arguments of a function value escape.
	in  [4]pointer
	own [5]float64 // scalars of the loop
	working

	sums []uint64 // what parts of a step leave to its end; the same slice for all threads

	bandRow, bandCol, bandWide int // of the band of a tile program

	foldAt  int // the result that a tile program folds into, -1 for none yet
	foldAcc float64
}

// working is memory that holds nothing from one step to the next.
type working struct {
	pack    []float32 // for the matrix product
	pack64  []float64 // for that of float64
	packI32 []int32   // for those of integers
	packI64 []int64
	packU8  kernel.BytesScratch
	wide    [2][]float32 // its operands of 16 bits, widened
	grad    []float32    // rows of a gradient
	rows    [4][]uint64  // rows of softmax and the like along an inner dim, and of folds
	cols    []uint64     // convolution windows
	words   []uint64     // of tile programs
	ptrs    []pointer    // operands of tile programs
	places  []int64      // indices, checked

	chain        []kernel.ChainOp
	chainScalars []float32
}

// share returns the range [lo, hi) of n elements that this thread does, cut at multiples
// of unit. The cut changes no bit of a result, as loops go by whole tiles and rows.
func (r *run) share(n, unit int) (lo, hi int) {
	if r.parts <= 1 {
		return 0, n
	}
	units := (n + unit - 1) / unit
	return min(units*r.part/r.parts*unit, n), min(units*(r.part+1)/r.parts*unit, n)
}

// never is the stop flag of programs without one.
var never atomic.Bool

// stopped reports whether the program is to end. Every loop asks once for each piece of
// work that takes up to a few milliseconds, and ends if so: results are then undefined.
func (r *run) stopped() bool { return r.stop.Load() }

// grow returns s with at least n elements. Their values are undefined. It panics with
// tensor.ErrNoSpace if they are more than maxScratch, or than this process can still get.
func grow[T any](r *run, s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	size := sizeOf[T]()
	if n > maxScratch/size {
		panic(fmt.Errorf("%w: scratch memory of %d elements, at most %d", tensor.ErrNoSpace, n, maxScratch/size))
	}
	if n <= smallScratch/size {
		return make([]T, n, n+n/4)
	}
	if all, m := int64(largeScratch*r.lanes*n*size), (limits.Machine{}).Memory(); all > m.Free {
		panic(fmt.Errorf("%w: scratch memory of %d bytes, %v", tensor.ErrNoSpace, all, m))
	}
	return make([]T, n)
}

// execute runs c over the inputs in s.got and stores its results, unless stop is set
// before the end.
func (d *Device) execute(s *space, c *compiled, base uint64, scalars []float64, stop *atomic.Bool) (err error) {
	if stop == nil {
		stop = &never
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.shares {
		d.pool.begin() // so that they are awake when the first step comes
		defer d.pool.end()
	}
	d.runs.Add(1)
	plan := c.plan
	d.outs = d.outs[:0]
	at := -1 // instruction of the step that runs
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
			if at >= 0 {
				err = plan.RunError(at, err)
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
	if err := d.bind(s, c, scalars, stop); err != nil {
		return err
	}
	timed := d.trace != nil || d.told != nil
	var start time.Time
	if timed {
		start = time.Now()
	}
	for i := range c.steps {
		at = c.steps[i].instr
		if err := d.runStep(&c.steps[i]); err != nil {
			return plan.RunError(at, err)
		}
		if timed {
			start = d.tell(c, i, start)
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		if b := d.outs[i]; taken(s, o, b) {
			s.got[o.Take].block = nil // moved
		}
		in := &plan.Program.Instrs[o.Instr]
		id := base + uint64(o.Instr)
		s.put(id, in.DType, plan.Program.Shapes[in.Shape], d.outs[i])
		s.values[id].strides = o.Strides
	}
	return nil
}

// bind finds the memory of c's buffers: that of the inputs in s.got, the temporaries, and
// blocks for the results, which it adds to d.outs. A result takes the block of a donated
// input where the plan allows it and no other reference to the block exists.
func (d *Device) bind(s *space, c *compiled, scalars []float64, stop *atomic.Bool) (err error) {
	plan, r := c.plan, d.lanes[0]
	d.need, d.ran = max(d.need, plan.Temp), true
	if d.temp == nil && plan.Temp > 0 || d.temp != nil && d.temp.Len() < plan.Temp {
		d.release()
		if d.temp, err = d.alloc(plan.Temp); err != nil {
			return fmt.Errorf("temporaries: %w", err)
		}
	}
	r.bufs = grow(r, r.bufs, len(plan.Buffers))
	for i := range plan.Buffers {
		b := &plan.Buffers[i]
		switch b.Place {
		case compile.External:
			r.bufs[i] = s.bytes(s.got[b.Index])
		case compile.Temp:
			r.bufs[i] = nil
			if b.Size > 0 {
				r.bufs[i] = d.view(d.temp, plan.Temp)[b.Off : b.Off+b.Size]
			}
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		var block *shm.Block
		if o.Take >= 0 && s.got[o.Take].exclusive() {
			block = s.got[o.Take].block
		} else if block, err = d.alloc(plan.Buffers[o.Buf].Size); err != nil {
			return plan.NoSpace(o.Instr, err)
		}
		d.outs = append(d.outs, block)
		r.bufs[o.Buf] = d.view(block, plan.Buffers[o.Buf].Size)
	}
	d.sums = grow(d.lanes[0], d.sums, c.sums)
	for _, l := range d.lanes {
		l.bufs, l.scalars, l.sums, l.stop = r.bufs, scalars, d.sums, stop
	}
	return nil
}

// runStep runs one step, on all threads if it is shared.
func (d *Device) runStep(l *lowered) (err error) {
	if l.parts > 1 {
		err = d.pool.run(l.f, l.parts)
		if err == nil && l.second != nil {
			err = d.pool.run(l.second, l.parts)
		}
	} else {
		err = l.f(d.lanes[0]) // one thread does both rounds in f
	}
	if err == nil && l.after != nil {
		err = l.after(d.lanes[0])
	}
	if d.lanes[0].stopped() {
		return tensor.ErrStopped
	}
	return err
}

// taken reports whether b is the donated input's own memory.
func taken(s *space, o *compile.OutputOf, b *shm.Block) bool {
	return b != nil && o.Take >= 0 && s.got[o.Take].block == b
}
