package cuda

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// running is a program that runs.
type running struct {
	*space
	c       *compiled
	scalars []float64
	stop    *atomic.Bool
	outs    []*shm.Block     // of the results
	buffers []buffer         // of the plan
	bytes   [][]byte         // of the buffers' copies on the host
	scratch driver.DevicePtr // what kernels use for themselves
	did     Counters

	page      driver.DevicePtr // the scalars of generated kernels, and small inputs
	pageBytes int
	sends     []*value         // the inputs in it
	failures  driver.DevicePtr // where kernels that may fail write the place
	record    []byte           // where the first failure is written, nil without checks
	recordAt  driver.DevicePtr // its address for the device
	checked   []int            // their steps, so far
	results   driver.DevicePtr // where small results are collected
	fetched   []int            // the outputs that were
}

// buffer is a buffer of the plan, on the device and on the host. Steps on the host and
// kernels write to one of the two, and make the other old.
type buffer struct {
	at          driver.DevicePtr
	here, there bool       // the copy on the host, or the one on the device, is current
	copy        *shm.Block // on the host, nil for none yet
	uploading   bool       // the stream may still read copy
}

// tempUnit is what the memory for temporaries is a multiple of: a few bytes more don't
// move it, so that graphs stay of use.
const tempUnit = 4 << 10

// never is the stop flag of programs without one.
var never atomic.Bool

// execute runs c over the inputs in s.got and makes its results.
func (s *space) execute(c *compiled, base uint64, scalars []float64, stop *atomic.Bool) error {
	s.dev.runs.Add(1)
	r := &running{space: s, c: c, scalars: scalars, stop: cmp.Or(stop, &never)}
	err := r.bind()
	var late *pending
	switch {
	case err != nil:
	case c.hosted:
		if err = r.steps(); err == nil {
			err = r.uploadResults()
		}
		if e := r.firstFailure(); e != nil {
			err = e // before what a step on the host made of it
		}
		r.checked = nil
		if err == nil {
			late, err = r.note(base)
		}
	default:
		err = r.do(func() (err error) {
			if err = r.steps(); err == nil {
				late, err = r.note(base)
			}
			return err
		})
		if err != nil {
			if e := r.firstFailure(); e != nil {
				err = e
			}
		}
	}
	for i := range r.buffers {
		r.drop(&r.buffers[i])
	}
	s.dev.count.add(&r.did)
	for i, b := range r.outs {
		o := &c.plan.Outputs[i]
		taken := b != nil && o.Take >= 0 && s.got[o.Take].block == b
		switch {
		case err != nil && !taken:
			s.release(b)
		case err == nil:
			if taken {
				s.got[o.Take].block = nil // moved
			}
			late.expects(i, r.fetched, s.result(c, base, i, b, late.orNone()))
		}
	}
	return err
}

// result makes the result that is output i of a block. from may be nil.
func (s *space) result(c *compiled, base uint64, i int, b *shm.Block, from *pending) *value {
	instr := c.plan.Outputs[i].Instr
	in := &c.plan.Program.Instrs[instr]
	v := s.put(base+uint64(instr), in.DType, c.plan.Program.Shapes[in.Shape], b)
	v.from, v.made, v.out = from, s.graphs[c], i
	return v
}

// bind finds the device memory of the buffers: that of the inputs, the temporaries, and
// blocks for the results. A result takes the block of a donated input where the plan
// allows it and no other reference to the block exists.
func (r *running) bind() error {
	plan := r.c.plan
	if err := r.inputs(); err != nil {
		return err
	}
	own, ends := roundUp(plan.Temp), roundUp(r.c.checks*failureBytes)+roundUp(r.c.ends)
	if n := own + r.c.scratch + ends + r.pageBytes; n > 0 && (r.temp == nil || r.temp.Len() < n) {
		n = (n + tempUnit - 1) / tempUnit * tempUnit
		r.release(r.temp)
		r.temp = nil
		var err error
		if r.temp, err = r.alloc(n); err != nil {
			return fmt.Errorf("temporaries: %w", err)
		}
	}
	temp := r.at(r.temp)
	r.scratch = temp + driver.DevicePtr(own)
	r.failures = r.scratch + driver.DevicePtr(r.c.scratch)
	r.results = r.failures + driver.DevicePtr(roundUp(r.c.checks*failureBytes))
	r.page = r.failures + driver.DevicePtr(ends)
	r.place()
	r.buffers, r.bytes = make([]buffer, len(plan.Buffers)), make([][]byte, len(plan.Buffers))
	for i := range plan.Buffers {
		switch b := &plan.Buffers[i]; b.Place {
		case compile.External:
			r.buffers[i] = buffer{at: r.input(r.got[b.Index]), there: true}
		case compile.Temp:
			r.buffers[i] = buffer{at: temp + driver.DevicePtr(b.Off)}
		}
	}
	for i := range plan.Outputs {
		o := &plan.Outputs[i]
		var block *shm.Block
		var err error
		if o.Take >= 0 && r.got[o.Take].exclusive() {
			block = r.got[o.Take].block
		} else if block, err = r.alloc(plan.Buffers[o.Buf].Size); err != nil {
			return plan.NoSpace(o.Instr, err)
		}
		r.outs = append(r.outs, block)
		r.buffers[o.Buf] = buffer{at: r.at(block)}
	}
	return nil
}

// noFailures has the checks of the program find that nothing failed so far.
func (r *running) noFailures() error {
	if r.c.checks == 0 {
		return nil
	}
	return r.do(func() error {
		return r.dev.mem.API().Fill32Async(r.failures, math.MaxUint32, uint64(r.c.checks), r.stream.Driver())
	})
}

// steps runs the program: segments of kernels, and the steps on the host between them.
func (r *running) steps() error {
	if err := r.sendPage(); err != nil {
		return err
	}
	x := r.instance()
	for i, n := 0, 0; i < len(r.c.plan.Steps); {
		if err := r.stopped(i); err != nil {
			return err
		}
		from := i
		var err error
		if n < len(r.c.segments) && r.c.segments[n].from == i {
			err = r.segment(n, x)
			i, n = r.c.segments[n].to, n+1
		} else {
			err = r.onHost(i)
			i++
		}
		for _, ended := range r.c.last[from:i] {
			for _, buf := range ended {
				if r.c.plan.Buffers[buf].Place != compile.Output {
					r.drop(&r.buffers[buf])
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stopped returns the error of step i if the program is to stop there.
func (r *running) stopped(i int) error {
	if r.stop.Load() {
		return r.c.plan.RunError(r.c.plan.Steps[i].Instr, tensor.ErrStopped)
	}
	return nil
}

// written notes that step i writes its outputs on the device.
func (r *running) written(i int) {
	for _, o := range r.c.plan.Steps[i].Outs() {
		b := &r.buffers[o.Buf]
		b.here, b.there = false, true
	}
}

// launch puts the kernels of step i into the stream, and waits where too much is in it.
func (r *running) launch(i int) error {
	k := r.c.kernels[i]
	if r.queued += k.work(); r.queued > maxLaunch {
		if err := r.settle(); err != nil {
			return err
		}
	}
	r.did.Launches += uint64(len(k.launches))
	return r.kernels(i)
}

// kernels puts the kernels of step i into the stream.
func (r *running) kernels(i int) error {
	k := r.c.kernels[i]
	if k.bound > 0 {
		r.checked = append(r.checked, i)
	}
	for j := range k.launches {
		if err := r.launchOne(i, &k.launches[j]); err != nil {
			return fmt.Errorf("launching %s: %w", nameOf(&r.c.plan.Steps[i]), err)
		}
	}
	return nil
}

// launchOne puts a kernel of a step into the stream.
func (r *running) launchOne(i int, l *launch) error {
	if l.product != nil {
		return r.multiply(l.product)
	}
	var a driver.Args
	for _, arg := range l.args {
		switch v := arg.(type) {
		case compile.Operand:
			a.Pointer(r.operand(&v))
		case ptx.Scalar:
			a.Uint64(v.Bits(r.scalars))
		case scalars:
			a.Pointer(r.page + driver.DevicePtr(l.page))
		case failure:
			a.Pointer(r.failureAt())
		case recordOf:
			a.Pointer(r.page + driver.DevicePtr(8*len(r.c.page)))
		case step:
			a.Uint32(uint32(i))
		case uint32:
			a.Uint32(v)
		case uint64:
			a.Uint64(v)
		}
	}
	d := driver.Launch{Grid: l.grid, Block: l.block, Stream: r.stream.Driver()}
	return r.do(func() error { return r.dev.mem.API().Launch(l.function, d, &a) })
}

// multiply puts a product into the stream.
func (r *running) multiply(p *product) error {
	var workspace driver.DevicePtr
	if p.plan.Workspace() > 0 {
		workspace = (r.operand(&p.workspace) + workspaceAlign - 1) &^ (workspaceAlign - 1)
	}
	a, b, out := r.operand(&p.a), r.operand(&p.b), r.operand(&p.out)
	r.did.Products++
	return r.do(func() error { return p.handle.Run(p.plan, a, b, out, workspace, r.stream.Driver()) })
}

// operand returns where an operand's first element lies on the device.
func (r *running) operand(o *compile.Operand) driver.DevicePtr {
	at := r.scratch
	if o.Buf != scratch {
		at = r.buffers[o.Buf].at
	}
	return at + driver.DevicePtr(o.Off*o.DType.Size())
}
